package graph

import "github.com/vecbolt/vecbolt/simd"

// A search that comes upon one of two rows is done soon if the query is their midpoint: rows near
// the first are near the query, and nothing leads to the second, as far away on the other side. So
// a search may look into a mirror: a short search for the image of the nearest row on the far side
// of the query. For a midpoint that is the other row, for the mean of a few rows it is among the
// others. What it finds joins the beam.

const (
	mirrorRatio = 1  // the stopping ratio of the stage at whose end a search looks into the mirror
	mirrorEF    = 10 // beam width of the search for the image
)

// mirror searches for the image of the nearest row found, and adds the rows found to the beam.
func (q *Query) mirror(buf *Buffer) error {
	g := q.g
	if buf.image == nil {
		buf.image, buf.beside = new(Query), new(Buffer)
	}
	m, nearest := buf.image, q.found(buf).rows[0].ID&^simd.Marked
	m.reflect(q, nearest)
	if err := m.attempt(mirrorEF, Setting{EF: mirrorEF}, nil, buf.beside); err != nil {
		return err
	}
	buf.stats.Expanded += buf.beside.stats.Expanded
	buf.stats.Estimated += buf.beside.stats.Estimated
	buf.mirrored = buf.beside.stats.Expanded
	buf.ids = buf.ids[:0]
	rows := m.found(buf.beside).rows
	for _, e := range rows[:min(mirrorEF, len(rows))] {
		if id := e.ID &^ simd.Marked; !buf.visited.Has(int(id)) {
			buf.ids = append(buf.ids, id)
		}
	}
	if err := g.measure(&q.point, buf.ids, buf); err != nil {
		return err
	}
	buf.pool.offerAll(buf.ids, buf.dists, buf.within(buf.keepRatio, q.found(buf)))
	return nil
}

// reflect makes m a query for the image of a row, as far from q on the other side.
func (m *Query) reflect(q *Query, row uint32) {
	g, dim := q.g, q.g.Dim()
	m.guard, m.g, m.without, m.bridge, m.cold = guard{}, g, q.without, q.bridge, q.cold
	coded, tail := g.parts(row)
	scale, _ := tailOf(tail)
	m.y = append(m.y[:0], q.y...)
	for i, c := range coded[:dim] {
		m.y[i] = 2*m.y[i] - float32(scale*float32(int(c)-128))
	}
	if g.turn != nil {
		m.table.Set(m.y)
	}
	m.load(0)
}
