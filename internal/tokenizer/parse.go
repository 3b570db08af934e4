package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A component is any part of tokenizer.json that has a type.
type component struct {
	Type string `json:"type"`

	// Of BertNormalizer, Replace, Strip and Prepend.
	Clean    *bool  `json:"clean_text"`
	CJK      *bool  `json:"handle_chinese_chars"`
	Accents  *bool  `json:"strip_accents"`
	Lower    *bool  `json:"lowercase"`
	Pattern  target `json:"pattern"`
	Content  string `json:"content"`
	Left     *bool  `json:"strip_left"`
	Right    *bool  `json:"strip_right"`
	Prepend_ string `json:"prepend"`

	// Of Metaspace and Punctuation.
	Replacement string `json:"replacement"`
	Scheme      string `json:"prepend_scheme"`
	AddPrefix   *bool  `json:"add_prefix_space"`
	Split       *bool  `json:"split"`
	Behavior    string `json:"behavior"`

	// Of sequences.
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Processors    []component `json:"processors"`

	// Of post-processors.
	Single  []templatePart             `json:"single"`
	Special map[string]templateSpecial `json:"special_tokens"`
	Sep     tokenPair                  `json:"sep"`
	CLS     tokenPair                  `json:"cls"`
}

type target struct {
	String *string
	Regex  *string
}

type templatePart struct {
	SpecialToken *struct {
		ID string `json:"id"`
	}
	Sequence *struct {
		ID string `json:"id"`
	}
}

type templateSpecial struct {
	IDs []int `json:"ids"`
}

// A tokenPair is a token and its id, as an array of two.
type tokenPair struct {
	token string
	id    int
}

func (p *tokenPair) UnmarshalJSON(b []byte) error {
	list := []any{&p.token, &p.id}
	return json.Unmarshal(b, &list)
}

// A tokenizerFile is a tokenizer.json.
type tokenizerFile struct {
	Added []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer    *component     `json:"normalizer"`
	PreTokenizer  *component     `json:"pre_tokenizer"`
	PostProcessor *component     `json:"post_processor"`
	Model         tokenizerModel `json:"model"`
}

// A tokenizerModel is the vocabulary and how words are divided into its tokens.
type tokenizerModel struct {
	Type         string          `json:"type"`
	Vocab        json.RawMessage `json:"vocab"`
	Unknown      string          `json:"unk_token"`
	UnknownID    *int            `json:"unk_id"`
	Prefix       string          `json:"continuing_subword_prefix"`
	Most         int             `json:"max_input_chars_per_word"`
	ByteFallback bool            `json:"byte_fallback"`
}

// Parse reads a tokenizer.json.
func Parse(b []byte) (*Tokenizer, error) {
	var file tokenizerFile
	ids, err := unmarshal(b, &file)
	if err != nil {
		return nil, formatf("%w", err)
	}
	t := &Tokenizer{ids: map[string]int{}, unknown: -1}
	m := &file.Model
	if m.Type == "" && (ids != nil || bytes.HasPrefix(bytes.TrimSpace(m.Vocab), []byte("{"))) && m.Prefix != "" {
		m.Type = "WordPiece" // old files do not state it
	}
	switch m.Type {
	case "WordPiece", "WordLevel":
		err = t.addWords(m, ids)
	case "Unigram":
		err = t.addUnigram(m)
	default:
		err = formatf("model %q is not supported", m.Type)
	}
	if err != nil {
		return nil, err
	}
	for _, a := range file.Added {
		if a.ID < 0 || a.ID > math.MaxInt32 {
			return nil, formatf("token %q has the number %d", a.Content, a.ID)
		}
		if a.Content != "" {
			t.ids[a.Content] = a.ID
			t.special = append(t.special, a.Content)
		}
	}
	if err := t.addNormalizer(file.Normalizer); err != nil {
		return nil, err
	}
	if err := t.addPreTokenizer(file.PreTokenizer); err != nil {
		return nil, err
	}
	if err := t.addPostProcessor(file.PostProcessor); err != nil {
		return nil, err
	}
	return t, nil
}

// addWords takes the model of a vocabulary of words, or of pieces of words. ids are nil if
// unmarshal has not read them.
func (t *Tokenizer) addWords(m *tokenizerModel, ids map[string]int) error {
	if ids == nil {
		if err := json.Unmarshal(m.Vocab, &ids); err != nil {
			return formatf("vocabulary: %w", err)
		}
	}
	for token, id := range ids {
		if id < 0 || id > math.MaxInt32 {
			return formatf("token %q has the number %d", token, id)
		}
	}
	unknown, ok := ids[m.Unknown]
	if !ok {
		return formatf("the unknown token %q is not in the vocabulary", m.Unknown)
	}
	t.ids, t.unknown = ids, unknown
	if m.Type == "WordPiece" {
		t.model = wordPiece(ids, unknown, cmp.Or(m.Prefix, "##"), cmp.Or(m.Most, 100))
		return nil
	}
	t.model = func(dst []int, word string) []int {
		if id, ok := t.ids[word]; ok {
			return append(dst, id)
		}
		return append(dst, t.unknown)
	}
	return nil
}

