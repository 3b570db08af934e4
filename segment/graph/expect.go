package graph

import (
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/simd"
)

// A search waits for memory, not for arithmetic. So it announces its next reads as soon as it knows
// them: they come from memory into the cache of the processor, or from disk into memory.

// coldNodes is how many nodes are announced to the disk at once: nearly all will be expanded.
const coldNodes = 4

// nodeHead is how much of a node is announced: the ids of the neighbours, and their factors, which
// simd.Estimate reads last.
const nodeHead = 3 * 4 * degree

// expectNode announces the node of the next expansion and, where the beam is ordered by estimates,
// its record. The block of a node in the quick layout is announced by simd.Estimate alone, while it
// computes: to announce so many lines at once takes as long as to wait for them. expectNode returns
// the block for that, or nil.
func (g *Graph) expectNode(b *Buffer, bounded bool) []byte {
	if b.cold {
		g.expectNodes(b, bounded)
		return nil
	}
	next, ok := b.peek(bounded)
	if !ok || next == b.expected {
		return nil
	}
	b.expected = next
	if g.rough() {
		coded, tail := g.parts(next)
		simd.Prefetch(coded)
		simd.Prefetch(tail)
	}
	size := g.per * 4
	simd.Prefetch(g.nodeBytes[int(next)*size:][:min(size, nodeHead)])
	if size <= nodeHead { // in the plain layout, and while the graph is built
		return nil
	}
	return g.block(next)
}

// expectNodes announces the nodes of some next expansions to the disk.
func (g *Graph) expectNodes(b *Buffer, bounded bool) {
	next := b.heap
	if bounded {
		next = b.pool.rows[b.pool.next:]
	}
	for n := 0; n < min(coldNodes, len(next)); n++ {
		row := next[n].ID &^ simd.Marked
		if g.rough() {
			g.expectRecord(row)
		}
		g.readAhead(g.geo.nodes+int64(row)*g.geo.node, g.geo.node)
	}
}

// expectRecords announces the records of ids, all of them rows. In memory there is no need: the
// kernels prefetch them.
func (g *Graph) expectRecords(ids []uint32, b *Buffer) {
	if b.cold {
		for _, id := range ids {
			g.expectRecord(id)
		}
	}
}

// expectRecord announces the record of a row to the disk.
func (g *Graph) expectRecord(row uint32) {
	g.readAhead(headerSize+int64(row)*g.geo.stride, g.geo.stride)
	if g.codes != nil {
		vfs.ReadAhead(g.codes.ReachRow(int(row)))
	}
}

// expectDuplicates announces the links from rows to their duplicates.
func (g *Graph) expectDuplicates(rows []simd.Neighbour) {
	for _, e := range rows {
		simd.Prefetch(codec.BytesFromU32s(g.duplicates[e.ID&^simd.Marked:][:1]))
	}
}

// Evicted reports whether the system has taken parts of the file out of memory, or of the codes
// that it shares, where searches will look for them again.
func (g *Graph) Evicted() bool {
	return g.file != nil && g.file.Evicted() || g.codes != nil && g.codes.Evicted()
}

// readAhead has n bytes of the file read from disk, and the blocks to be verified with them.
func (g *Graph) readAhead(at, n int64) { vfs.ReadAhead(g.file.Reach(at, at+n)) }
