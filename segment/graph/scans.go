package graph

import (
	"math"
	"math/bits"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/simd"
)

// A sketchScan is a scan of the sketches that the calibration has measured.
type sketchScan struct {
	deviations float32
	samples    []sample // by trial
}

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
		last := b.measured() - 1
		for calibrated[last] > t.most {
			last--
		}
		if err := t.query.scanAll(calibrated[last], slices.Max(sketchDeviations[:]), nil, buf); err != nil {
			return err
		}
		t.walked = float32(buf.stats.Expanded)
		for c := range last + 1 {
			k := calibrated[c]
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
			exact, farthest := t.beyond(c, buf), buf.lastScored(k)
			share, passing := t.query.passing(w, farthest, first)
			for j := range sketchDeviations {
				cost := float32(nodes + float64(each*passing[j]))
				t.scanned[c][j] = sample{found: found * share[j], nodes: cost, exact: exact}
			}
		}
		return nil
	})
}

// sketchScans returns the scans of the sketches for a column, as scanTrials has measured them.
func (b *builder) sketchScans(trials []trial, column int) []sketchScan {
	if !b.head.sketched || !b.planned {
		return nil
	}
	all := make([]sketchScan, len(sketchDeviations))
	for j, d := range sketchDeviations {
		all[j] = sketchScan{d, make([]sample, len(trials))}
		for i := range trials {
			all[j].samples[i] = trials[i].scanned[column][j]
		}
	}
	return all
}

// usualScan returns the recall of a scan of the sketches that finds nearly everything, or else of
// the one with the most deviations, and its cost in expansions for queries like the rows. Without
// sketches both are 0.
func (b *builder) usualScan(trials []trial, column int) (recall, nodes float32) {
	if !b.stages(column) {
		return 0, 0
	}
	for _, scan := range b.sketchScans(trials, column) { // the fewest deviations first
		l := scan.level(trials)
		if recall, nodes = l.recall, l.usual; recall >= enough {
			break
		}
	}
	return recall, nodes
}

// level returns the level of a scan that does not depend on what a walk finds: see ScanSetting.
func (s *sketchScan) level(trials []trial) level {
	var sums [synthetic.Kinds]moments
	for i := range trials {
		one := s.samples[i]
		one.nodes += trials[i].walked
		sums[trials[i].kind].add(one, 1)
	}
	l := level{ef: firstEF, within: alwaysBeyond, beyond: Stage{Deviations: s.deviations}, measured: measuredOf(&sums)}
	l.expect(&sums)
	return l
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

// passing returns for each of sketchDeviations the share of the rows w.ids, and the number of all
// rows, that a scan of the sketches lets pass if last is the squared distance of the last row
// found. A row that passes with few deviations passes with more.
func (q *Query) passing(w *workerScratch, last float32, first []uint32) (share [len(sketchDeviations)]float32,
	rows [len(sketchDeviations)]float64) {
	g := q.g
	table := q.sketchTable(&w.buf)
	last = math.Nextafter32(last, math.MaxFloat32) // the last row itself too
	pass := func(block, j int) uint32 {
		var below [1]uint32
		slack := q.sketchSlack(sketchDeviations[j])
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
