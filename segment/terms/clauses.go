package terms

import (
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/text"
)

// condition returns the test that a row must pass to meet a clause.
func condition(c *text.Clause) unit {
	switch phrase := words(c); {
	case c.Prefix:
		return unit{kind: aPrefix, tokens: c.Tokens}
	case len(phrase) > 1:
		return unit{kind: aPhrase, tokens: phrase}
	default:
		return unit{tokens: phrase}
	}
}

// meets returns the rows that meet a clause.
func (p *part) meets(c *text.Clause) (bitset.Set, error) {
	u := condition(c)
	var l list
	set := bitset.New(p.Rows())
	if err := p.list(&u, &l); err != nil {
		return nil, err
	}
	return set, p.union(l, set)
}

// restrict finds the rows that required and excluded clauses leave.
func (s *Search) restrict(p *part) error {
	for i := range s.query.Clauses {
		c := &s.query.Clauses[i]
		if c.Occur == text.Should {
			continue
		}
		set, err := p.meets(c)
		if err != nil {
			return err
		}
		if p.rows == nil {
			p.rows = bitset.New(p.Rows())
			p.rows.Fill(p.Rows())
		}
		if c.Occur == text.Must {
			p.rows.And(set)
		} else {
			p.rows.AndNot(set)
		}
	}
	return nil
}

// Fails returns the first required clause that a row of a part does not meet, or the first excluded
// clause that it meets; nil if there is no such clause.
func (s *Search) Fails(part, row int) (*text.Clause, error) {
	for i := range s.query.Clauses {
		c := &s.query.Clauses[i]
		if c.Occur == text.Should {
			continue
		}
		set, err := s.parts[part].meets(c)
		if err != nil {
			return nil, inPart(part, err)
		}
		if set.Has(row) != (c.Occur == text.Must) {
			return c, nil
		}
	}
	return nil, nil
}

// Restriction returns the rows of a part that meet all required and no excluded clauses; nil if
// there are no such clauses. The set must not be written to.
func (s *Search) Restriction(part int) bitset.Set { return s.parts[part].rows }

// Matches returns the rows of a part, dead ones included, that meet the query.
func (s *Search) Matches(part int) (bitset.Set, error) {
	p := s.parts[part]
	set := bitset.New(p.Rows())
	if !s.query.Ranks() {
		if p.rows != nil {
			copy(set, p.rows)
		}
		return set, nil
	}
	for i := range s.query.Clauses {
		// A clause of several words is met by a row that has all of them, but found by any.
		if s.query.Clauses[i].Occur == text.MustNot {
			continue
		}
		for _, u := range unitsOf(&s.query.Clauses[i]) {
			if err := p.union(p.lists[s.index[u.key()]], set); err != nil {
				return nil, inPart(part, err)
			}
		}
	}
	if p.rows != nil {
		set.And(p.rows)
	}
	return set, nil
}
