package main

import (
	"context"

	"github.com/vecbolt/vecbolt/db"
)

const spaceGoal = 1.1

// spaceFigure compares the size of a database that was compacted after losing half of its rows with
// the size of a new database with the remaining rows.
func spaceFigure(e *env, r *report) error {
	r.Title = "Space after deleting half and compacting"
	r.note("Every second of %s full rows deleted, then compacted (Vecbolt Compact, LanceDB optimize, SQLite VACUUM) and closed; beside it a new database of the other half, treated alike. Bytes allocated by the file system.", number(float64(e.rows)))
	set, err := e.set(synth768)
	if err != nil {
		return err
	}
	texts, err := e.textFile(set.base.rows())
	if err != nil {
		return err
	}
	kept := e.rows / 2
	show := func(who, halved, fresh string) (float64, error) {
		length, a, err := diskUse(halved)
		if err != nil {
			return 0, err
		}
		freshLength, b, err := diskUse(fresh)
		if err != nil {
			return 0, err
		}
		ratio := float64(a) / float64(b)
		r.add(measurement{Set: "full rows", Who: who, How: "halved over fresh", Value: ratio, Unit: "×", Detail: map[string]float64{
			"halved bytes/row": float64(a) / float64(kept), "fresh bytes/row": float64(b) / float64(kept), "by file length": float64(length) / float64(freshLength)}})
		return ratio, nil
	}

	halved, err := e.scratchDir("space-halved")
	if err != nil {
		return err
	}
	fresh, err := e.scratchDir("space-fresh")
	if err != nil {
		return err
	}
	e.logf("space: vecbolt")
	if _, err := vecboltIngest(halved, rowDocuments(set.base, 0, 2*kept, 1), ingestBatch); err != nil {
		return err
	}
	err = withCollection(halved, set.base.dim, nil, func(ctx context.Context, d *db.DB, c *db.Collection) error {
		gone := rowDocuments(set.base, 1, kept, 2)
		for i := 0; i < len(gone); i += ingestBatch {
			ids := make([]string, 0, ingestBatch)
			for _, doc := range gone[i:min(i+ingestBatch, len(gone))] {
				ids = append(ids, doc.ID)
			}
			if _, err := c.Delete(ctx, ids...); err != nil {
				return err
			}
		}
		return d.Compact(ctx)
	})
	if err != nil {
		return err
	}
	if _, err := vecboltIngest(fresh, rowDocuments(set.base, 0, kept, 2), ingestBatch); err != nil {
		return err
	}
	err = withCollection(fresh, set.base.dim, nil, func(ctx context.Context, d *db.DB, _ *db.Collection) error { return d.Compact(ctx) })
	if err != nil {
		return err
	}
	ratio, err := show("vecbolt", halved, fresh)
	if err != nil {
		return err
	}
	r.atMost("halved and compacted over fresh", spaceGoal, ratio)

	drivers, stop := e.start("lancedb", "sqlite-vec")
	defer stop()
	for _, d := range drivers {
		e.logf("space: %s", d.name)
		halved, err := e.scratchDir("space-halved-" + d.name)
		if err != nil {
			return err
		}
		fresh, err := e.scratchDir("space-fresh-" + d.name)
		if err != nil {
			return err
		}
		if err := fill(d, set.basePath, texts, halved, 2*kept, 1); err != nil {
			return err
		}
		if err := d.call("halve", args{"dir": halved}, nil); err != nil {
			return err
		}
		if err := fill(d, set.basePath, texts, fresh, kept, 2); err != nil {
			return err
		}
		if _, err := show(d.name, halved, fresh); err != nil {
			return err
		}
	}
	return nil
}
