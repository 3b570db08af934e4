package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/rag/embed"
)

const want = `indexed [tea#0 tea#1 bicycle#0 bicycle#1]
how do I oil a chain?
[1] [Source: bicycle#0]
# Bicycle

## Chain

Oil the chain, then wipe it dry.
how hot is water for green tea?
[1] [Source: tea#0]
# Tea

## Green

Steep green tea at 80 degrees.
`

// TestProviders runs the program with each provider; OpenAI and Ollama are local servers that speak
// their protocols and embed as the hash embedder does.
func TestProviders(t *testing.T) {
	model, err := embed.Trigram(512)
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	answer := func(w http.ResponseWriter, r *http.Request, reply func(vecs [][]float32) object) {
		var request struct {
			Model string   `json:"model"`
			Input []string `json:"input"`
		}
		err := json.NewDecoder(r.Body).Decode(&request)
		if err != nil || request.Model != "some-model" {
			t.Errorf("%s: %+v, %v", r.URL, request, err)
		}
		vecs, err := model.EmbedBatch(r.Context(), request.Input)
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			err = json.NewEncoder(w).Encode(reply(vecs))
		}
		if err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		if key := r.Header.Get("Authorization"); key != "Bearer secret" {
			t.Errorf("key %q", key)
		}
		answer(w, r, func(vecs [][]float32) object {
			var data []object
			for i, v := range vecs {
				data = append(data, object{"object": "embedding", "index": i, "embedding": v})
			}
			return object{"object": "list", "data": data, "model": "some-model"}
		})
	})
	mux.HandleFunc("POST /api/embed", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(vecs [][]float32) object { return object{"model": "some-model", "embeddings": vecs} })
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	for name, value := range map[string]string{"OPENAI_BASE_URL": server.URL + "/v1", "OPENAI_API_KEY": "secret", "OPENAI_EMBEDDING_MODEL": "some-model",
		"OLLAMA_HOST": server.URL, "OLLAMA_EMBEDDING_MODEL": "some-model"} {
		t.Setenv(name, value)
	}
	for _, provider := range []string{"hash", "openai", "ollama"} {
		var out bytes.Buffer
		if err := run(t.Context(), &out, filepath.Join(t.TempDir(), "howto.vdb"), provider); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
		if out.String() != want {
			t.Errorf("%s prints\n%s", provider, &out)
		}
	}
}
