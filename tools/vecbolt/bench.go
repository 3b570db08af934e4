package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/internal/errtext"
)

type benchCmd struct {
	collection
	Fvecs   string        `required:"" placeholder:"FILE" help:"Search for every vector of this .fvecs file."`
	Truth   string        `placeholder:"FILE.ivecs" help:"The exact answers: a line of row numbers for each query, best first; ids are row numbers. By default an exact search computes them."`
	K       int           `short:"k" default:"10" help:"Number of hits (${default})."`
	Exact   bool          `help:"Measure exact search. The default is exact search and recalls of 0.9, 0.95 and 0.99."`
	Recall  []float64     `placeholder:"R,..." help:"Measure searches that promise these recalls."`
	Threads int           `default:"1" help:"Number of concurrent searches (${default}), each on one core."`
	For     time.Duration `default:"1s" help:"Measure each setting for at least this time (${default}), and with each query at least once."`
	SVG     string        `name:"svg" placeholder:"FILE" help:"Draw queries per second against recall."`
	condition
}

func (c *benchCmd) Help() string {
	return "Measures searches in this process, with a warm cache: each setting runs once before it is " +
		"measured. A setting is the requested recall; the recall column is the measured mean over the queries. Graphs that are due " +
		"are built first, and kept, unless another process has the database open."
}

// Validate is called by kong.
func (c *benchCmd) Validate() error {
	if c.K < 1 || c.Threads < 1 || c.For < 0 {
		return fmt.Errorf("-k %d --threads %d --for %v: not positive", c.K, c.Threads, c.For)
	}
	return shares(c.Recall)
}

// shares refuses values of --recall that are no share to ask for.
func shares(recalls []float64) error {
	for _, r := range recalls {
		if !(r > 0 && r <= 1) {
			return fmt.Errorf("--recall %v: not above 0 and up to 1", r)
		}
	}
	return nil
}

// A measurement is a line of the answer.
type measurement struct {
	Setting string  `json:"setting"`
	Threads int     `json:"threads"`
	K       int     `json:"k"`
	Recall  float64 `json:"recall"`
	QPS     float64 `json:"qps"`
	P50     float64 `json:"p50_us"`
	P95     float64 `json:"p95_us"`
	P99     float64 `json:"p99_us"`
}

func (c *benchCmd) Run(ctx context.Context, t *tool) error {
	if err := c.spare(c.SVG); err != nil {
		return err
	}
	if !c.Exact && len(c.Recall) == 0 {
		c.Exact, c.Recall = true, []float64{0.9, 0.95, 0.99}
	}
	queries, err := readVectors(ctx, c.Fvecs)
	if err != nil {
		return err
	}
	if len(c.Recall) > 0 {
		if err := c.makeGraphs(ctx, t); err != nil {
			return err
		}
	}
	return c.open(db.Options{ReadOnly: true, Workers: 1, Recheck: db.Manual},
		c.existing(frozen(func(coll *db.Collection) error {
			p := t.bar("bench: exact answers", func() int64 { return int64(len(queries)) })
			truth, err := c.truths(ctx, coll, queries, p)
			p.end()
			if err != nil {
				return err
			}
			var settings []db.Query
			if c.Exact {
				settings = append(settings, db.Query{Accuracy: db.Exact})
			}
			for _, r := range c.Recall {
				settings = append(settings, db.Query{Accuracy: db.Recall(r)})
			}
			var all []measurement
			for _, q := range settings {
				p := t.busy(fmt.Sprintf("bench: setting %d of %d", len(all)+1, len(settings)))
				m, err := c.measure(ctx, coll, q, queries, truth)
				p.end()
				if err != nil {
					return err
				}
				all = append(all, m)
				if t.json {
					if err := errors.Join(t.line(m), t.out.Flush()); err != nil {
						return err
					}
				}
			}
			return c.report(t, all)
		})))
}

// report draws the measurements, if wanted, and prints them as a table; with --json they are
// printed already.
func (c *benchCmd) report(t *tool, all []measurement) error {
	if c.SVG != "" {
		err := t.write(c.SVG, func(w io.Writer) error {
			_, err := w.Write(drawRecall(all))
			return err
		})
		if err != nil {
			return err
		}
	}
	if t.json {
		return nil
	}
	us := func(v float64) string { return humanize.CommafWithDigits(v, 1) }
	var rows []table.Row
	for _, m := range all {
		rows = append(rows, table.Row{m.Setting, fmt.Sprintf("%.4f", m.Recall),
			humanize.CommafWithDigits(m.QPS, 0), us(m.P50), us(m.P95), us(m.P99)})
	}
	return t.table(table.Row{"setting", "recall", "queries/s", "p50 µs", "p95 µs", "p99 µs"}, rows)
}

