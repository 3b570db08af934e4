package rag

import (
	"cmp"
	"fmt"
	"sort"
	"strings"
	"unicode"

	"github.com/vecbolt/vecbolt/rag/split"
)

// DefaultMaxContextTokens is the default limit of a context, in tokens.
const DefaultMaxContextTokens = 2048

// ContextOptions tune a context. The zero value is the default.
type ContextOptions struct {
	// MaxTokens is the maximum length of a context; 0 means DefaultMaxContextTokens.
	MaxTokens int
	// Count returns the number of tokens in a text; nil means split.Estimate.
	Count func(text string) int
	// Source returns the attribution of a chunk; nil means SourceOf.
	Source func(c Chunk) string
}

func (o *ContextOptions) validate() error {
	if o.MaxTokens < 0 {
		return fmt.Errorf("%w: context of %d tokens", ErrConfig, o.MaxTokens)
	}
	return nil
}

// A Citation is a source in a context. Numbers begin with 1 and are the numbers that the context
// shows.
type Citation struct {
	Number int    `json:"number"`
	ID     string `json:"id"`     // of the chunk
	Source string `json:"source"` // see SourceOf
}

// BuildContext joins chunks in their order, each with its source, until the limit is reached. It
// leaves out a chunk whose text is part of another chunk. If even the first chunk is too long, it
// is cut after the last word that fits, or between characters where the last space is far away.
func BuildContext(chunks []Chunk, o ContextOptions) (context string, tokens int, cited []Citation) {
	c := buildContext(chunks, o)
	return c.text, c.tokens, c.cited
}

// A builtContext is a context, with the chunks that it uses and those it leaves out.
type builtContext struct {
	text          string
	tokens, limit int
	cited         []Citation
	used, left    []Chunk
}

func buildContext(chunks []Chunk, o ContextOptions) *builtContext {
	count, source := o.Count, o.Source
	if count == nil {
		count = split.Estimate
	}
	if source == nil {
		source = SourceOf
	}
	r := &builtContext{limit: cmp.Or(o.MaxTokens, DefaultMaxContextTokens)}
	const end = "\n\n" // some tokenizers count it as a token of its own
	var b strings.Builder
	var texts []string
	for i, c := range chunks {
		text := strings.TrimSpace(c.Text)
		if text == "" {
			r.left = append(r.left, reason(c, "it has no text"))
			continue
		}
		if repeats(texts, text) {
			r.left = append(r.left, reason(c, "its text is part of another chunk"))
			continue
		}
		head := fmt.Sprintf("[%d] [Source: %s]\n", len(r.cited)+1, oneLine(source(c)))
		n := count(head + text + end)
		why := fmt.Sprintf("source %d", len(r.cited)+1)
		if n > r.limit && len(r.cited) == 0 {
			text = cut(text, func(text string) bool { return count(head+text+end) <= r.limit })
			n = count(head + text + end)
			why += ", cut to the limit"
		}
		if text == "" || r.tokens+n > r.limit && len(r.cited) > 0 {
			for _, c := range chunks[i:] {
				r.left = append(r.left, reason(c, "the context has no room for it"))
			}
			break
		}
		b.WriteString(head + text + end)
		r.tokens += n
		texts = append(texts, text)
		r.cited = append(r.cited, Citation{Number: len(r.cited) + 1, ID: c.ID, Source: source(c)})
		r.used = append(r.used, reason(c, "%s", why))
	}
	r.text = strings.TrimSuffix(b.String(), "\n")
	return r
}

// oneLine replaces control characters: a source must not begin a line that looks like another one.
func oneLine(source string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, source)
}

// repeats reports whether one of texts contains text.
func repeats(texts []string, text string) bool {
	for _, t := range texts {
		if strings.Contains(t, text) {
			return true
		}
	}
	return false
}

// cut returns the longest prefix of text that fits, without the word that it ends in: not all
// languages have spaces between words, so this must lose less than a quarter of the prefix.
func cut(text string, fits func(string) bool) string {
	var characters []int
	for i := range text {
		characters = append(characters, i)
	}
	n := sort.Search(len(characters), func(i int) bool { return !fits(text[:characters[i]]) })
	if n == 0 {
		return ""
	}
	end := characters[n-1]
	longest := text[:end]
	space := strings.LastIndexAny(text[:end+1], " \n") // the prefix may end before a space
	if space > 0 && 4*(end-space) < end && fits(text[:space]) {
		longest = text[:space]
	}
	return longest
}

// SourceOf names the source of a chunk: its file with line or page, as Learn and caches record it,
// or its id. Files of pages have no lines: if a chunk has a line, its page is only a field of the
// file, such as front matter.
func SourceOf(c Chunk) string {
	file, _ := c.Metadata[FieldSourceFile].(string)
	if file == "" {
		file, _ = c.Metadata[FieldSource].(string)
	}
	if file == "" {
		return c.ID
	}
	if line, ok := c.Metadata[FieldLineNumber].(int64); ok && line > 0 {
		return fmt.Sprintf("%s:%d", file, line)
	}
	if page, ok := c.Metadata[FieldPage].(int64); ok && page > 0 {
		return fmt.Sprintf("%s, page %d", file, page)
	}
	return file
}
