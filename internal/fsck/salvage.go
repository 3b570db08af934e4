package fsck

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
)

// A salvager saves one collection.
type salvager struct {
	*repairer
	coll uint32
	name string
	want int // expected documents, or versions of them, neither found nor reported by id yet
	open []*segment.Segment
	done map[uint64]bool // DocNums saved from damaged segments
	dead map[uint64]bool // DocNums of dead rows, with a wreck
}

func (s *salvager) run(infos []segment.Info) error {
	defer func() {
		for _, seg := range s.open {
			seg.Close()
		}
	}()
	for _, info := range infos {
		seg, err := segment.Open(s.fs, s.state.DB, info)
		if err == nil {
			err = seg.Verify(s.ctx)
		}
		if err == nil {
			s.open = append(s.open, seg)
			if s.wreck != nil {
				err = seg.Guard(func() error { return s.buried(seg, info.ID) })
			}
			if err != nil {
				return err
			}
			continue
		}
		if s.ctx.Err() != nil || errors.Is(err, fileformat.ErrVersion) {
			return err
		}
		for _, e := range flatten(err) {
			s.report.problem(e)
		}
		if seg != nil {
			seg.Close()
		}
		if err := s.damaged(info); err != nil {
			return err
		}
	}
	return s.documents()
}

// damaged saves the rows of a segment that are provably intact.
func (s *salvager) damaged(info segment.Info) error {
	name := segment.FileName(info.ID)
	if db, found, err := segment.ReadHeader(s.fs, name); err == nil && (db != s.state.DB || found.CRC != info.CRC) {
		return nil // another file, with intact vectors of other documents
	}
	_, err := segment.Salvage(s.ctx, s.fs, name, info, func(num uint64, vec []float32) error {
		return s.store.View(func(tx *meta.Tx) error {
			b, ok, err := tx.Document(s.coll, num)
			if err != nil || !ok {
				return nil // reported with the documents, or dead
			}
			d, live, err := s.decode(tx, num, b)
			if err != nil || !live {
				return nil // likewise
			}
			s.done[num] = true
			return s.put(s.name, d, vec)
		})
	})
	var (
		corrupt *fileformat.CorruptError
		other   *vfs.NotRegularError
	)
	if errors.As(err, &corrupt) || errors.As(err, &other) || errors.Is(err, fs.ErrNotExist) {
		return nil // nothing can be saved of it; its documents are reported
	}
	return err
}

// decode reads a stored document and reports whether it is the live version of
// its id. If the record of the id is damaged, or may be lost, every version
// whose row is not dead counts as live: the newest one is put last and wins.
func (s *salvager) decode(tx *meta.Tx, num uint64, b []byte) (d document.Document, live bool, err error) {
	if d, err = document.Decode(b, document.All); err != nil {
		return d, false, err
	}
	current, ok, err := tx.ID(s.coll, d.ID)
	if err == nil && !ok && s.wreck != nil {
		return d, !s.dead[num], nil
	}
	return d, err != nil || ok && current == num, nil
}

// buried records the DocNums of dead rows.
func (s *salvager) buried(seg *segment.Segment, id uint64) error {
	var chunks map[int][]uint64
	err := s.store.View(func(tx *meta.Tx) (err error) {
		chunks, err = tx.DeadChunks(id)
		return err
	})
	if err != nil {
		return err
	}
	nums := seg.DocNums()
	for chunk, words := range chunks {
		for row := range bitset.Set(words).All() {
			if row += chunk * 64 * len(words); row < len(nums) {
				s.dead[nums[row]] = true
			}
		}
	}
	return nil
}

// documents saves every document that is not saved yet, with its vector if an
// intact segment has it.
func (s *salvager) documents() error {
	broken := map[uint64]error{}
	err := s.store.View(func(tx *meta.Tx) error {
		err := tx.SalvageDocuments(s.coll, func(num uint64, b []byte) error {
			s.want--
			if err := s.ctx.Err(); err != nil || s.done[num] {
				return err
			}
			d, live, err := s.decode(tx, num, b)
			if err != nil {
				s.report.problem(engine.CorruptDocument(num, err))
				broken[num] = err
				return nil
			}
			if !live {
				return nil
			}
			vec, found, err := s.vector(num)
			if err != nil {
				return err
			}
			if !found {
				s.report.lose(Lost{Collection: s.name, ID: d.ID, DocNum: num, What: "vector",
					Reason: "its segment is damaged"})
			}
			return s.put(s.name, d, vec)
		}, func(num uint64, err error) {
			s.want--
			s.report.problem(err)
			broken[num] = err
		})
		if err != nil {
			return err
		}
		return s.undocumented(tx, broken)
	})
	if s.want > 0 && err == nil {
		s.report.lose(Lost{Collection: s.name, What: "document",
			Reason: fmt.Sprintf("%d documents, or earlier versions of them, are in no page that can be read", s.want)})
	}
	return err
}

// undocumented handles ids whose document is damaged or belongs to another id:
// the vector may be intact.
func (s *salvager) undocumented(tx *meta.Tx, broken map[uint64]error) error {
	err := tx.SalvageIDs(s.coll, func(id string, num uint64) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		why, ok := broken[num]
		if !ok {
			return s.misled(tx, id, num)
		}
		delete(broken, num)
		return s.bare(id, num, why.Error())
	}, func(_ string, err error) { s.report.problem(err) })
	for num, why := range broken {
		s.report.lose(Lost{Collection: s.name, DocNum: num, What: "document", Reason: why.Error()})
	}
	return err
}

// bare saves the vector of a document that is lost.
func (s *salvager) bare(id string, num uint64, why string) error {
	lost := Lost{Collection: s.name, ID: id, DocNum: num, What: "document", Reason: why}
	vec, found, err := s.vector(num)
	if err == nil && found && vec != nil {
		lost.What = "text and metadata"
		err = s.put(s.name, document.Document{ID: id}, vec)
	}
	s.report.lose(lost)
	return err
}

// misled handles an id whose document is missing or belongs to another id.
func (s *salvager) misled(tx *meta.Tx, id string, num uint64) error {
	b, ok, err := tx.Document(s.coll, num)
	if err == nil && !ok {
		s.want--
		return s.bare(id, num, "it is missing")
	}
	var d document.Document
	if err == nil {
		d, err = document.Decode(b, document.All)
	}
	if err == nil && d.ID != id {
		s.report.lose(Lost{Collection: s.name, ID: id, DocNum: num, What: "document",
			Reason: fmt.Sprintf("its id leads to document %q", d.ID)})
	}
	return nil // damage was reported already
}

// vector finds the vector of a document in the intact segments; it returns nil
// and true for a document without vector.
func (s *salvager) vector(num uint64) (vec []float32, found bool, err error) {
	for _, seg := range s.open {
		err = seg.Guard(func() error {
			row, ok := seg.Find(num)
			if !ok {
				return nil
			}
			found = true
			if seg.Dim() == 0 {
				return nil
			}
			rows, err := seg.Rows(row, row+1)
			vec = slices.Clone(rows)
			return err
		})
		if found || err != nil {
			return vec, found, err
		}
	}
	return nil, false, nil
}
