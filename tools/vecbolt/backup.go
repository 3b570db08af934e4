package main

import (
	"context"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

type backupCmd struct {
	database
	To string `arg:"" name:"dir" help:"Directory of the copy: empty or missing."`
}

func (c *backupCmd) Help() string {
	return "The copy is a database like any other. Other processes may read and write the database at the same time: the copy " +
		"has everything that they were told is written before it began."
}

func (c *backupCmd) Run(ctx context.Context, t *tool) error {
	start := time.Now()
	p := t.copying("backup", c.DB, c.To)
	err := c.read(func(vdb *db.DB) error { return vdb.Backup(ctx, c.To) })
	p.end()
	var copied int64
	if err == nil {
		copied, err = vfs.DirSize(c.To)
	}
	if err != nil {
		return err
	}
	return t.answer(struct {
		Backup  string  `json:"backup"`
		Bytes   int64   `json:"bytes"`
		Seconds float64 `json:"seconds"`
	}{c.To, copied, time.Since(start).Seconds()}, "copied %s to %s", humanize.IBytes(uint64(copied)), c.To)
}
