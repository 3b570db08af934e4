package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// report is the outcome of one figure, written as JSON for programs and as Markdown for people.
type report struct {
	Figure  string        `json:"figure"`
	Title   string        `json:"title"`
	Date    string        `json:"date"`
	Command string        `json:"command"`
	Machine machine       `json:"machine"`
	Peers   []*peer       `json:"peers,omitempty"`
	Rows    []measurement `json:"rows"`
	Goals   []goal        `json:"goals,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
}

// measurement is one number: contestant, set, value, and the ratio to Vecbolt.
type measurement struct {
	Set    string             `json:"set"`
	Who    string             `json:"who"`
	How    string             `json:"how"`
	Value  float64            `json:"value"`
	Unit   string             `json:"unit"`
	Ratio  float64            `json:"vecbolt_ratio,omitempty"`
	Detail map[string]float64 `json:"detail,omitempty"`
}

// goal compares a figure with a goal of the project.
type goal struct {
	What string  `json:"what"`
	Want string  `json:"want"`
	Got  float64 `json:"got"`
	Met  bool    `json:"met"`
}

func (r *report) add(m measurement) {
	if !math.IsNaN(m.Value) {
		r.Rows = append(r.Rows, m)
	}
}

func (r *report) atLeast(what string, want, got float64) {
	r.goal(what, "≥ "+number(want), got, got >= want)
}

func (r *report) atMost(what string, want, got float64) {
	r.goal(what, "≤ "+number(want), got, got <= want)
}

func (r *report) goal(what, want string, got float64, met bool) {
	if !math.IsNaN(got) && !math.IsInf(got, 0) {
		r.Goals = append(r.Goals, goal{what, want, got, met})
	}
}

func (r *report) note(format string, a ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, a...)) }

// number prints three significant digits, and integers from 1000 on.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return ""
	case v == math.Trunc(v) && math.Abs(v) < 1e3:
		return strconv.Itoa(int(v))
	case math.Abs(v) >= 1e3:
		s := strconv.FormatFloat(v, 'f', 0, 64)
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// table returns header and cells of one set's measurements; details become columns.
func (r *report) table(set string) (head []string, cells [][]string) {
	details := map[string]bool{}
	ratio := false
	for _, m := range r.Rows {
		if m.Set == set {
			ratio = ratio || m.Ratio != 0
			for k := range m.Detail {
				details[k] = true
			}
		}
	}
	keys := slices.Sorted(maps.Keys(details))
	head = []string{"who", "how", "value", "unit"}
	if ratio {
		head = append(head, "Vecbolt is × as good")
	}
	head = append(head, keys...)
	for _, m := range r.Rows {
		if m.Set != set {
			continue
		}
		row := []string{m.Who, m.How, number(m.Value), m.Unit}
		if ratio {
			cell := ""
			if m.Ratio != 0 {
				cell = number(m.Ratio)
			}
			row = append(row, cell)
		}
		for _, k := range keys {
			cell := ""
			if v, ok := m.Detail[k]; ok {
				cell = number(v)
			}
			row = append(row, cell)
		}
		cells = append(cells, row)
	}
	return head, cells
}

func (r *report) sets() []string {
	var sets []string
	for _, m := range r.Rows {
		if !slices.Contains(sets, m.Set) {
			sets = append(sets, m.Set)
		}
	}
	return sets
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nWritten by `%s` on %s; [how to read it](README.md).\n\n%s\n", r.Title, r.Command, r.Date, r.Machine)
	for _, set := range r.sets() {
		fmt.Fprintf(&b, "\n## %s\n\n", set)
		head, cells := r.table(set)
		mdTable(&b, head, cells)
	}
	if len(r.Goals) > 0 {
		b.WriteString("\n## Goals\n\n")
		var cells [][]string
		for _, g := range r.Goals {
			met := "missed"
			if g.Met {
				met = "met"
			}
			cells = append(cells, []string{g.What, g.Want, number(g.Got), met})
		}
		mdTable(&b, []string{"what", "goal", "measured", ""}, cells)
	}
	if len(r.Peers) > 0 {
		b.WriteString("\n## Peers\n\n")
		var cells [][]string
		for _, p := range r.Peers {
			cells = append(cells, []string{p.Name, p.Package, p.Version, p.Setting, p.Missing})
		}
		mdTable(&b, []string{"peer", "package", "version", "settings", "missing"}, cells)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n## Notes\n\n")
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "- %s\n", n)
		}
	}
	return b.String()
}

func mdTable(b *strings.Builder, head []string, cells [][]string) {
	line := func(row []string) {
		for _, c := range row {
			b.WriteString("| " + strings.NewReplacer("|", `\|`, "\n", " ").Replace(c) + " ")
		}
		b.WriteString("|\n")
	}
	line(head)
	line(slices.Repeat([]string{"---"}, len(head)))
	for _, row := range cells {
		line(row)
	}
}

// print shows the tables on the terminal.
func (r *report) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintf(w, "\n%s\n", r.Title)
	for _, set := range r.sets() {
		head, cells := r.table(set)
		fmt.Fprintf(w, "\n%s\n%s\n", set, strings.Join(head, "\t"))
		for _, row := range cells {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
	for _, g := range r.Goals {
		met := "MISSED"
		if g.Met {
			met = "met"
		}
		fmt.Fprintf(w, "%s\t%s: %s, measured %s\n", met, g.What, g.Want, number(g.Got))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

// write stores the report as <date>-<figure>.json and .md.
func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	base := filepath.Join(dir, r.Date+"-"+r.Figure)
	if err := os.WriteFile(base+".json", append(b, '\n'), 0o666); err != nil {
		return err
	}
	return os.WriteFile(base+".md", []byte(r.markdown()), 0o666)
}
