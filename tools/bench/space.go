package main

import (
	"context"
	"slices"

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
	e.logf("space: vecbolt")
	ratio, err := e.compareSpace(r, "vecbolt", func(halved, fresh string) error {
		return e.fillSpaces(set.base, halved, fresh)
	})
	if err != nil {
		return err
	}
	r.atMost("halved and compacted over fresh", spaceGoal, ratio)

	drivers, stop := e.start("lancedb", "sqlite-vec")
	defer stop()
	kept := e.rows / 2
	for _, d := range drivers {
		e.logf("space: %s", d.name)
		_, err := e.compareSpace(r, d.name, func(halved, fresh string) error {
			if err := fill(d, set.basePath, texts, halved, 2*kept, 1); err != nil {
				return err
			}
			if err := d.call("halve", args{"dir": halved}, nil); err != nil {
				return err
			}
			return fill(d, set.basePath, texts, fresh, kept, 2)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compareSpace lets a contestant fill two directories, and reports the size of the first in parts
// of the second.
func (e *env) compareSpace(r *report, who string, fill func(halved, fresh string) error) (ratio float64, err error) {
	halved, err := e.scratchDir("space-halved-" + who)
	if err != nil {
		return 0, err
	}
	fresh, err := e.scratchDir("space-fresh-" + who)
	if err != nil {
		return 0, err
	}
	if err := fill(halved, fresh); err != nil {
		return 0, err
	}
	length, a, err := diskUse(halved)
	if err != nil {
		return 0, err
	}
	freshLength, b, err := diskUse(fresh)
	if err != nil {
		return 0, err
	}
	ratio = float64(a) / float64(b)
	kept := float64(e.rows / 2)
	r.add(measurement{Set: "full rows", Who: who, How: "halved over fresh", Value: ratio, Unit: "×", Detail: map[string]float64{
		"halved bytes/row": float64(a) / kept, "fresh bytes/row": float64(b) / kept, "by file length": float64(length) / float64(freshLength)}})
	return ratio, nil
}

// fillSpaces makes two databases of Vecbolt with the same rows: one from which as many others were
// deleted, and one that never had more. Both are compacted.
func (e *env) fillSpaces(base matrix, halved, fresh string) error {
	kept := e.rows / 2
	if _, err := vecboltIngest(halved, rowDocuments(base, 0, 2*kept, 1), ingestBatch); err != nil {
		return err
	}
	err := withCollection(halved, base.dim, nil, func(ctx context.Context, d *db.DB, c *db.Collection) error {
		gone := rowDocuments(base, 1, kept, 2)
		for batch := range slices.Chunk(gone, ingestBatch) {
			ids := make([]string, len(batch))
			for i, doc := range batch {
				ids[i] = doc.ID
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
	if _, err := vecboltIngest(fresh, rowDocuments(base, 0, kept, 2), ingestBatch); err != nil {
		return err
	}
	return withCollection(fresh, base.dim, nil, func(ctx context.Context, d *db.DB, _ *db.Collection) error { return d.Compact(ctx) })
}
