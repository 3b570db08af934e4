package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// An expectation is the set of allowed contents of a database.
type expectation struct {
	p      *profile
	tracks []*track
	bounds *bounds
	kill   bool // the process was killed but the power stayed on
	lied   bool // the disk has lost data that it had acknowledged as synced

	readOnly bool // nothing can be repaired during the comparison
}

// lower returns the earliest batch of a track at which the content may be.
func (e *expectation) lower(track int) int {
	if e.kill {
		return e.bounds.acked[track]
	}
	return e.bounds.safe[track]
}

// exactly returns the expectation after found: the fate of batches in flight is decided.
func (e *expectation) exactly(found []int) *expectation {
	b := *e.bounds
	b.safe, b.acked, b.begun = found, found, found
	return &expectation{p: e.p, tracks: e.tracks, kill: e.kill, bounds: &b}
}

// verify opens the database below dir after a crash, compares it with the expectation, writes to
// it, closes it, and opens and compares it once more. It returns the last batch of each track in
// it.
func (e *expectation) verify(ctx context.Context, dir string, rng *rand.Rand) (found []int, err error) {
	at := filepath.Join(dir, e.bounds.database)
	if e.lied {
		return nil, e.verifyLied(ctx, at, rng)
	}
	if rng.IntN(8) == 0 {
		if err := e.verifyReadOnly(ctx, at, rng); err != nil {
			return nil, fmt.Errorf("opened read-only: %w", err)
		}
	}
	if rng.IntN(4) == 0 || e.bounds.backingUp() {
		if err := e.verifyBackups(ctx, dir, rng); err != nil {
			return nil, err
		}
	}
	published, err := e.verifyPublished(ctx, filepath.Join(dir, publishedName), rng)
	if err != nil {
		return nil, fmt.Errorf("published: %w", err)
	}
	o := e.p.options()
	o.Compaction = db.Manual
	vdb, err := db.Open(at, o)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if found, err = e.compare(ctx, vdb, rng); err != nil {
		_ = vdb.Close()
		return nil, err
	}
	if found[0] < published {
		_ = vdb.Close()
		return nil, fmt.Errorf("the database is as after batch %d, replicas have seen batch %d", found[0], published)
	}
	if rng.IntN(rotShare) == 0 {
		if err := e.exactly(found).verifyRotten(ctx, dir, rng); err != nil {
			_ = vdb.Close()
			return nil, fmt.Errorf("the newest root rots after opening: %w", err)
		}
	}
	after := &db.Document{ID: "after", Vector: []float32{1, 2, 3}, Text: "written after the crash"}
	if err := writeAfter(ctx, vdb, after); err != nil {
		_ = vdb.Close()
		return nil, fmt.Errorf("write after the crash: %w", err)
	}
	if err := vdb.Close(); err != nil {
		return nil, fmt.Errorf("close after the crash: %w", err)
	}
	o.ReadOnly = rng.IntN(4) > 0 // read-only costs less
	vdb, err = db.Open(at, o)
	if err != nil {
		return nil, fmt.Errorf("open again: %w", err)
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	c, err := vdb.Collection(afterName)
	if err != nil {
		return nil, fmt.Errorf("after opening again: %w", err)
	}
	if d, err := c.Get(ctx, after.ID, db.Everything); err != nil || documentSum(d) != documentSum(after) {
		return nil, fmt.Errorf("after opening again: %+v %w", d, err)
	}
	if _, err := e.exactly(found).compare(ctx, vdb, rng); err != nil {
		return nil, fmt.Errorf("after opening again: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*.fenced-*"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%v is left beside the database", left)
	}
	return found, err
}

// rotShare is the number of opened states per state whose newest root of meta.bolt is then damaged.
const rotShare = 8

// verifyRotten checks the open, idle database below dir after a power failure that also damages the
// newest root of meta.bolt. The previous root refers to files that must still exist.
func (e *expectation) verifyRotten(ctx context.Context, dir string, rng *rand.Rand) error {
	from, to := filepath.Join(dir, e.bounds.database), filepath.Join(dir, "rotten")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := to + strings.TrimPrefix(path, from)
		switch filepath.Base(path) {
		case "LOCK": // belongs to another database
			return nil
		case "meta.bolt":
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f := &file{}
			f.write(0, int64(len(b)), b)
			return rot(f, rng).writeTo(name, make([]byte, 256*kib))
		}
		if d.IsDir() {
			return os.Mkdir(name, 0o700)
		}
		// The copy is opened read-only and changes nothing, so it can share the rest.
		return os.Link(path, name)
	})
	if err != nil {
		return err
	}
	if err := e.verifyReadOnly(ctx, to, rng); err != nil {
		return err
	}
	return os.RemoveAll(to)
}

