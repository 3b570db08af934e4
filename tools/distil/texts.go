package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// A source is a package with texts.
type source struct {
	name  string
	texts []string
}

// manuals are the directories of HTML pages, by package. Their licences are permissive; see
// docs/model.md.
var manuals = []struct{ name, dir string }{
	{"apache2-doc", "usr/share/doc/apache2-doc/manual/en"},
	{"postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"},
	{"python-scipy-doc", "usr/share/doc/python-scipy-doc/html"},
	{"python-sklearn-doc", "usr/share/doc/python-sklearn-doc/html"},
	{"python3.11-doc", "usr/share/doc/python3.11/html"},
	{"sqlite3-doc", "usr/share/doc/sqlite3"},
}

// readTexts returns the glosses of WordNet, then the paragraphs of each manual.
func readTexts(dir string) ([]source, error) {
	glosses, err := readWordNet(filepath.Join(dir, "usr/share/wordnet"))
	if err != nil {
		return nil, err
	}
	pool := []source{{"wordnet-base", glosses}}
	for _, m := range manuals {
		texts, err := readManual(filepath.Join(dir, m.dir))
		if err != nil {
			return nil, err
		}
		if len(texts) == 0 {
			return nil, fmt.Errorf("%s: no paragraphs in %s", m.name, m.dir)
		}
		pool = append(pool, source{m.name, texts})
	}
	return pool, nil
}

var marker = regexp.MustCompile(`\(.*\)`) // syntactic, behind adjectives

// readWordNet reads the synsets as "word, word: gloss".
func readWordNet(dir string) ([]string, error) {
	var texts []string
	for _, part := range []string{"noun", "verb", "adj", "adv"} {
		b, err := os.ReadFile(filepath.Join(dir, "data."+part))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "  ") {
				continue // the licence
			}
			data, gloss, ok := strings.Cut(line, " | ")
			fields := strings.Fields(data)
			if !ok || len(fields) < 4 {
				return nil, fmt.Errorf("data.%s: %.40q is no synset", part, line)
			}
			n, err := strconv.ParseUint(fields[3], 16, 16)
			if err != nil || len(fields) < 4+2*int(n) {
				return nil, fmt.Errorf("data.%s: %.40q has no list of words", part, line)
			}
			var words []string
			for i := range int(n) {
				words = append(
					words,
					strings.ReplaceAll(marker.ReplaceAllString(fields[4+2*i], ""), "_", " "),
				)
			}
			texts = append(texts, clean(strings.Join(words, ", ")+": "+gloss))
		}
	}
	return texts, nil
}

// clean joins the words of a text by single spaces.
func clean(s string) string { return strings.Join(strings.Fields(s), " ") }

// Lengths of paragraphs, in bytes.
const (
	shortest = 120
	longest  = 1200
	cutAt    = 600
)

// readManual returns the paragraphs of all pages in a directory, each once.
func readManual(dir string) ([]string, error) {
	var texts []string
	seen := map[string]bool{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".html" {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, p := range paragraphs(b) {
			if !seen[p] {
				seen[p] = true
				texts = append(texts, p)
			}
		}
		return nil
	})
	return texts, err
}

var (
	opens  = []string{"p", "dd", "li"}
	blocks = []string{
		"p",
		"dd",
		"dt",
		"li",
		"ul",
		"ol",
		"dl",
		"pre",
		"table",
		"div",
		"h1",
		"h2",
		"h3",
		"h4",
		"script",
		"style",
	}
)

// paragraphs returns the prose of a page: paragraphs and list items up to the next block, without
// those that are short or mostly code.
func paragraphs(page []byte) []string {
	var out []string
	var text strings.Builder
	inside := false
	flush := func() {
		p := clean(text.String())
		text.Reset()
		if len(p) >= shortest && len(p) <= longest && prose(p) {
			out = append(out, cutText(p))
		}
		inside = false
	}
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() == io.EOF && inside {
				flush()
			}
			return out
		case html.TextToken:
			if inside {
				text.Write(z.Text())
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			if slices.Contains(blocks, string(name)) {
				flush()
				inside = slices.Contains(opens, string(name))
			} else {
				text.WriteByte(' ')
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); slices.Contains(blocks, string(name)) {
				flush()
			}
		}
	}
}

// prose reports whether 85 % of the characters are letters and spaces.
func prose(s string) bool {
	all, plain := 0, 0
	for _, c := range s {
		all++
		if c == ' ' || unicode.IsLetter(c) {
			plain++
		}
	}
	return 100*plain > 85*all
}

// cutText cuts a text at a space.
func cutText(s string) string {
	if len(s) <= cutAt {
		return s
	}
	return s[:max(1, strings.LastIndexByte(s[:cutAt], ' '))]
}

// choose takes a number of glosses, and equal numbers of paragraphs from each manual: those with
// the smallest hashes, in order of hash.
func choose(pool []source, glosses, paragraphs int) []string {
	type hashed struct {
		hash [32]byte
		text string
	}
	var all []hashed
	for i, s := range pool {
		n := glosses
		if i > 0 {
			n = paragraphs / (len(pool) - 1)
		}
		var mine []hashed
		for _, t := range s.texts {
			mine = append(mine, hashed{sha256.Sum256([]byte(t)), t})
		}
		slices.SortFunc(
			mine,
			func(a, b hashed) int { return cmp.Or(bytes.Compare(a.hash[:], b.hash[:]), cmp.Compare(a.text, b.text)) },
		)
		all = append(all, mine[:min(n, len(mine))]...)
	}
	slices.SortFunc(
		all,
		func(a, b hashed) int { return cmp.Or(bytes.Compare(a.hash[:], b.hash[:]), cmp.Compare(a.text, b.text)) },
	)
	var texts []string
	for _, h := range all {
		texts = append(texts, h.text)
	}
	return texts
}