// makeGraphs builds the graphs that are due, as a database that is open for writing does in the
// background.
func (c *benchCmd) makeGraphs(ctx context.Context, t *tool) error {
	due := 0
	err := c.open(db.Options{ReadOnly: true}, func(vdb *db.DB) error {
		stats, err := vdb.Stats()
		for _, s := range stats.Collections {
			if s.Name == c.Collection {
				due = s.GraphsDue
			}
		}
		return err
	})
	if err != nil || due == 0 {
		return err
	}
	t.notef("building graphs first: %d of %q are due", due, c.Collection)
	ctx, b := t.working(ctx, "bench: build "+counted(due, "graph"))
	err = c.open(db.Options{MustExist: true, Recheck: db.Manual}, func(vdb *db.DB) error { return vdb.Compact(ctx) })
	b.end()
	if errors.Is(err, db.ErrLocked) || errors.Is(err, db.ErrReadOnly) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		t.notef("graphs cannot be built: %s", errtext.Plain(err.Error()))
		return nil
	}
	return err
}

// A truth is the exact answer to a query: its ids, or the minimum score of a hit.
type truth struct {
	ids   map[string]bool
	worst float64
	n     int
}

// truths returns the exact answers to the queries, from the file of --truth or by exact search.
func (c *benchCmd) truths(ctx context.Context, coll *db.Collection, queries [][]float32,
	p *bar) ([]truth, error) {
	if c.Truth != "" {
		return c.readTruths(ctx, coll, len(queries))
	}
	all := make([]truth, 0, len(queries))
	const together = 256
	for vectors := range slices.Chunk(queries, together) {
		var batch []db.Query
		for _, v := range vectors {
			batch = append(batch, c.query(db.Query{Accuracy: db.Exact}, v))
		}
		results, err := coll.SearchBatch(ctx, batch)
		if err != nil {
			return nil, err
		}
		p.add(len(batch))
		for _, r := range results {
			exact := truth{worst: math.Inf(1), n: len(r.Hits)}
			if n := len(r.Hits); n > 0 {
				exact.worst = r.Hits[n-1].Score
			}
			all = append(all, exact)
		}
	}
	return all, nil
}

// readTruths reads the answers to a number of queries from the file of --truth. Each of them must
// be a document of the collection: the exact answer of other rows would measure nothing.
func (c *benchCmd) readTruths(ctx context.Context, coll *db.Collection, queries int) ([]truth, error) {
	rows, err := exchange.ReadIVecs(c.Truth)
	if err != nil {
		return nil, err
	}
	if len(rows) < queries {
		return nil, fmt.Errorf("%s has %d answers for %d queries", c.Truth, len(rows), queries)
	}
	all := make([]truth, queries)
	for i := range all {
		if len(rows[i]) < c.K {
			return nil, fmt.Errorf("%s has %d rows for query %d, fewer than -k %d", c.Truth, len(rows[i]), i, c.K)
		}
		all[i] = truth{ids: map[string]bool{}, n: c.K}
		ids := make([]string, c.K)
		for j, row := range rows[i][:c.K] {
			ids[j] = strconv.Itoa(int(row))
			all[i].ids[ids[j]] = true
		}
		docs, err := coll.GetMany(ctx, ids, db.IDsOnly)
		if err != nil {
			return nil, err
		}
		if j := slices.Index(docs, nil); j >= 0 {
			return nil, fmt.Errorf("%s: row %s of query %d is not a document of collection %q",
				c.Truth, ids[j], i, c.Collection)
		}
	}
	return all, nil
}

func (c *benchCmd) query(q db.Query, vec []float32) db.Query {
	q.Near, q.K, q.Where, q.Select = db.Vector(vec), c.K, c.Where.Expr, db.IDsOnly
	return q
}