// verifyLied checks a state of a disk that lost synced data. The database may have lost its newest
// batches, or report corruption; it must not answer wrongly without an error, and must not panic.
func (e *expectation) verifyLied(ctx context.Context, at string, rng *rand.Rand) error {
	o := e.p.options()
	o.Compaction = db.Manual
	vdb, err := db.Open(at, o)
	if errors.Is(err, db.ErrCorrupt) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: not said to be damaged: %w", err)
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	report, err := vdb.Check(ctx, db.CheckDeep)
	if err != nil || !report.OK() {
		return nil
	}
	any := *e
	any.bounds = e.bounds.clone()
	clear(any.bounds.safe)
	_, err = any.compare(ctx, vdb, rng)
	return err
}

// afterName belongs to no track.
const afterName = "after"

func writeAfter(ctx context.Context, vdb *db.DB, d *db.Document) error {
	if _, err := vdb.OpenCollection(ctx, afterName, db.Schema{}); err != nil {
		return err
	}
	b := &db.Batch{}
	b.Upsert(afterName, *d)
	return vdb.Apply(ctx, b)
}

func (e *expectation) verifyReadOnly(ctx context.Context, at string, rng *rand.Rand) (err error) {
	vdb, err := db.Open(at, &db.Options{ReadOnly: true, Workers: 1})
	if errors.Is(err, db.ErrNotFound) && !exists(filepath.Join(at, "meta.bolt")) &&
		!slices.ContainsFunc(e.bounds.safe, positive) {
		return nil // power failed during creation
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	look := *e
	look.readOnly = true
	_, err = look.compare(ctx, vdb, rng)
	return err
}

func positive(n int) bool { return n > 0 }

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// verifyPublished checks that the folder of replicas contains a complete version, not older than
// the last published one, and returns its batch; -1 if nothing was published.
func (e *expectation) verifyPublished(ctx context.Context, at string, rng *rand.Rand) (batch int, err error) {
	p := e.bounds.published
	if p.upper < 0 {
		return -1, nil
	}
	vdb, err := db.Open(at, &db.Options{ReadOnly: true, Workers: 1})
	if p.lower < 0 && (errors.Is(err, db.ErrNotFound) || errors.Is(err, fs.ErrNotExist)) {
		return -1, nil // power failed before the first version was complete
	}
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	versions := e.exactly([]int{p.upper})
	versions.bounds.safe, versions.bounds.acked = []int{max(0, p.lower)}, []int{max(0, p.lower)}
	found, err := versions.compare(ctx, vdb, rng)
	if err != nil {
		return -1, err
	}
	return found[0], nil
}

// verifyBackups checks that each backup is complete, or refused even by a writer, or absent.
func (e *expectation) verifyBackups(ctx context.Context, dir string, rng *rand.Rand) error {
	for _, name := range slices.Sorted(maps.Keys(e.bounds.backups)) {
		b := e.bounds.backups[name]
		at := filepath.Join(dir, name)
		if !b.whole && !exists(filepath.Join(at, "meta.bolt")) {
			if err := verifyRefused(at); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		vdb, err := db.Open(at, &db.Options{ReadOnly: true, Workers: 1})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		_, err = e.exactly([]int{b.batch}).compare(ctx, vdb, rng)
		if err := errors.Join(err, vdb.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// verifyRefused checks that a directory with part of a backup is not taken as a new database.
func verifyRefused(at string) error {
	left, err := os.ReadDir(at)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(left) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	vdb, err := db.Open(at, &db.Options{Workers: 1})
	if err != nil {
		return nil
	}
	return errors.Join(fmt.Errorf("a database was created beside %v", left), vdb.Close())
}

// compare checks an open database completely and returns the last batch of each track.
func (e *expectation) compare(ctx context.Context, vdb *db.DB, rng *rand.Rand) (found []int, err error) {
	level := db.CheckBytes
	if rng.IntN(8) == 0 {
		level = db.CheckDeep
	}
	report, err := vdb.Check(ctx, level)
	if err != nil {
		return nil, err
	}
	if !report.OK() && !(e.readOnly && onlyRoots(report)) {
		return nil, fmt.Errorf("check: %v", report.Problems)
	}
	got, err := read(ctx, vdb, len(e.tracks))
	if err != nil {
		return nil, err
	}
	if found, err = e.match(got); err != nil {
		return nil, err
	}
	return found, search(ctx, vdb, got[rng.IntN(len(got))], rng)
}

// find returns the last batch of each track in a database.
func (e *expectation) find(ctx context.Context, vdb *db.DB) ([]int, error) {
	got, err := read(ctx, vdb, len(e.tracks))
	if err != nil {
		return nil, err
	}
	return e.match(got)
}

func (e *expectation) match(got []content) (found []int, err error) {
	for i, t := range e.tracks {
		sum, at := got[i].sum(), -1
		for n := e.bounds.begun[i]; n >= e.lower(i) && at < 0; n-- {
			if t.history[n].sum() == sum {
				at = n
			}
		}
		if at < 0 {
			return nil, fmt.Errorf("track %d is not as after any of batches %d to %d; after the first of them: %s",
				i, e.lower(i), e.bounds.begun[i], difference(got[i], t.history[e.lower(i)]))
		}
		found = append(found, at)
	}
	return found, nil
}

// A source is a database or a snapshot of one.
type source interface {
	Collections() ([]db.CollectionInfo, error)
	Collection(name string) (*db.Collection, error)
}

// read returns the content of each track. No collection may be created or dropped during it.
func read(ctx context.Context, vdb source, tracks int) ([]content, error) {
	all := make([]content, tracks)
	for i := range all {
		all[i] = content{}
	}
	infos, err := vdb.Collections()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Name == afterName {
			continue
		}
		prefix, _, _ := strings.Cut(info.Name, "/")
		var track int
		if _, err := fmt.Sscan(prefix, &track); err != nil || track >= tracks {
			return nil, fmt.Errorf("collection %q is of no track", info.Name)
		}
		c, err := vdb.Collection(info.Name)
		if err != nil {
			return nil, err
		}
		t := &table{dim: info.Schema.Dim, words: info.Schema.Text != nil, metadata: info.Metadata,
			docs: make(map[string]*db.Document, info.Documents)}
		for d, err := range c.All(ctx, nil, db.Everything) {
			if err != nil {
				return nil, err
			}
			if t.docs[d.ID] != nil {
				return nil, &differenceError{fmt.Sprintf("document %q of collection %q comes twice", d.ID, info.Name)}
			}
			t.docs[d.ID] = d
			t.sum += documentSum(d)
		}
		if len(t.docs) != info.Documents {
			return nil, &differenceError{fmt.Sprintf("collection %q counts %d documents and has %d",
				info.Name, info.Documents, len(t.docs))}
		}
		all[track][info.Name] = t
	}
	return all, nil
}

// search runs nearest-neighbour queries and compares them with brute force.
func search(ctx context.Context, vdb source, c content, rng *rand.Rand) error {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		t := c[name]
		coll, err := vdb.Collection(name)
		if err != nil {
			return err
		}
		if t.words {
			if err := searchText(ctx, coll, t, int64(rng.IntN(4))); err != nil {
				return fmt.Errorf("search %q: %w", name, err)
			}
		}
		if t.dim == 0 {
			continue
		}
		q := make([]float32, t.dim)
		for i := range q {
			q[i] = float32(rng.NormFloat64())
		}
		group := int64(rng.IntN(4))
		// A beam width above the number of rows makes the graph search exact.
		res, err := coll.Search(ctx, db.Query{Near: db.Vector(q), K: 5, Accuracy: db.EF(4096),
			Where: filter.Eq("group", group)})
		if err != nil {
			return fmt.Errorf("search %q: %w", name, err)
		}
		type hit struct {
			id    string
			score float64
		}
		var want []hit
		for id, d := range t.docs {
			if len(d.Vector) > 0 && d.Metadata["group"] == group {
				want = append(want, hit{id, cosine(q, d.Vector)})
			}
		}
		slices.SortFunc(want, func(a, b hit) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id))
		})
		want = want[:min(5, len(want))]
		same := len(want) == len(res.Hits)
		for i := range want {
			// Ties may swap because of rounding: scores decide.
			same = same && math.Abs(res.Hits[i].Score-want[i].score) < 1e-9
		}
		// Scores of the documents in the hits count, too.
		for _, h := range res.Hits {
			d := t.docs[h.ID]
			same = same && d != nil && math.Abs(cosine(q, d.Vector)-h.Score) < 1e-9
		}
		if !same {
			return &differenceError{fmt.Sprintf("search %q for group %d: %v, brute force says %v",
				name, group, res.Hits, want)}
		}
	}
	return nil
}

