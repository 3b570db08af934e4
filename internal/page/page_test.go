package page_test

import (
	"encoding/xml"
	"html/template"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/page"
)

// Every chart is well-formed, and no outside text becomes markup.
func TestCharts(t *testing.T) {
	const evil = `"><script>alert(1)</script>&`
	bars := []page.Bar{{Label: evil, Text: evil, Parts: []page.Part{{Value: 1, Class: "c0", Title: evil}, {Value: 0, Class: "c1"}}}, {}}
	for name, chart := range map[string]template.HTML{
		"bars":         page.Bars(evil, bars, 2),
		"bars to fit":  page.Bars("", bars, 0),
		"no bars":      page.Bars("", nil, 0),
		"empty bars":   page.Bars("", []page.Bar{{}}, 0),
		"intervals":    page.Intervals(evil, []page.Interval{{evil, -1, 0, 1, evil}, {"a", 0, 0, 0, ""}}),
		"no intervals": page.Intervals("", nil),
		"columns":      page.Columns(evil, []page.Column{{-0.5, evil}, {0.25, ""}, {}}),
		"no columns":   page.Columns("", nil),
		"histogram":    page.Histogram(evil, page.Bins{Low: -1, High: 1, Counts: []int{0, 3, 1}}, "c2"),
		"no values":    page.Histogram("", page.Bins{}, "c2"),
	} {
		d := xml.NewDecoder(strings.NewReader(string(chart)))
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v: %s", name, err, chart)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
				t.Errorf("%s: a label became markup: %s", name, chart)
			}
		}
		if strings.Contains(string(chart), "NaN") || strings.Contains(string(chart), "Inf") {
			t.Errorf("%s: %s", name, chart)
		}
	}
}

// A page loads nothing.
func TestPageLoadsNothing(t *testing.T) {
	var b strings.Builder
	p := page.Page{Title: "<b>", Subtitle: "a & b", Body: "<p>body</p>", Script: "const x = 1;"}
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"http:", "https:", "src=", "@import", "url(", "<link", "<b>"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	for _, want := range []string{"<h1>&lt;b&gt;</h1>", "a &amp; b", "<p>body</p>", "const x = 1;", "default-src 'none'"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123456: "0.1235", 1234.56: "1235", 98765: "98765", 999.94: "999.9", 1e-9: "1.00e-09", -3e7: "-3.00e+07"} {
		if got := page.Number(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	if page.Number(math.NaN()) != "–" || page.Number(math.Inf(1)) != "–" {
		t.Error("NaN and infinity")
	}
}
