package rag

import "time"

// Stats are statistics of answered questions. The zero value has no question. Counts and times are
// sums over all questions.
type Stats struct {
	Queries       int `json:"queries"`        // without those that failed
	CacheHits     int `json:"cache_hits"`     // answers from the cache
	Chunks        int `json:"chunks"`         // in the answers
	ContextTokens int `json:"context_tokens"` // in the contexts
	PromptTokens  int `json:"prompt_tokens"`  // as in Response
	AnswerTokens  int `json:"answer_tokens"`

	// Time spent in each stage.
	EmbedTime     time.Duration `json:"embed_ns"`
	RetrievalTime time.Duration `json:"retrieval_ns"`
	RerankTime    time.Duration `json:"rerank_ns"`
	AnswerTime    time.Duration `json:"answer_ns"`

	// Means over all questions; CacheHitRate is from 0 to 1.
	AvgRetrievalMS   float64 `json:"avg_retrieval_ms"`
	CacheHitRate     float64 `json:"cache_hit_rate"`
	AvgChunks        float64 `json:"avg_chunks_retrieved"`
	AvgContextTokens float64 `json:"avg_context_tokens"`
}

// Add counts an answer.
func (s *Stats) Add(r *Response) {
	s.Queries++
	if r.FromCache {
		s.CacheHits++
	}
	s.Chunks += len(r.Chunks)
	s.ContextTokens += r.ContextTokens
	s.PromptTokens += r.PromptTokens
	s.AnswerTokens += r.AnswerTokens
	s.EmbedTime += r.EmbedTime
	s.RetrievalTime += r.RetrievalTime
	s.RerankTime += r.RerankTime
	s.AnswerTime += r.AnswerTime
	n := float64(s.Queries)
	s.AvgRetrievalMS = float64(s.RetrievalTime) / float64(time.Millisecond) / n
	s.CacheHitRate = float64(s.CacheHits) / n
	s.AvgChunks = float64(s.Chunks) / n
	s.AvgContextTokens = float64(s.ContextTokens) / n
}
