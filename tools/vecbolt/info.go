package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
)

type infoCmd struct{ database }

func (c *infoCmd) Help() string {
	return "Also lists the other processes that have the database open: one leads, which means that it writes the files, " +
		"and the others follow. See docs/processes.md."
}

func (c *infoCmd) Run(ctx context.Context, t *tool) error {
	return c.read(func(vdb *db.DB) error {
		s, err := vdb.Stats()
		if err != nil {
			return err
		}
		others, err := processes(ctx, vdb)
		if err != nil {
			return err
		}
		if t.json {
			return t.line(struct {
				db.Stats
				Processes []process `json:"processes"`
				Former    string    `json:"trouble,omitempty"` // former key of background_error, for one version
			}{s, others, s.BackgroundError})
		}
		bytes := func(n int64) string { return humanize.IBytes(uint64(n)) }
		for _, row := range []struct {
			name  string
			value any
		}{
			{"directory", s.Dir},
			{"kernels", s.Kernels},
			{"batches", fmt.Sprintf("%s, %s of them flushed", humanize.Comma(int64(s.Batches)),
				humanize.Comma(int64(s.Flushed)))},
			{"vectors", bytes(s.VectorBytes)},
			{"documents", fmt.Sprintf("%s, %s of it free", bytes(s.MetaBytes), bytes(s.MetaFree))},
			{"log", bytes(s.LogBytes)},
			{"in memory", bytes(s.HeadBytes)},
		} {
			fmt.Fprintf(t.out, "%-11s  %v\n", row.name, row.value)
		}
		if r := s.Replica; r != nil {
			fmt.Fprintf(t.out, "%-11s  %d, published %s\n", "version", r.Version, r.Published.Format(time.RFC3339))
		}
		count := func(n int) string { return humanize.Comma(int64(n)) }
		header := table.Row{"collection", "documents", "vectors", "dimension", "metric", "texts",
			"segments", "index", "graphs", "in memory", "dead rows"}
		var rows []table.Row
		for _, coll := range s.Collections {
			rows = append(rows, table.Row{coll.Name, count(coll.Documents), count(coll.Vectors), coll.Schema.Dim,
				coll.Schema.Metric, texts(coll.Schema.Text), coll.Segments, coll.Schema.Index, graphs(coll),
				count(coll.HeadRows), count(coll.DeadRows)})
		}
		fmt.Fprintln(t.out)
		if err := t.noteGraphs(vdb, "", c.DB); err != nil {
			return err
		}
		if err := t.table(header, rows); err != nil || len(others) == 0 {
			return err
		}
		rows = nil
		for _, p := range others {
			rows = append(rows, table.Row{p.PID, p.Program, p.Role, p.Since.Local().Format(time.DateTime), p.Version})
		}
		fmt.Fprintln(t.out)
		return t.table(table.Row{"process", "program", "role", "since", "version"}, rows)
	})
}

// process is a process that has the database open.
type process struct {
	PID     int       `json:"pid"`
	Program string    `json:"program"`
	Role    db.Role   `json:"role"`
	Since   time.Time `json:"since"`
	Version string    `json:"version"`
}

// processes lists the processes that have a database open, without this one.
func processes(ctx context.Context, vdb *db.DB) ([]process, error) {
	list, err := vdb.Processes(ctx)
	if err != nil {
		return nil, err
	}
	others := []process{}
	for _, p := range slices.DeleteFunc(list, func(p db.Process) bool { return p.PID == os.Getpid() }) {
		others = append(others, process{
			PID: p.PID, Program: p.Program, Role: p.Role, Since: p.Since, Version: p.Version,
		})
	}
	return others, nil
}

// graphs describes the numbers of graphs that are built and due, and why they have their layout.
func graphs(s db.CollectionStats) string {
	text := fmt.Sprint(s.Graphs)
	if s.GraphsDue > 0 {
		text = fmt.Sprintf("%d of %d", s.Graphs, s.Graphs+s.GraphsDue)
	}
	if len(s.Layouts) > 0 {
		text += ", " + strings.Join(s.Layouts, "; ")
	}
	return text
}

// texts describes a text index.
func texts(t *db.TextIndex) string {
	if t == nil {
		return "not indexed"
	}
	s := strings.Join(append([]string{t.Language}, t.Fields...), " + ")
	if t.K1 != nil {
		s += fmt.Sprintf(", k1 %v", *t.K1)
	}
	if t.B != nil {
		s += fmt.Sprintf(", b %v", *t.B)
	}
	return s
}
