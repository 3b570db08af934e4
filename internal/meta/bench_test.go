package meta

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

const benchDocs = 20_000

// benchIDs returns ids in the order of a flush: sorted, and random like the ids of users.
func benchIDs(round int) []string {
	ids := make([]string, benchDocs)
	for i := range ids {
		ids[i] = fmt.Sprintf("%016x-document", finalize(uint64(round*benchDocs+i)))
	}
	slices.Sort(ids)
	return ids
}

// BenchmarkUpdate flushes 20,000 documents of 200 bytes into a store that grows.
func BenchmarkUpdate(b *testing.B) {
	s := newStore(b)
	payload := make([]byte, 200)
	next, round := uint64(1), 0
	for b.Loop() {
		b.StopTimer()
		ids := benchIDs(round)
		round++
		b.StartTimer()
		err := s.Update(func(tx *Tx) error {
			if round == 1 {
				if err := tx.PutCollection(1, "bench", nil); err != nil {
					return err
				}
			}
			for i := range ids {
				if err := tx.PutDocument(1, next+uint64(i), payload); err != nil {
					return err
				}
			}
			for i, id := range ids {
				if _, _, err := tx.ID(1, id); err != nil {
					return err
				}
				if err := tx.PutID(1, id, next+uint64(i)); err != nil {
					return err
				}
			}
			next += benchDocs
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func filled(b *testing.B) (*Store, []string) {
	s := newStore(b)
	ids := benchIDs(0)
	err := s.Update(func(tx *Tx) error {
		if err := tx.PutCollection(1, "bench", nil); err != nil {
			return err
		}
		for i, id := range ids {
			if err := tx.PutDocument(1, uint64(i+1), make([]byte, 200)); err != nil {
				return err
			}
			if err := tx.PutID(1, id, uint64(i+1)); err != nil {
				return err
			}
		}
		st, err := tx.State()
		if err != nil {
			return err
		}
		st.NextDoc, st.NextCollection = benchDocs+1, 2
		return tx.SetState(st)
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, ids
}

// inView measures calls in one transaction.
func inView(b *testing.B, s *Store, fn func(tx *Tx, i int) (bool, error)) {
	b.ReportAllocs()
	err := s.View(func(tx *Tx) error {
		for i := 0; b.Loop(); i++ {
			if ok, err := fn(tx, i); !ok || err != nil {
				return fmt.Errorf("found %v: %w", ok, err)
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkDocument(b *testing.B) {
	s, _ := filled(b)
	inView(b, s, func(tx *Tx, i int) (bool, error) {
		_, ok, err := tx.Document(1, uint64(i*7919%benchDocs)+1)
		return ok, err
	})
}

// BenchmarkPayloads reads ten documents in a transaction of their own: one by one, and together.
// The pages of the store are verified on first use.
func BenchmarkPayloads(b *testing.B) {
	const all = 10 * benchDocs
	s, _ := filled(b)
	for n := uint64(benchDocs); n < all; n += benchDocs {
		err := s.Update(func(tx *Tx) (err error) {
			for i := uint64(1); i <= benchDocs && err == nil; i++ {
				err = tx.PutDocument(1, n+i, make([]byte, 200))
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Seal(); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	s = open(b, s.fs, Options{})
	docs, payloads := make([]uint64, 10), make([][]byte, 10)
	for _, way := range []struct {
		name string
		read func(tx *Tx) error
	}{
		{"one by one", func(tx *Tx) (err error) {
			for i, doc := range docs {
				if payloads[i], _, err = tx.Document(1, doc); err != nil {
					return err
				}
			}
			return nil
		}},
		{"together", func(tx *Tx) error { return tx.Payloads(1, docs, payloads) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				for i := range docs {
					docs[i] = 1 + rng.Uint64N(all)
				}
				if err := s.View(way.read); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkID(b *testing.B) {
	s, ids := filled(b)
	inView(b, s, func(tx *Tx, i int) (bool, error) {
		_, ok, err := tx.ID(1, ids[i*7919%benchDocs])
		return ok, err
	})
}

// BenchmarkGet reads one id and its document in a transaction of its own.
func BenchmarkGet(b *testing.B) {
	s, ids := filled(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		err := s.View(func(tx *Tx) error {
			doc, _, err := tx.ID(1, ids[i*7919%benchDocs])
			if err != nil {
				return err
			}
			_, _, err = tx.Document(1, doc)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s, _ := filled(b)
	size, _ := s.Size()
	b.SetBytes(size)
	for b.Loop() {
		if problems := problemsOf(b, s); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

func BenchmarkRewrite(b *testing.B) {
	s, _ := filled(b)
	for b.Loop() {
		if err := s.Rewrite(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a closed store of 100,000 documents of 200 bytes: with page checksums; with
// verification of the structure of all pages, as without checksums; and with verification of all
// pages against their checksums, as before a change.
func BenchmarkOpen(b *testing.B) {
	s := newStore(b)
	err := s.Update(func(tx *Tx) error { return tx.PutCollection(1, "bench", nil) })
	next := uint64(1)
	for round := range 5 {
		if err == nil {
			err = s.Update(func(tx *Tx) error {
				for _, id := range benchIDs(round) {
					if err := tx.PutDocument(1, next, make([]byte, 200)); err != nil {
						return err
					}
					if err := tx.PutID(1, id, next); err != nil {
						return err
					}
					next++
				}
				return nil
			})
		}
	}
	if err == nil {
		err = s.Seal()
	}
	if err != nil || s.Close() != nil {
		b.Fatal(err)
	}
	size, _ := s.Size()
	ids := benchIDs(0)
	for _, bench := range []struct {
		name string
		opts Options
		fn   func(s *Store) error
	}{
		{"sealed", Options{}, nil},
		{"structure", Options{Verify: true}, nil},
		{"sealed, all compared", Options{}, (*Store).whole},
		{"sealed, 10 documents", Options{}, func(s *Store) error {
			return s.View(func(tx *Tx) error {
				for i := range 10 {
					doc, _, err := tx.ID(1, ids[i*benchDocs/10])
					if err != nil {
						return err
					}
					if _, _, err := tx.Document(1, doc); err != nil {
						return err
					}
				}
				return nil
			})
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				s, err := Open(s.fs, name, bench.opts)
				if err == nil && bench.fn != nil {
					err = bench.fn(s)
				}
				if err == nil {
					err = s.Close()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(size)/(1<<20), "MiB")
		})
	}
}