// addUnigram takes the model of a vocabulary whose tokens have scores.
func (t *Tokenizer) addUnigram(m *tokenizerModel) error {
	if m.ByteFallback {
		return formatf("Unigram with byte_fallback is not supported")
	}
	var vocab [][2]json.RawMessage
	if err := json.Unmarshal(m.Vocab, &vocab); err != nil {
		return formatf("vocabulary: %w", err)
	}
	tokens := make(map[string]scored, len(vocab))
	for i, entry := range vocab {
		var token string
		var score float64
		if json.Unmarshal(entry[0], &token) != nil || json.Unmarshal(entry[1], &score) != nil {
			return formatf("vocabulary: entry %d is not a token and a score", i)
		}
		if _, twice := t.ids[token]; !twice { // the first definition counts
			t.ids[token] = i
			tokens[token] = scored{i, score}
		}
	}
	if m.UnknownID == nil || *m.UnknownID < 0 || *m.UnknownID >= len(vocab) {
		return formatf("the unknown token has no number of the vocabulary")
	}
	t.unknown = *m.UnknownID
	delete(tokens, "")
	t.model = unigram(tokens, t.unknown)
	return nil
}

// unmarshal is json.Unmarshal, except that it takes a vocabulary out of the file first and reads it
// by plainVocab: encoding/json takes ten times as long for tens of thousands of tokens. ids is nil
// if the vocabulary has another form.
func unmarshal(b []byte, file *tokenizerFile) (ids map[string]int, err error) {
	const key, mark = `"vocab"`, `"\ufffevocab\ufffe"`
	if at := bytes.Index(b, []byte(key)); at >= 0 {
		colon := bytes.IndexByte(b[at:], ':')
		begin := at + colon + 1
		if colon >= 0 && len(bytes.TrimSpace(b[at+len(key):begin-1])) == 0 {
			ids, n := plainVocab(string(b[begin:]))
			if ids != nil && json.Unmarshal(slices.Concat(b[:begin], []byte(mark), b[begin+n:]), file) == nil &&
				string(file.Model.Vocab) == mark {
				return ids, nil
			}
			*file = tokenizerFile{} // the key stood elsewhere, or there is an error to report
		}
	}
	return nil, json.Unmarshal(b, file)
}

// plainVocab reads an object of natural numbers at the beginning of s, which need not be JSON, and
// returns the length of the object. It returns nil for other values and for unusual ones.
func plainVocab(s string) (ids map[string]int, n int) {
	next := func() byte { // the next byte after blanks; 0 at the end
		for ; n < len(s); n++ {
			if c := s[n]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				n++
				return c
			}
		}
		return 0
	}
	if next() != '{' {
		return nil, 0
	}
	ids = make(map[string]int, min(strings.Count(s, ":"), len(s)/10))
	for c := next(); c != '}'; c = next() {
		if len(ids) > 0 {
			if c != ',' {
				return nil, 0
			}
			c = next()
		}
		if c != '"' {
			return nil, 0
		}
		begin, plain := n, true
		for n < len(s) && s[n] != '"' {
			plain = plain && ' ' <= s[n] && s[n] < utf8.RuneSelf
			if s[n] == '\\' {
				plain = false
				n++
			}
			n++
		}
		if n >= len(s) {
			return nil, 0
		}
		token := s[begin:n]
		n++
		if !plain && json.Unmarshal([]byte(s[begin-1:n]), &token) != nil {
			return nil, 0
		}
		if next() != ':' {
			return nil, 0
		}
		first := next()
		id := int(first) - '0'
		if id < 0 || id > 9 {
			return nil, 0
		}
		for ; n < len(s) && '0' <= s[n] && s[n] <= '9'; n++ {
			if id = 10*id + int(s[n]-'0'); id > math.MaxInt32 || first == '0' {
				return nil, 0
			}
		}
		if n == len(s) || strings.IndexByte(" \t\r\n,}", s[n]) < 0 {
			return nil, 0
		}
		ids[token] = id
	}
	return ids, n
}

func is(p *bool, unset bool) bool {
	if p == nil {
		return unset
	}
	return *p
}

