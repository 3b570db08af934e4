package graph

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// Parameters of building. None is part of the format.
const (
	buildEF         = 100 // beam width of the search for neighbour candidates
	newLinks        = 32  // most neighbours of a node at its insertion; in-links add more
	alpha           = 1.1 // slack of the pruning rule, on squared distances
	batch           = 512 // nodes inserted together
	growth          = 1   // times the nodes of the graph that a round inserts at most
	entryPointCount = 32  // number of random entry points
	longEntryPoints = 32  // for Dot: further ones, the longest rows
	connectEF       = 64  // beam width of the search for an in-neighbour of an unreachable node
)

// A builder links the nodes of a graph whose records exist.
//
// Nodes are inserted one after the other, as in HNSW (Malkov and Yashunin, IEEE TPAMI 42, 2020),
// but with a single layer. A beam search of the graph so far finds candidates. A node keeps the
// candidates that are nearer to it than to any neighbour kept before, with some slack (Subramanya
// et al., "DiskANN", NeurIPS 2019). Insertion is in batches, so that the graph depends neither on
// the number of goroutines nor on their timing (Dobson et al., "Scaling graph-based ANNS algorithms
// to billion-size datasets", 2023): all searches of a batch see the graph before it, and each node
// of the batch is also compared with all others of the batch. Then the chosen nodes consider links
// back.
//
// The order is random in rounds, each of which at most doubles the graph. Within a round, near
// nodes follow each other: then their searches read the same nodes and records, which are in the
// caches of the processor, and a batch has the nearest neighbours of its own nodes.
type builder struct {
	*Graph
	ctx     context.Context
	order   []uint32         // nodes in the order of insertion
	workers []*workerScratch // one per goroutine

	diverse []uint8 // how many of the first links of a node do not refuse each other, by node

	started  bool                 // the graph has nodes
	hopeless [levels.Columns]bool // columns without levels: see horizon

	easy [synthetic.Kinds]bool // kinds of trials: see levels.EasyKinds

	expansion float64 // price of an expansion: see measureWork

	yield   func()      // see Options
	alone   func() bool // see Options
	planned bool        // see Options
	most    int         // trials of a kind: see Options
}

// A workerScratch is memory that one goroutine reuses.
type workerScratch struct {
	rested     time.Time // when it last called Options.Yield
	buf        Buffer
	self       simd.CodedVector
	other      simd.CodedVector
	centre     decodedRecord
	neighbour  decodedRecord
	plus       []uint16 // see sketch
	dists      [degree]float32
	chosen     []uint32
	tried      []uint32 // chosen, those that refused candidates lately first
	others     []uint32 // of these, the ones that were not diverse before: see prune
	point      []float32
	scores     []float32
	candidates []simd.Neighbour
	ids        []uint32
}

func newBuilder(ctx context.Context, g *Graph, workers int) *builder {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	b := &builder{Graph: g, ctx: ctx}
	for range workers {
		b.workers = append(b.workers, new(workerScratch))
	}
	return b
}

// rest calls Options.Yield from time to time.
func (b *builder) rest(w *workerScratch) {
	if b.yield == nil {
		return
	}
	const every = 100 * time.Microsecond
	if now := time.Now(); now.Sub(w.rested) > every {
		b.yield()
		w.rested = time.Now()
	}
}

// each calls f for 0 to n-1, in any order, on all workers, or on the first alone. It returns an
// error of f or of the context. A fault of mapped memory in f becomes a *vfs.FaultError, and a
// panic becomes an error.
func (b *builder) each(n int, f func(w *workerScratch, i int) error) error {
	step := max(1, min(8, n/(32*len(b.workers))))
	var next atomic.Int64
	var failed atomic.Bool
	var group vfs.Group
	for at, w := range b.workers[:min(len(b.workers), (n+step-1)/step)] {
		group.Go("graph", func() (err error) {
			whole := false
			defer func() { // after a panic as well
				if !whole {
					failed.Store(true) // stops the other workers
				}
			}()
			for !failed.Load() {
				if at > 0 && b.alone != nil && b.alone() {
					break // the first worker does the rest
				}
				lo := int(next.Add(int64(step))) - step
				if lo >= n {
					break
				}
				if err := b.ctx.Err(); err != nil {
					return err
				}
				for i := lo; i < min(lo+step, n); i++ {
					b.rest(w)
					if err := f(w, i); err != nil {
						return err
					}
				}
			}
			whole = true
			return nil
		})
	}
	return group.Wait()
}

