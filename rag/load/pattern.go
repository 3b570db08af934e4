package load

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// ignore is a list of patterns; the last that matches decides.
type ignore []pattern

type pattern struct {
	re     *regexp.Regexp // of bytes
	keep   bool           // begins with !
	dirs   bool           // ends with /
	within string
}

// matches reports whether the list excludes a file or a directory.
func (l ignore) matches(name string, dir bool) bool {
	matched, _ := l.decide(name, dir)
	return matched
}

// covers reports whether the list names a file, or a directory above it.
func (l ignore) covers(file string) bool {
	for name, dir := file, false; name != "."; name, dir = path.Dir(name), true {
		if matched, decided := l.decide(name, dir); decided {
			return matched
		}
	}
	return false
}

// decide reports whether a pattern matches a name, and whether the last one that does takes it.
func (l ignore) decide(name string, dir bool) (matched, decided bool) {
	for _, p := range l {
		rel := name
		if p.within != "" && p.within != "." {
			var below bool
			if rel, below = strings.CutPrefix(name, p.within+"/"); !below {
				continue
			}
		}
		if (!p.dirs || dir) && p.re.MatchString(wide(rel)) {
			matched, decided = !p.keep, true
		}
	}
	return matched, decided
}

// patterns compiles lines in the syntax of gitignore(5) for a directory. Like git, it takes ? and
// members of classes for bytes, and a line that is not complete matches nothing.
func patterns(dir string, lines []string) ignore {
	var list ignore
	for _, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		trimmed := strings.TrimRight(line, " ")
		if strings.HasSuffix(trimmed, `\`) && len(trimmed) < len(line) { // an escaped space
			trimmed += " "
		}
		if line = trimmed; line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p := pattern{within: dir}
		line, p.keep = strings.CutPrefix(line, "!")
		line, p.dirs = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		expr, ok := translate(strings.TrimPrefix(line, "/"))
		if !ok {
			continue
		}
		if !anchored {
			expr = "(?:.*/)?" + expr
		}
		var err error
		if p.re, err = regexp.Compile("^(?s:" + expr + ")$"); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// translate returns the regular expression of a pattern. ok is false if the pattern ends within an
// escape or a class.
func translate(glob string) (expr string, ok bool) {
	var re strings.Builder
	for i := 0; i < len(glob); i++ {
		rest, first := glob[i:], i == 0 || glob[i-1] == '/'
		switch {
		case first && strings.HasPrefix(rest, "**/"):
			re.WriteString("(?:.*/)?")
			i += 2
		case first && rest == "**":
			re.WriteString(".+")
			i++
		case rest[0] == '*':
			re.WriteString("[^/]*")
		case rest[0] == '?':
			re.WriteString("[^/]")
		case rest[0] == '[':
			class, n := class(rest)
			if n == 0 {
				return "", false
			}
			re.WriteString(class)
			i += n - 1
		default:
			if rest[0] == '\\' {
				if i++; i == len(glob) {
					return "", false
				}
			}
			re.WriteString(regexp.QuoteMeta(wide(glob[i : i+1])))
		}
	}
	return re.String(), true
}

// named are the classes of characters that have names.
var named = map[string]*regexp.Regexp{}

func init() {
	names := "alnum alpha blank cntrl digit graph lower print punct space upper xdigit"
	for _, name := range strings.Fields(names) {
		named[name] = regexp.MustCompile("^[[:" + name + ":]]$")
	}
}

// class translates the class of bytes that a pattern begins with. n is its length, or 0 if it does
// not end.
func class(glob string) (expr string, n int) {
	var in [256]bool
	i := 1
	negated := strings.HasPrefix(glob[i:], "!") || strings.HasPrefix(glob[i:], "^")
	if negated {
		i++
	}
	// next reads a member, which may be escaped.
	next := func() (byte, bool) {
		if i < len(glob) && glob[i] == '\\' {
			i++
		}
		if i >= len(glob) {
			return 0, false
		}
		i++
		return glob[i-1], true
	}
	for start := i; ; {
		switch {
		case i >= len(glob):
			return "", 0
		case glob[i] == ']' && i > start:
			in['/'] = negated // matches no class
			var re strings.Builder
			for b, is := range in {
				if is != negated {
					fmt.Fprintf(&re, `\x{%x}`, b)
				}
			}
			if re.Len() == 0 {
				return `[^\x{0}-\x{10ffff}]`, i + 1 // matches nothing
			}
			return "[" + re.String() + "]", i + 1
		case strings.HasPrefix(glob[i:], "[:"):
			name, _, closed := strings.Cut(glob[i+2:], "]")
			if !closed {
				return "", 0
			}
			if name, ok := strings.CutSuffix(name, ":"); ok {
				re := named[name]
				if re == nil {
					return "", 0
				}
				for b := range 128 {
					in[b] = in[b] || re.MatchString(string(rune(b)))
				}
				i += len("[::]") + len(name)
				continue
			}
			in['['] = true
			i++
		default:
			from, ok := next()
			to := from
			if ok && i+1 < len(glob) && glob[i] == '-' && glob[i+1] != ']' {
				i++
				to, ok = next()
			}
			if !ok {
				return "", 0
			}
			in[from] = true // also of a range that runs backwards
			for b := int(from); b <= int(to); b++ {
				in[b] = true
			}
		}
	}
}

// wide returns a string with a character for each byte.
func wide(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}
