// Package errtext words errors for their readers: advice in Go for programs, no names of packages
// for users of the service and of the command line, and the names that exist for a wrong one. It
// imports no package of the project, and knows their names as text only.
package errtext

import (
	"strconv"
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

// Plain returns the text of an error without advice for Go programs, and without the names of
// packages that begin it, a line of it or a context. Go programs want these names, to say which
// library an error comes from; others do not know the packages. What is quoted, such as an id,
// stays as it is.
func Plain(text string) string {
	var out strings.Builder
	last, quotes := byte('\n'), true // the last byte kept; quotes of this line are closed
	for begins := true; text != ""; {
		if begins {
			text = cutPackage(text)
		}
		if rest, found := cutAdvice(text); found {
			text, begins = rest, false
			continue
		}
		n := 1
		switch {
		case text == "":
			n = 0
		case text[0] == '"' && quotes && strings.IndexByte(opening, last) >= 0:
			quoted, err := strconv.QuotedPrefix(text)
			if quotes = err == nil; quotes {
				n = len(quoted)
			}
		case strings.HasPrefix(text, ": "):
			n = len(": ")
		}
		part := text[:n]
		if begins = part == ": " || part == "\n"; part != "" {
			last = part[n-1]
		}
		quotes = quotes || part == "\n"
		out.WriteString(part)
		text = text[n:]
	}
	return out.String()
}

// opening are the characters before a quote that opens.
const opening = "\n ([{:=,"

// cutPackage returns a text without the name of a package that begins it.
func cutPackage(text string) string {
	for _, name := range packages {
		if rest, found := strings.CutPrefix(text, name); found {
			return rest
		}
	}
	return text
}

// cutAdvice returns a text without the advice for Go programs that begins it.
func cutAdvice(text string) (rest string, found bool) {
	if rest, found = strings.CutPrefix(text, adviceBegins); found {
		if end := strings.IndexAny(rest, "()"); end >= 0 && rest[end] == ')' {
			return rest[end+1:], true
		}
	}
	return text, false
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