// searchText searches for a word and compares the ids of the hits.
func searchText(ctx context.Context, coll *db.Collection, t *table, group int64) error {
	const word = "lazy"
	var want, got []string
	for id, d := range t.docs {
		if d.Metadata["group"] == group && slices.Contains(strings.Fields(strings.ToLower(d.Text)), word) {
			want = append(want, id)
		}
	}
	res, err := coll.Search(ctx, db.Query{Text: word, K: len(t.docs) + 1, Where: filter.Eq("group", group)})
	if err != nil {
		return err
	}
	for _, h := range res.Hits {
		got = append(got, h.ID)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		return &differenceError{fmt.Sprintf("documents with %q in group %d: %v, brute force says %v",
			word, group, got, want)}
	}
	return nil
}

// A differenceError reports a wrong answer.
type differenceError struct{ what string }

func (e *differenceError) Error() string { return e.what }

func wrongAnswer(err error) bool {
	differs := (*differenceError)(nil)
	return errors.As(err, &differs)
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}

// onlyRoots reports whether a check found nothing except one unreadable root of meta.bolt. The
// other root is then in force. A writer restores the first with its next commit; a read-only
// database cannot.
func onlyRoots(r *db.CheckReport) bool {
	for _, p := range r.Problems {
		if !strings.Contains(p.Detail, "root in page") {
			return false
		}
	}
	return true
}
