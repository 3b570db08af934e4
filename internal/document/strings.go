package document

import (
	"iter"

	"github.com/vecbolt/vecbolt/filter"
)

// Strings yields the strings that a text index reads from a metadata field: the value itself, or
// the strings among the values of a list. path is as in filters.
func Strings(metadata map[string]any, path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		value, _ := filter.Lookup(metadata, path)
		switch value := value.(type) {
		case string:
			yield(value)
		case []any:
			for _, v := range value {
				if s, ok := v.(string); ok && !yield(s) {
					return
				}
			}
		}
	}
}
