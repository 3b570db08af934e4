// Package errtext words errors for their readers: advice in Go for programs, no names of packages
// for users of the service and of the command line, and the names that exist for a wrong one. It
// imports no package of the project, and knows their names as text only.
package errtext

import (
	"strings"
	"unicode"
)

// packages are the names that begin error texts, or follow the context that a caller added.
var packages = []string{
	"db: ", "filter: ", "exchange: ", "segment: ", "wal: ", "meta: ", "vfs: ", "knowledge: ", "rag: ",
	"embed: ", "load: ", "chat: ", "weaviate: ", "models: ", "vectorize: ", "server: ", "split: ",
}

// advised is an error with advice for Go programs.
type advised struct {
	error
	advice string
}

const adviceBegins = " (in Go: "

func (e advised) Error() string { return e.error.Error() + adviceBegins + e.advice + ")" }
func (e advised) Unwrap() error { return e.error }

// InGo adds advice for Go programs to an error: the functions and options that help. Plain removes
// it. The advice has no parentheses.
func InGo(err error, advice string) error { return advised{err, advice} }

// cutAdvice returns a text without advice for Go programs.
func cutAdvice(text string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, adviceBegins)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if end := strings.IndexAny(rest, "()"); end >= 0 && rest[end] == ')' {
			text = rest[end+1:]
			continue
		}
		out.WriteString(adviceBegins)
		text = rest
	}
}

// Plain returns the text of an error without advice for Go programs, and without the names of
// packages that begin it, a line of it or a context. Go programs want these names, to say which
// library an error comes from; others do not know the packages.
func Plain(text string) string {
	var out strings.Builder
	text = cutAdvice(text)
	for text != "" {
		for _, name := range packages {
			if rest, found := strings.CutPrefix(text, name); found {
				text = rest
				break
			}
		}
		end := len(text)
		if i := strings.Index(text, ": "); i >= 0 {
			end = i + len(": ")
		}
		if i := strings.IndexByte(text, '\n'); i >= 0 && i < end {
			end = i + 1
		}
		out.WriteString(text[:end])
		text = text[end:]
	}
	return out.String()
}

// OneLine returns the beginning of an untrusted text, such as the answer of a server, for an error:
// on one line, without escapes of terminals, and cut behind the given number of bytes.
func OneLine(text string, most int) string {
	unseen := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), unseen), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
