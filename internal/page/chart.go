package page

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// width is the width of every chart in its own units; the page scales it.
const width = 640

// svg builds a chart.
type svg struct{ strings.Builder }

func (s *svg) add(format string, args ...any) { fmt.Fprintf(&s.Builder, format, args...) }

// text adds a label; x and y are its anchor and baseline.
func (s *svg) text(x, y float64, anchor, class, text string) {
	s.add(`<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`, num(x), num(y), anchor, class,
		template.HTMLEscapeString(text))
}

func (s *svg) rect(x, y, w, h float64, class, title string) {
	s.add(`<rect x="%s" y="%s" width="%s" height="%s" class="%s">`, num(x), num(y), num(max(w, 0)),
		num(max(h, 0)), class)
	if title != "" {
		s.add(`<title>%s</title>`, template.HTMLEscapeString(title))
	}
	s.add(`</rect>`)
}

func (s *svg) line(x1, y1, x2, y2 float64, class string) {
	s.add(`<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, num(x1), num(y1), num(x2), num(y2), class)
}

func (s *svg) figure(height float64, label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<figure><svg viewBox="0 0 %d %s" role="img" aria-label="%s">%s</svg></figure>`,
		width, num(height), template.HTMLEscapeString(label), s.String()))
}

// num formats a coordinate.
func num(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// Number formats a value of any magnitude with about four digits.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1e3 && a < 1e7:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a == 0 || a >= 1e-3 && a < 1e3:
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return strconv.FormatFloat(v, 'e', 2, 64)
}

// A Part is a segment of a bar.
type Part struct {
	Value float64 // not negative
	Class string  // c0 to c7
	Title string  // shown when pointed at
}

// A Bar is a row of a bar chart.
type Bar struct {
	Label string
	Parts []Part
	Text  string // at the end
}

// Bars draws horizontal bars from 0 to most, or to the longest bar if most is 0.
func Bars(label string, bars []Bar, most float64) template.HTML {
	const left, right, row = 150, 90, 26
	for _, b := range bars {
		most = max(most, b.total())
	}
	scale := (width - left - right) / cmp.Or(most, 1)
	var s svg
	for i, b := range bars {
		y := float64(i * row)
		s.text(left-10, y+17, "end", "", clip(b.Label, 22))
		s.rect(left, y+4, width-left-right, row-8, "track", "")
		x := float64(left)
		for _, p := range b.Parts {
			s.rect(x, y+4, p.Value*scale, row-8, p.Class, p.Title)
			x += p.Value * scale
		}
		s.text(width-right+8, y+17, "start", "", b.Text)
	}
	return s.figure(float64(len(bars)*row), label)
}

func (b *Bar) total() (sum float64) {
	for _, p := range b.Parts {
		sum += p.Value
	}
	return sum
}

// An Interval is an estimate with its bounds.
type Interval struct {
	Label          string
	Low, Mid, High float64
	Text           string
}

// Intervals draws estimates around zero, as whiskers with a dot.
func Intervals(label string, rows []Interval) template.HTML {
	const left, right, row = 150, 190, 30
	reach := 1e-9
	for _, r := range rows {
		reach = max(reach, math.Abs(r.Low), math.Abs(r.High), math.Abs(r.Mid))
	}
	reach *= 1.1
	at := func(v float64) float64 { return left + (v+reach)/(2*reach)*(width-left-right) }
	var s svg
	height := float64(len(rows)*row) + 24
	s.line(at(0), 0, at(0), height-20, "axis")
	s.text(at(0), height-5, "middle", "soft", "0")
	for _, v := range []float64{-reach, reach} {
		s.text(at(v), height-5, "middle", "soft", fmt.Sprintf("%+.3f", v))
	}
	for i, r := range rows {
		y := float64(i*row) + row/2
		class := "c7"
		if r.Low > 0 {
			class = "pos"
		} else if r.High < 0 {
			class = "neg"
		}
		s.text(left-10, y+4, "end", "", clip(r.Label, 22))
		s.line(at(r.Low), y, at(r.High), y, "whisker")
		for _, v := range []float64{r.Low, r.High} {
			s.line(at(v), y-4, at(v), y+4, "whisker")
		}
		s.add(`<circle cx="%s" cy="%s" r="5" class="%s"/>`, num(at(r.Mid)), num(y), class)
		s.text(width-right+10, y+4, "start", "", r.Text)
	}
	return s.figure(height, label)
}

// A Column is one value of a column chart.
type Column struct {
	Value float64
	Title string
}

// Columns draws values above and below zero, in their order.
func Columns(label string, columns []Column) template.HTML {
	const height, left, top = 150.0, 46.0, 8.0
	high, low := 0.0, 0.0
	for _, c := range columns {
		high, low = max(high, c.Value), min(low, c.Value)
	}
	if high == low {
		high = 1
	}
	at := func(v float64) float64 { return top + (high-v)/(high-low)*(height-2*top) }
	step := (width - left) / float64(max(len(columns), 1))
	var s svg
	for _, v := range []float64{high, low} {
		if v != 0 {
			s.text(left-6, at(v)+4, "end", "soft", fmt.Sprintf("%+.2f", v))
		}
	}
	for i, c := range columns {
		class := "pos"
		if c.Value < 0 {
			class = "neg"
		}
		s.rect(left+float64(i)*step, min(at(c.Value), at(0)), max(step-min(1, step/4), 0.2),
			math.Abs(at(c.Value)-at(0)), class, c.Title)
	}
	s.line(left, at(0), width, at(0), "axis")
	return s.figure(height, label)
}

// Bins counts values in bins of equal width, from Low to High.
type Bins struct {
	Low, High float64
	Counts    []int
	Outside   int // values below Low or above High
}

// Histogram draws the counts of bins.
func Histogram(label string, d Bins, class string) template.HTML {
	const height, base = 170.0, 145.0
	most := 1
	for _, n := range d.Counts {
		most = max(most, n)
	}
	step := float64(width) / float64(max(len(d.Counts), 1))
	var s svg
	for i, n := range d.Counts {
		lo := d.Low + (d.High-d.Low)*float64(i)/float64(len(d.Counts))
		hi := d.Low + (d.High-d.Low)*float64(i+1)/float64(len(d.Counts))
		h := float64(n) / float64(most) * (base - 18) // below the note on values outside
		if n > 0 {
			h = max(h, 1)
		}
		s.rect(float64(i)*step, base-h, step-1, h, class, fmt.Sprintf("%s to %s: %d", Number(lo), Number(hi), n))
	}
	if d.Outside > 0 {
		s.text(width, 12, "end", "soft", fmt.Sprintf("%d outside", d.Outside))
	}
	s.line(0, base, width, base, "axis")
	for i, anchor := range []string{"start", "middle", "end"} {
		f := float64(i) / 2
		s.text(f*width, base+16, anchor, "soft", Number(d.Low+f*(d.High-d.Low)))
	}
	return s.figure(height, label)
}

// clip shortens a label to n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