// share returns the share of the exact answer that a result contains.
func (t *truth) share(r *db.Result) float64 {
	if t.n == 0 {
		return 1
	}
	good := 0
	for i := range r.Hits {
		h := &r.Hits[i]
		if t.ids[h.ID] || t.ids == nil && h.Score >= t.worst {
			good++
		}
	}
	return float64(min(good, t.n)) / float64(t.n)
}

// measure runs all queries once to warm up and to compute the recall, and then for the requested
// time.
func (c *benchCmd) measure(ctx context.Context, coll *db.Collection, q db.Query, queries [][]float32,
	truth []truth) (measurement, error) {
	m := measurement{Setting: "exact", Threads: c.Threads, K: c.K}
	if want, ok := q.Accuracy.(db.Recall); ok && want != db.Exact {
		m.Setting = "recall=" + strconv.FormatFloat(float64(want), 'g', -1, 64)
	}
	for i, vec := range queries {
		r, err := coll.Search(ctx, c.query(q, vec))
		if err != nil {
			return m, err
		}
		m.Recall += truth[i].share(r)
	}
	m.Recall = math.Round(m.Recall/float64(len(queries))*1e9) / 1e9 // makes a mean of ones exactly one
	var next atomic.Int64
	took := make([][]time.Duration, c.Threads)
	errs := make([]error, c.Threads)
	start := time.Now()
	var wait sync.WaitGroup
	for n := range c.Threads {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				begin := time.Now()
				if i >= len(queries) && begin.Sub(start) >= c.For {
					return
				}
				if _, errs[n] = coll.Search(ctx, c.query(q, queries[i%len(queries)])); errs[n] != nil {
					return
				}
				took[n] = append(took[n], time.Since(begin))
			}
		})
	}
	wait.Wait()
	elapsed := time.Since(start)
	all := slices.Concat(took...)
	if err := errors.Join(errs...); err != nil {
		return m, err
	}
	slices.Sort(all)
	quantile := func(p float64) float64 {
		return float64(all[min(len(all)-1, int(p*float64(len(all))))].Nanoseconds()) / 1000
	}
	m.QPS = float64(len(all)) / elapsed.Seconds()
	m.P50, m.P95, m.P99 = quantile(0.50), quantile(0.95), quantile(0.99)
	return m, nil
}

// drawRecall draws queries per second, on a logarithmic scale, against recall.
func drawRecall(all []measurement) []byte {
	const width, height, left, right, top, bottom = 640, 400, 80, 30, 30, 50
	all = slices.SortedFunc(slices.Values(all), func(a, b measurement) int { return cmp.Compare(a.Recall, b.Recall) })
	lowest, least, most := 1.0, math.Inf(1), 1.0
	for _, m := range all {
		lowest, least, most = min(lowest, m.Recall), min(least, m.QPS), max(most, m.QPS)
	}
	lowest = math.Floor(min(lowest, 0.99)*20) / 20
	floor, ceiling := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most)+1e-9)
	x := func(recall float64) float64 { return left + (recall-lowest)/(1-lowest)*(width-left-right) }
	y := func(qps float64) float64 {
		return height - bottom - (math.Log10(qps)-floor)/(ceiling-floor)*(height-top-bottom)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	line := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ccc"/>`+"\n", x1, y1, x2, y2)
	}
	label := func(x, y float64, anchor, text string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, text)
	}
	for e := floor; e <= ceiling; e++ {
		qps := math.Pow(10, e)
		line(left, y(qps), width-right, y(qps))
		label(left-8, y(qps)+4, "end", humanize.CommafWithDigits(qps, 2))
	}
	for i := range 6 {
		recall := lowest + (1-lowest)*float64(i)/5
		line(x(recall), top, x(recall), height-bottom)
		label(x(recall), height-bottom+18, "middle", strconv.FormatFloat(recall, 'g', 4, 64))
	}
	label(width/2, height-8, "middle", fmt.Sprintf("recall@%d", all[0].K))
	label(left, top-12, "middle", "queries per second")
	b.WriteString(`<polyline fill="none" stroke="#1f77b4" stroke-width="2" points="`)
	for i, m := range all {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%.1f,%.1f", x(m.Recall), y(m.QPS))
	}
	b.WriteString("\"/>\n")
	for _, m := range all {
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4" fill="#1f77b4"><title>%s: recall %.4f, %.0f queries per second, p99 %.0f µs</title></circle>`+"\n",
			x(m.Recall), y(m.QPS), m.Setting, m.Recall, m.QPS, m.P99)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
