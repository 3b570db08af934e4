package xray

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"

	"github.com/vecbolt/vecbolt/internal/page"
)

var (
	//go:embed report.html
	reportHTML string
	//go:embed map.js
	mapJS string
)

// named is a document as the template shows it.
type named struct{ ID, Text string }

// histogram draws a distribution.
func histogram(label string, d *Distribution, class string) template.HTML {
	return page.Histogram(label, page.Bins{Low: d.Low, High: d.High, Counts: d.Counts, Outside: d.Outside}, class)
}

// WriteHTML writes the report as one HTML file that loads nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"number":    page.Number,
		"percent":   func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
		"histogram": histogram,
		"doc":       func(id string) named { return named{id, r.Texts[id]} },
	}).Parse(reportHTML)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := t.Execute(&body, r); err != nil {
		return err
	}
	data, err := r.mapData()
	if err != nil {
		return err
	}
	p := page.Page{
		Title:    "Corpus: " + r.Collection,
		Subtitle: "What is in a collection, and what spoils its answers, by vecbolt xray",
		Body:     template.HTML(body.String()),
	}
	if r.Vectors > 0 {
		p.Script = template.JS("const data = " + string(data) + ";\n" + mapJS)
	}
	return p.Write(w)
}

// mapData returns the points of the map as JSON. encoding/json escapes characters that could end a
// script.
func (r *Report) mapData() ([]byte, error) {
	reach := 0.0
	for _, p := range r.Map.Points {
		reach = max(reach, math.Abs(p.X), math.Abs(p.Y))
	}
	if reach == 0 {
		reach = 1
	}
	short := func(v float64) float64 { return math.Round(v/reach*1e4) / 1e4 }
	points := make([][5]any, len(r.Map.Points))
	for i, p := range r.Map.Points {
		points[i] = [5]any{short(p.X), short(p.Y), p.Label, p.ID, r.Texts[p.ID]}
	}
	labels := r.Map.Labels
	if labels == nil {
		labels = []string{}
	}
	return json.Marshal(map[string]any{"points": points, "labels": labels, "numeric": r.Map.Numeric})
}