// links returns the neighbours of a node, with none in free places.
func (b *builder) links(node uint32) *[degree]uint32 {
	return (*[degree]uint32)(b.nodes[int(node)*b.per:])
}

// count returns the number of neighbours in links.
func count(links *[degree]uint32) int {
	if n := slices.Index(links[:], none); n >= 0 {
		return n
	}
	return degree
}

// group chains rows of equal codes as duplicates and puts the first of each chain in b.order.
func (b *builder) group() {
	n := b.Len()
	b.duplicates = make([]uint32, n)
	seed := maphash.MakeSeed()
	last := make(map[uint64]uint32, n) // by hash
	for i := range uint32(n) {
		b.duplicates[i] = none
		rec := b.record(i)
		h := maphash.Bytes(seed, rec)
		if j, found := last[h]; found && bytes.Equal(rec, b.record(j)) {
			b.duplicates[j] = i
		} else {
			b.order = append(b.order, i)
		}
		last[h] = i
	}
}

// link makes the nodes, the entry points and the overflow list. For Dot, other distances than
// in searches decide which nodes are linked: see space.toLink.
func (b *builder) link(rows codes.Source, lengths float64, opts *Options) error {
	own := b.records
	if b.head.ident.Metric == fileformat.Dot {
		s := b.space.toLink(b.mean, lengths/float64(b.Len()))
		records, err := b.code(rows, s.linkPoint)
		if err != nil {
			return err
		}
		b.records = records
	}
	err := b.build(opts)
	b.records = own
	if err == nil && b.Quick() {
		err = b.pack()
	}
	return err
}

// build links the nodes.
func (b *builder) build(opts *Options) error {
	r := rand.New(rand.NewPCG(b.head.seed, 1))
	r.Shuffle(len(b.order), func(i, j int) { b.order[i], b.order[j] = b.order[j], b.order[i] })
	b.nodes = slices.Repeat([]uint32{none}, b.Len()*b.per)
	b.nodeBytes = codec.BytesFromU32s(b.nodes)
	b.diverse = make([]uint8, b.Len())
	done := 0
	if opts.Base != nil {
		fresh, ok, err := b.mergeBase(opts.Base, opts.Rows)
		if err != nil {
			return err
		}
		if ok {
			done = len(b.order) - fresh
		}
	}
	b.entryPoints = slices.Clone(b.order[:min(entryPointCount, len(b.order))])
	if b.head.ident.Metric == fileformat.Dot {
		b.entryPoints = b.longest(b.entryPoints)
	}
	b.started = done > 0
	progress := opts.Progress
	if progress == nil {
		progress = func(int) {}
	}
	progress(done)
	near, err := b.arrange(b.order)
	if err != nil {
		return err
	}
	rank := make([]uint32, b.Len())
	for i, node := range near {
		rank[node] = uint32(i)
	}
	for done < len(b.order) {
		round := b.order[done:]
		round = round[:min(len(round), max(batch, growth*done))]
		done += len(round)
		slices.SortFunc(round, func(x, y uint32) int { return cmp.Compare(rank[x], rank[y]) })
		for nodes := range slices.Chunk(round, batch) {
			if err := b.insert(nodes); err != nil {
				return err
			}
			progress(len(nodes))
		}
	}
	b.order = near
	return b.connect()
}

