package xray

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/page"
	"github.com/vecbolt/vecbolt/simd"
)

// shades is the maximum number of colours on the map.
const shades = 8

// draw makes the map of a part of the sample.
func (x *inspection) draw() error {
	m := &x.report.Map
	shown := x.sample[:min(x.Points, len(x.sample))]
	rows := make([][]float32, len(shown))
	ids := make([]string, len(shown))
	for i, d := range shown {
		ids[i] = d.id
		rows[i] = d.vec
		if x.metric == db.Cosine { // only directions count
			rows[i] = unit(d.vec)
		}
	}
	coords, explained := project(x.ctx, rows, x.rng)
	if err := x.ctx.Err(); err != nil {
		return err
	}
	m.Explained = explained
	m.Points = make([]Point, len(shown))
	for i, c := range coords {
		m.Points[i] = Point{ID: ids[i], X: c[0], Y: c[1]}
	}
	if x.Color == "" {
		return nil
	}
	m.Field = x.Color
	values := make([]any, 0, len(ids))
	for d, err := range x.coll.GetSeq(x.ctx, ids, db.WithMetadata) {
		if err != nil {
			return err
		}
		var v any
		if d != nil {
			v, _ = filter.Lookup(d.Metadata, x.Color)
		}
		values = append(values, v)
	}
	for i, label := range m.label(values) {
		m.Points[i].Label = label
	}
	return nil
}

func unit(v []float32) []float32 {
	norm := math.Sqrt(simd.Dot64(v, v))
	if norm == 0 {
		return v
	}
	u := make([]float32, len(v))
	for i := range v {
		u[i] = float32(float64(v[i]) / norm)
	}
	return u
}

const none = "(none)"

// label sets the labels of the map and returns the label of each value. If there are many different
// numbers, labels are ranges with about equal numbers of documents. Otherwise the most frequent
// values have a colour of their own.
func (m *Map) label(values []any) []int {
	names := make([]string, len(values))
	count := map[string]int{}
	var numbers []float64
	for i, v := range values {
		names[i] = valueName(v)
		count[names[i]]++
		switch v := v.(type) {
		case int64:
			numbers = append(numbers, float64(v))
		case float64:
			numbers = append(numbers, v)
		}
	}
	if len(numbers)+count[none] == len(values) && len(count) > shades {
		m.Numeric = true
		return m.ranges(values, numbers)
	}
	ordered := make([]string, 0, len(count))
	for name := range count {
		ordered = append(ordered, name)
	}
	slices.SortFunc(ordered, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]),
			cmp.Compare(a, b))
	})
	if len(ordered) > shades {
		ordered = append(ordered[:shades-1], "other")
	}
	m.Labels = ordered
	index := map[string]int{}
	for i, name := range ordered {
		index[name] = i
	}
	labels := make([]int, len(values))
	for i, name := range names {
		var ok bool
		if labels[i], ok = index[name]; !ok {
			labels[i] = shades - 1
		}
	}
	return labels
}

// ranges labels numbers by quantiles, and missing values last.
func (m *Map) ranges(values []any, numbers []float64) []int {
	slices.Sort(numbers)
	var ends []float64 // last value of each range
	for i := range shades - 1 {
		end := numbers[(i+1)*len(numbers)/(shades-1)-1]
		if len(ends) == 0 || end > ends[len(ends)-1] {
			ends = append(ends, end)
		}
	}
	low := numbers[0]
	for _, end := range ends {
		m.Labels = append(m.Labels, fmt.Sprintf("%s to %s", page.Number(low), page.Number(end)))
		low = numbers[min(len(numbers)-1, upper(numbers, end))]
	}
	labels := make([]int, len(values))
	missing := false
	for i, v := range values {
		var f float64
		switch v := v.(type) {
		case int64:
			f = float64(v)
		case float64:
			f = v
		default:
			labels[i], missing = len(ends), true
			continue
		}
		labels[i], _ = slices.BinarySearch(ends, f)
	}
	if missing {
		m.Labels = append(m.Labels, none)
	}
	return labels
}

// upper returns the index of the first number above v.
func upper(numbers []float64, v float64) int {
	i, _ := slices.BinarySearchFunc(numbers, v, func(n, v float64) int {
		if n > v {
			return 1
		}
		return -1
	})
	return i
}

// valueName is the name of a metadata value in the legend.
func valueName(v any) string {
	switch v := v.(type) {
	case nil:
		return none
	case string:
		return v
	}
	b, err := json.Marshal(v)
	if err != nil {
		return none
	}
	return string(b)
}
