package errtext

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// most is the number of names that an error lists, and compared the number of names that a wrong
// name is compared with.
const (
	most     = 20
	compared = 1_000
)

// Instead returns the end of the error for a name that does not exist: the names that exist, and
// the nearest one where it is plain.
func Instead(name string, exist []string) string {
	if len(exist) == 0 {
		return "; there is none"
	}
	exist = slices.Sorted(slices.Values(exist))
	var b strings.Builder
	b.WriteString("; there are ")
	if len(exist) == 1 {
		b.Reset()
		b.WriteString("; there is ")
	}
	for i, have := range exist[:min(len(exist), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.100q", have)
	}
	if more := len(exist) - most; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	if nearest := Nearest(name, exist); nearest != "" && len(exist) > 1 {
		fmt.Fprintf(&b, "; the nearest is %.100q", nearest)
	}
	return b.String()
}

// Nearest returns the name that somebody who wrote name meant, or nothing if that is not plain: a
// name that differs in a third of its bytes at most, or the only one that begins with name.
func Nearest(name string, exist []string) string {
	if name == "" || len(name) > 200 {
		return ""
	}
	best, least, begins, ties := "", 1+max(1, len(name)/3), []string(nil), 0
	for _, have := range exist[:min(len(exist), compared)] {
		if strings.HasPrefix(strings.ToLower(have), strings.ToLower(name)) {
			begins = append(begins, have)
		}
		if len(have) > 200 {
			continue
		}
		switch n := Distance(strings.ToLower(name), strings.ToLower(have)); cmp.Compare(n, least) {
		case -1:
			best, least, ties = have, n, 0
		case 0:
			ties++
		}
	}
	if best != "" && ties == 0 {
		return best
	}
	if len(begins) == 1 {
		return begins[0]
	}
	return ""
}

// Distance returns the number of bytes to insert, remove or replace to turn a into b (Levenshtein).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
