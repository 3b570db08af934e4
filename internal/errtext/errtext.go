// Package errtext words errors for people who do not program: the users of the service and of the
// command line. Its input is a text; it knows no package of the project but by name.
package errtext

import "strings"

// packages are the names that begin error texts, or follow the context that a caller added.
var packages = []string{
	"db: ", "filter: ", "exchange: ", "segment: ", "wal: ", "meta: ", "vfs: ", "knowledge: ", "rag: ",
	"embed: ", "load: ", "chat: ", "weaviate: ",
}

// Plain returns the text of an error without the names of packages that begin it, a line of it or a
// context. Go programs want these names, to say which library an error comes from; others do not
// know the packages.
func Plain(text string) string {
	var out strings.Builder
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
