package graph

import (
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// scanTrials measures scans of the sketches for all trials. One scan with the most deviations, for
// the most results that the trial has, finds rows. With fewer of both it finds the ones that pass
// beside the last row scored, and some blocks tell how many rows pass in all.
func (b *builder) scanTrials(trials []trial, score scoreFunc) error {
	if !b.head.sketched || !b.planned {
		return nil
	}
	first := b.firstRows()
	nodes := b.SketchPrice(b.Len()) / b.expansion
	each := b.readPrice() / b.expansion
	return b.each(len(trials), func(w *workerScratch, i int) error {
		t, buf := &trials[i], &w.buf
		last := levels.ColumnsFor(b.Len()) - 1
		for levels.Results[last] > t.most {
			last--
		}
		if err := t.query.scanAll(levels.Results[last], slices.Max(levels.Deviations[:]), nil, buf); err != nil {
			return err
		}
		t.walked = float32(buf.stats.Expanded)
		for c := range last + 1 {
			k := levels.Results[c]
			if err := t.query.collect(k, nil, buf); err != nil {
				return err
			}
			found, err := t.count(c, w, score)
			if err != nil {
				return err
			}
			w.ids = w.ids[:0]
			for _, row := range buf.rows {
				if at, ok := t.ranks[row]; ok && at < len(t.wanted(c)) {
					w.ids = append(w.ids, row)
				}
			}
			exact, farthest := t.isExact(c, buf), buf.lastScored(k)
			share, passing := t.query.passing(w, farthest, first)
			for j := range levels.Deviations {
				cost := float32(nodes + float64(each*passing[j]))
				t.scanned[c][j] = levels.Sample{Found: found * share[j], Nodes: cost, Exact: exact}
			}
		}
		return nil
	})
}

// sketchScans returns the scans of the sketches for a column, as scanTrials has measured them; nil
// without sketches.
func (b *builder) sketchScans(trials []trial, column int) []levels.Scan {
	if !b.head.sketched || !b.planned {
		return nil
	}
	walked := make([]float32, len(trials))
	for i := range trials {
		walked[i] = trials[i].walked
	}
	all := make([]levels.Scan, len(levels.Deviations))
	for j, d := range levels.Deviations {
		all[j] = levels.Scan{Deviations: d, Samples: make([]levels.Sample, len(trials)), Walked: walked}
		for i := range trials {
			all[j].Samples[i] = trials[i].scanned[column][j]
		}
	}
	return all
}

// firstRows returns for each row the first one with the same record.
func (b *builder) firstRows() []uint32 {
	first := make([]uint32, b.Len())
	for row := range first {
		first[row] = uint32(row)
	}
	for row, next := range b.duplicates { // ascending, so first[row] is known
		if next != none {
			first[next] = first[row]
		}
	}
	return first
}

// passing returns for each of levels.Deviations the share of the rows w.ids, and the number of all
// rows, that a scan of the sketches lets pass if last is the squared distance of the last row
// found. A row that passes with few deviations passes with more.
func (q *Query) passing(w *workerScratch, last float32, first []uint32) (share [len(levels.Deviations)]float32,
	rows [len(levels.Deviations)]float64) {
	g := q.g
	table := q.sketchTable(&w.buf)
	last = math.Nextafter32(last, math.MaxFloat32) // the last row itself too
	pass := func(block, j int) uint32 {
		var below [1]uint32
		slack := q.sketchSlack(levels.Deviations[j])
		simd.Below(below[:], table, g.sketchBlocks(block, block+1), q.point.Level, last, slack)
		return below[0]
	}
	for _, row := range w.ids {
		row = first[row]
		j := 0
		for j < len(share) && pass(int(row/degree), j)>>(row%degree)&1 == 0 {
			j++
		}
		for ; j < len(share); j++ {
			share[j]++
		}
	}
	blocks := int(g.head.sketchBlocks())
	step := max(1, blocks/counted)
	n := (blocks + step - 1) / step
	for i := 0; i < blocks; i += step {
		for j := len(rows) - 1; j >= 0; j-- {
			in := bits.OnesCount32(pass(i, j))
			if in == 0 {
				break
			}
			rows[j] += float64(in)
		}
	}
	for j := range rows {
		rows[j] *= float64(blocks) / float64(n)
		if len(w.ids) == 0 {
			share[j] = 1
		} else {
			share[j] /= float32(len(w.ids))
		}
	}
	return share, rows
}
