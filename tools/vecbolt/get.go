package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vecbolt/vecbolt/db"
)

// selector holds the arguments that choose documents by id, by condition, or both.
type selector struct {
	IDs   []string `arg:"" optional:"" name:"id" help:"Ids of documents."`
	Where where    `placeholder:"JSON" help:"All documents that meet this condition, besides those with the ids, such as '{\"lang\":\"go\",\"year\":{\"$gte\":2020}}'. See docs/where.md."`
}

// Validate is called by kong.
func (s *selector) Validate() error {
	if len(s.IDs) == 0 && s.Where.Expr == nil {
		return errors.New("name documents by id, or with --where")
	}
	return nil
}

type getCmd struct {
	collection
	selector
	parts
}

func (c *getCmd) Help() string {
	return "Documents come in the order of the ids given, then those that meet the condition in order of id. " +
		"If one of the ids does not exist, the exit status is 1."
}

func (c *getCmd) Run(ctx context.Context, t *tool) error {
	return c.read(frozen(func(coll *db.Collection) error {
		var missing []string
		shown := map[string]bool{}
		i := -1
		for d, err := range coll.GetSeq(ctx, c.IDs, c.selection()) {
			if err != nil {
				return err
			}
			if i++; d == nil {
				missing = append(missing, fmt.Sprintf("%q", c.IDs[i]))
				continue
			}
			shown[d.ID] = true
			if err := t.document(d, c.parts); err != nil {
				return err
			}
		}
		if c.Where.Expr != nil {
			q := db.ListQuery{Where: c.Where.Expr, Select: c.selection()}
			for d, err := range coll.ListSeq(ctx, q) {
				if err != nil {
					return err
				}
				if shown[d.ID] {
					continue
				}
				if err := t.document(d, c.parts); err != nil {
					return err
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("collection %q: %w: %s", c.Collection, db.ErrNotFound, strings.Join(missing, ", "))
		}
		return nil
	}))
}