// longest appends the nodes of the longest rows to the entry points: they are among the best rows
// of many queries, and too far from all others to be neighbours of many. b has the records of
// space.toLink.
func (b *builder) longest(entryPoints []uint32) []uint32 {
	extra := func(node uint32) float32 {
		rec := b.record(node)
		return math.Float32frombits(binary.LittleEndian.Uint32(rec[len(rec)-simd.RecordTail+8:]))
	}
	nodes := slices.Clone(b.order)
	slices.SortFunc(nodes, func(x, y uint32) int {
		return cmp.Or(cmp.Compare(extra(y), extra(x)), cmp.Compare(x, y))
	})
	for _, node := range nodes[:min(longEntryPoints, len(nodes))] {
		if !slices.Contains(entryPoints, node) {
			entryPoints = append(entryPoints, node)
		}
	}
	return entryPoints
}

// A choice is a link from a node to a neighbour that it has chosen.
type choice struct {
	to, from uint32
	dist     float32
}

// insert adds nodes to the graph.
func (b *builder) insert(nodes []uint32) error {
	chosen := make([][]choice, len(nodes))
	err := b.each(len(nodes), func(w *workerScratch, i int) error {
		me := nodes[i]
		simd.LoadVector(&w.self, b.record(me))
		w.buf.start(b.Len(), buildEF, 0, 0)
		w.buf.visited.Set(int(me)) // it may be an entry point, or a neighbour of others already
		if b.started {
			if err := b.walk(&w.self, &w.buf); err != nil {
				return err
			}
		}
		w.buf.ids = w.buf.ids[:0]
		for _, id := range nodes {
			if id != me {
				w.buf.ids = append(w.buf.ids, id)
			}
		}
		w.buf.dists = slices.Grow(w.buf.dists[:0], batch)[:len(w.buf.ids)]
		simd.GatherCachedL2(w.buf.dists, &w.self, b.records, w.buf.ids)
		w.buf.pool.offerAll(w.buf.ids, w.buf.dists, math.MaxFloat32)
		w.chosen = w.chosen[:0]
		for _, e := range b.choose(w, w.buf.pool.rows, newLinks) {
			chosen[i] = append(chosen[i], choice{e.ID, me, e.Dist})
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, me := range nodes { // only now: workers may search through them
		links := b.links(me)
		for j, c := range chosen[i] {
			links[j] = c.to
		}
		b.diverse[me] = uint8(len(chosen[i]))
	}
	b.started = true
	return b.answer(slices.Concat(chosen...))
}

// answer gives the chosen nodes links back to the nodes that chose them, and prunes where there is
// no room.
func (b *builder) answer(choices []choice) error {
	slices.SortFunc(choices, func(x, y choice) int {
		return cmp.Or(cmp.Compare(x.to, y.to), cmp.Compare(x.dist, y.dist), cmp.Compare(x.from, y.from))
	})
	var starts []int
	for i := range choices {
		if i == 0 || choices[i].to != choices[i-1].to {
			starts = append(starts, i)
		}
	}
	return b.each(len(starts), func(w *workerScratch, i int) error {
		mine := choices[starts[i]:]
		if i+1 < len(starts) {
			mine = choices[starts[i]:starts[i+1]]
		}
		me := mine[0].to
		links := b.links(me)
		n := count(links)
		w.candidates = w.candidates[:0]
		for _, c := range mine {
			if !slices.Contains(links[:n], c.from) {
				w.candidates = append(w.candidates, simd.Neighbour{ID: c.from, Dist: c.dist})
			}
		}
		if n+len(w.candidates) <= degree {
			for j, e := range w.candidates {
				links[n+j] = e.ID
			}
			return nil
		}
		simd.LoadVector(&w.self, b.record(me))
		simd.GatherL2(w.dists[:], &w.self, b.records, links[:n])
		for j, id := range links[:n] {
			if j < int(b.diverse[me]) {
				id |= simd.Marked
			}
			w.candidates = append(w.candidates, simd.Neighbour{ID: id, Dist: w.dists[j]})
		}
		for j := range links {
			links[j] = none
		}
		b.prune(w)
		b.diverse[me] = uint8(copy(links[:], w.chosen))
		return nil
	})
}

// prune chooses among w.candidates the links of a node. Marked ones are diverse: none of them
// refuses another, so they are compared with the others only.
func (b *builder) prune(w *workerScratch) {
	slices.SortFunc(w.candidates, func(x, y simd.Neighbour) int {
		if c := cmp.Compare(x.Dist, y.Dist); c != 0 { // nearly always
			return c
		}
		return cmp.Compare(x.ID&^simd.Marked, y.ID&^simd.Marked)
	})
	w.chosen, w.tried, w.others = w.chosen[:0], w.tried[:0], w.others[:0]
	for _, c := range w.candidates {
		if len(w.chosen) == degree {
			break
		}
		against, diverse := w.tried, c.ID >= simd.Marked
		if c.ID &^= simd.Marked; diverse {
			against = w.others
		}
		if b.refused(w, c, against) {
			continue
		}
		w.chosen, w.tried = append(w.chosen, c.ID), append(w.tried, c.ID)
		if !diverse {
			w.others = append(w.others, c.ID)
		}
	}
}

// choose selects neighbours of a node from candidates, which are sorted by their distance from it,
// and appends them to w.chosen until that has limit. It returns the new ones, at the start of
// candidates.
func (b *builder) choose(w *workerScratch, candidates []simd.Neighbour, limit int) []simd.Neighbour {
	kept := candidates[:0]
	w.tried = append(w.tried[:0], w.chosen...)
	for _, c := range candidates {
		if len(w.chosen) >= limit {
			break
		}
		if c.ID &^= simd.Marked; b.refused(w, c, w.tried) {
			continue
		}
		kept = append(kept, c)
		w.chosen, w.tried = append(w.chosen, c.ID), append(w.tried, c.ID)
	}
	return kept
}

// refused reports whether a candidate is nearer to one of some neighbours than to the node. It
// moves that one forward: others are likely to be near it too.
func (b *builder) refused(w *workerScratch, c simd.Neighbour, neighbours []uint32) bool {
	if len(neighbours) == 0 {
		return false
	}
	simd.LoadVector(&w.other, b.record(c.ID))
	const step = 4
	for lo := 0; lo < len(neighbours); lo += step {
		ids := neighbours[lo:min(lo+step, len(neighbours))]
		simd.GatherCachedL2(w.dists[:], &w.other, b.records, ids)
		for i, d := range w.dists[:len(ids)] {
			if alpha*d < c.Dist {
				half := (lo + i) / 2
				neighbours[lo+i], neighbours[half] = neighbours[half], neighbours[lo+i]
				return true
			}
		}
	}
	return false
}

// connect links every node that cannot be reached from the entry points to another node, or puts it
// on the overflow list.
func (b *builder) connect() error {
	seen := make([]bool, b.Len())
	var queue []uint32
	visit := func(from uint32) {
		if seen[from] {
			return
		}
		seen[from] = true
		for queue = append(queue[:0], from); len(queue) > 0; {
			node := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			for _, id := range b.links(node) {
				if id == none {
					break
				}
				if !seen[id] {
					seen[id] = true
					queue = append(queue, id)
				}
			}
		}
	}
	for _, p := range b.entryPoints {
		visit(p)
	}
	w := b.workers[0]
	for _, node := range b.order {
		if seen[node] {
			continue
		}
		if err := b.ctx.Err(); err != nil {
			return err
		}
		simd.LoadVector(&w.self, b.record(node))
		w.buf.start(b.Len(), connectEF, 0, 0)
		if err := b.walk(&w.self, &w.buf); err != nil {
			return err
		}
		b.over = append(b.over, node)
		for _, e := range w.buf.pool.rows {
			links := b.links(e.ID &^ simd.Marked)
			if n := count(links); n < degree {
				links[n] = node
				b.over = b.over[:len(b.over)-1]
				visit(node)
				break
			}
		}
	}
	slices.Sort(b.over)
	return nil
}