func (t *Tokenizer) addNormalizer(c *component) error {
	if c == nil {
		return nil
	}
	var f func(string) string
	switch c.Type {
	case "Sequence":
		for i := range c.Normalizers {
			if err := t.addNormalizer(&c.Normalizers[i]); err != nil {
				return err
			}
		}
		return nil
	case "BertNormalizer":
		lower := is(c.Lower, true)
		f = bertNormalizer(is(c.Clean, true), is(c.CJK, true), is(c.Accents, lower), lower)
	case "Lowercase":
		f = toLower
	case "NFC":
		f = norm.NFC.String
	case "NFD":
		f = norm.NFD.String
	case "NFKC":
		f = norm.NFKC.String
	case "NFKD":
		f = norm.NFKD.String
	case "StripAccents":
		f = func(s string) string { return strip(s, isMark) }
	case "Prepend":
		f = func(s string) string {
			if s == "" {
				return s
			}
			return c.Prepend_ + s
		}
	case "Strip":
		left, right := is(c.Left, true), is(c.Right, true)
		f = func(s string) string {
			if left {
				s = strings.TrimLeftFunc(s, isSpace)
			}
			if right {
				s = strings.TrimRightFunc(s, isSpace)
			}
			return s
		}
	case "Replace":
		switch {
		case c.Pattern.String != nil && *c.Pattern.String != "":
			f = func(s string) string { return strings.ReplaceAll(s, *c.Pattern.String, c.Content) }
		case c.Pattern.Regex != nil:
			// \s means all white space in this format, but only ASCII in Go.
			re, err := regexp.Compile(strings.ReplaceAll(*c.Pattern.Regex, `\s`, `[\s\v\x{85}\p{Z}]`))
			if err != nil {
				return formatf("normalizer: %w", err)
			}
			f = func(s string) string { return re.ReplaceAllLiteralString(s, c.Content) }
		default:
			return formatf("normalizer Replace has no pattern")
		}
	default:
		return formatf("normalizer %q is not supported", c.Type)
	}
	t.normalize = append(t.normalize, f)
	return nil
}

func (t *Tokenizer) addPreTokenizer(c *component) error {
	if c == nil {
		return nil
	}
	var f func([]string) []string
	switch c.Type {
	case "Sequence":
		for i := range c.PreTokenizers {
			if err := t.addPreTokenizer(&c.PreTokenizers[i]); err != nil {
				return err
			}
		}
		return nil
	case "BertPreTokenizer":
		f = cut(isSpace, isPunct)
	case "WhitespaceSplit":
		f = cut(isSpace, never)
	case "Whitespace":
		f = words
	case "Punctuation":
		if c.Behavior != "" && c.Behavior != "Isolated" {
			return formatf("pre-tokenizer Punctuation with behavior %q is not supported", c.Behavior)
		}
		f = cut(never, isPunct)
	case "Metaspace":
		scheme := c.Scheme
		if scheme == "" {
			scheme = "always"
			if !is(c.AddPrefix, true) {
				scheme = "never"
			}
		}
		f = metaspace(cmp.Or(c.Replacement, "▁"), scheme, is(c.Split, true))
	default:
		return formatf("pre-tokenizer %q is not supported", c.Type)
	}
	t.split = append(t.split, f)
	return nil
}

func (t *Tokenizer) addPostProcessor(c *component) error {
	if c == nil {
		return nil
	}
	switch c.Type {
	case "Sequence":
		for i := range c.Processors {
			if err := t.addPostProcessor(&c.Processors[i]); err != nil {
				return err
			}
		}
	case "BertProcessing", "RobertaProcessing":
		t.before, t.after = []int{c.CLS.id}, []int{c.Sep.id}
	case "TemplateProcessing":
		to := &t.before
		for _, part := range c.Single {
			switch {
			case part.Sequence != nil:
				to = &t.after
			case part.SpecialToken != nil:
				s, ok := c.Special[part.SpecialToken.ID]
				if !ok {
					return formatf("template names %q, which is no special token", part.SpecialToken.ID)
				}
				*to = append(*to, s.IDs...)
			}
		}
	case "ByteLevel": // concerns offsets only
	default:
		return formatf("post-processor %q is not supported", c.Type)
	}
	if slices.ContainsFunc(slices.Concat(t.before, t.after), func(id int) bool { return id < 0 || id > math.MaxInt32 }) {
		return formatf("a special token has a number out of range")
	}
	return nil
}

// BERT returns the WordPiece tokenizer of BERT for a vocabulary in order of ids, which must contain
// the usual special tokens. lower drops case and accents, as uncased models do.
func BERT(vocab []string, lower bool) (*Tokenizer, error) {
	t := &Tokenizer{ids: make(map[string]int, len(vocab))}
	for i, token := range vocab {
		if _, twice := t.ids[token]; !twice {
			t.ids[token] = i
		}
	}
	for _, token := range []string{"[UNK]", "[CLS]", "[SEP]"} {
		if _, ok := t.ids[token]; !ok {
			return nil, formatf("%s is not in the vocabulary", token)
		}
	}
	t.unknown = t.ids["[UNK]"]
	t.before, t.after = []int{t.ids["[CLS]"]}, []int{t.ids["[SEP]"]}
	for _, token := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		if _, ok := t.ids[token]; ok {
			t.special = append(t.special, token)
		}
	}
	t.normalize = append(t.normalize, bertNormalizer(true, true, lower, lower))
	t.split = append(t.split, cut(isSpace, isPunct))
	t.model = wordPiece(t.ids, t.unknown, continues, maxWord)
	t.ascii = newASCIIBERT(t.ids, t.unknown, lower, t.pipeline)
	return t, nil
}

// ReadVocab splits a vocab.txt, which has a token per line.
func ReadVocab(b []byte) []string {
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n"), "\n")
}
