package codes

import (
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// NewBlock makes codes in memory. like is nil or another block of the same metric and dimension, of
// which it takes the mean and whether it has nibbles: then one Query serves both, by Query.On.
// Bounds hold for any mean, also one of other rows.
func NewBlock(metric fileformat.Metric, dim, n int, rows Source, like *Codes) (*Codes, error) {
	ident := Ident{Rows: n, Dim: dim, Metric: metric}
	if err := ident.check(); err != nil {
		return nil, err
	}
	var mean []float32
	nibbles := false
	if like == nil {
		var err error
		if nibbles, err = nibblesPay(ident, rows); err != nil {
			return nil, err
		}
	} else {
		if like.Dim() != dim || like.head.ident.Metric != metric {
			panic("codes: a block like one of another dimension or metric")
		}
		mean, nibbles = like.mean, like.HasNibbles()
	}
	return newBlock(ident, rows, nibbles, mean, like)
}

func newBlock(ident Ident, rows Source, nibbles bool, mean []float32, like *Codes) (*Codes, error) {
	lay := layoutOf(ident.Rows, ident.Dim, nibbles)
	if lay.size > math.MaxInt {
		return nil, fmt.Errorf("codes: block of %d bytes does not fit into memory", lay.size)
	}
	b := make(blocks.Memory, lay.size)
	if _, err := writeAround(&b, ident, rows, header{nibbles: nibbles}, mean); err != nil {
		return nil, err
	}
	c, err := Parse(b, ident)
	if err != nil {
		return nil, err
	}
	if err := c.Verify(); err != nil { // so that no search does
		return nil, err
	}
	c.root = c
	if like != nil {
		c.root = like.root
	}
	return c, nil
}

// On returns the query for a block of codes with the same mean, see NewBlock, at a small part of
// the cost of preparing it again.
func (q *Query) On(c *Codes) *Query {
	if c == q.c {
		return q
	}
	if c.root == nil || c.root != q.c.root {
		panic("codes: a query on codes with another mean")
	}
	on := &Query{
		c: c, wild: q.wild, weights: q.weights, coded: q.coded,
		length: q.length, unit: q.unit, size: q.size, step: q.step, resid: q.resid, base: q.base,
		beta: q.beta, mean: q.mean, floor: q.floor, eps: q.eps, half: q.half, per: q.per, coarse: q.coarse,
		estimate: q.estimate,
	}
	on.add = above(on.slack(c.head.slope, c.head.square, on.resid))
	return on
}
