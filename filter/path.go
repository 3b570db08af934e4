package filter

import (
	"slices"
	"strings"
)

// Lookup returns the value at a dotted path and whether it exists. Keys may themselves contain
// dots: each way to split the path is tried, the longest first key first. In a document whose paths
// are unambiguous, at most one fits.
func Lookup(meta map[string]any, path string) (any, bool) {
	if v, ok := meta[path]; ok {
		return v, true
	}
	end := len(path)
	if len(meta) < end { // each prefix that is tried is hashed: none that is longer than all keys
		longest := 0
		for key := range meta {
			longest = max(longest, len(key))
		}
		end = min(end, longest+1) // its dot
	}
	for end = strings.LastIndexByte(path[:end], '.'); end >= 0; end = strings.LastIndexByte(path[:end], '.') {
		if child, ok := meta[path[:end]].(map[string]any); ok {
			if v, ok := Lookup(child, path[end+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// Flatten visits every path in meta with its value, until visit returns false. A map is visited as
// a value too, before its members; a list is visited as one value ([]any) and not entered. The keys
// of each map are visited in ascending bytewise order. Lookup finds exactly the paths that Flatten
// visits.
func Flatten(meta map[string]any, visit func(path string, v any) bool) {
	flatten("", meta, visit)
}

func flatten(prefix string, meta map[string]any, visit func(path string, v any) bool) bool {
	var few [16]string // enough for most maps, without allocation
	keys := few[:0]
	for key := range meta {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		path, v := prefix+key, meta[key]
		if !visit(path, v) {
			return false
		}
		if child, ok := v.(map[string]any); ok && !flatten(path+".", child, visit) {
			return false
		}
	}
	return true
}
