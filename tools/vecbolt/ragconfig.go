package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

type ragStatusCmd struct {
	Base string `arg:"" optional:"" help:"Name of the base; default all."`
}

func (c *ragStatusCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	names := []string{c.Base}
	if c.Base == "" {
		if names, err = e.Bases(); err != nil {
			return err
		}
	}
	var rows []table.Row
	failed := false
	for _, name := range names {
		s, err := e.Status(ctx, name)
		switch {
		case err != nil && (c.Base != "" || ctx.Err() != nil):
			return err
		case err != nil: // the other bases can be described
			t.notef("%s: %s", name, errtext.Plain(err.Error()))
			failed = true
			continue
		}
		if t.json {
			if err := t.line(s); err != nil {
				return err
			}
			continue
		}
		row := table.Row{name, s.Config.Provider, s.Config.Model, s.Config.Embedding.Dimensions, s.Files, s.Chunks,
			humanize.IBytes(uint64(s.Bytes)), "never"}
		switch {
		case s.Locked != "":
			row[4], row[5], row[7] = "?", "?", "locked"
			t.notef("%s: %s", name, errtext.Plain(s.Locked))
		case !s.Learnt.IsZero():
			row[7] = s.Learnt.Local().Format(time.DateTime)
		}
		rows = append(rows, row)
		if s.Mismatch != "" {
			t.notef("%s", s.Mismatch)
		}
		if s.Next != "" {
			t.notef("%s is being embedded again: %s", name, s.Next)
		}
	}
	if !t.json {
		if err := t.table(ragStatusHeader, rows); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

var ragStatusHeader = table.Row{"base", "provider", "model", "dimensions", "files", "chunks", "size", "learnt"}

type ragConfigCmd struct {
	Base  string `arg:"" help:"Name of the base."`
	Key   string `arg:"" optional:"" help:"Show the value in effect of this key."`
	Value string `arg:"" optional:"" help:"Set the key to this value."`
	All   bool   `help:"Show all keys, with their values in effect and what is allowed."`
	Unset bool   `help:"Remove the key, so that its default applies."`
}

func (c *ragConfigCmd) Help() string {
	return "Without a key, shows config.yaml. A change of a key takes effect as --all says: at once, with the next learn, which splits " +
		"files again, or by reembed only. The file may be edited as well."
}

// Validate is called by kong.
func (c *ragConfigCmd) Validate() error {
	switch {
	case c.All && c.Key != "":
		return errors.New("--all shows all keys: name none")
	case c.Unset && (c.Key == "" || c.Value != ""):
		return errors.New("--unset needs a key, and no value")
	}
	return nil
}

func (c *ragConfigCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	cfg, err := e.Config(c.Base)
	if err != nil {
		return err
	}
	switch {
	case c.Value != "" || c.Unset:
		set := map[string]any{c.Key: c.Value}
		if c.Unset {
			set[c.Key] = nil
		} else if name, ok := strings.CutPrefix(c.Key, "embedding.provider_config."); ok {
			set[c.Key] = setting(cfg.Provider, name, c.Value)
		}
		if cfg, err = e.Configure(ctx, c.Base, set); err != nil {
			return err
		}
		fallthrough
	case c.Key != "":
		value, err := cfg.Get(c.Key)
		if err != nil {
			return err
		}
		return t.answer(map[string]any{"key": c.Key, "value": value}, "%s", shownValue(value))
	case c.All:
		return t.keys(cfg)
	case t.json:
		return t.line(cfg)
	}
	b, err := os.ReadFile(e.ConfigPath(c.Base))
	if err != nil {
		return err
	}
	_, err = t.out.Write(b)
	return err
}

// keys shows all keys of a configuration.
func (t *tool) keys(cfg knowledge.Config) error {
	var rows []table.Row
	for _, k := range knowledge.Keys() {
		value, err := cfg.Get(k.Name)
		if err != nil {
			return err
		}
		if t.json {
			line := struct {
				knowledge.Key
				Value any `json:"value"`
			}{k, value}
			if err := t.line(line); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, table.Row{k.Name, shownValue(value), k.Allowed(), k.Changes})
	}
	if t.json {
		return nil
	}
	return t.table(table.Row{"key", "value", "allowed", "changes"}, rows)
}

// shownValue returns the value of a key as text.
func shownValue(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(b)
}

type ragCleanCmd struct {
	Base string `arg:"" help:"Name of the base."`
}

func (c *ragCleanCmd) Run(t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	if err := e.Clean(c.Base); err != nil {
		return err
	}
	return t.answer(map[string]any{"base": c.Base, "cleaned": true}, "%s: cleaned", c.Base)
}
