package knowledge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/load"
)

// A learner is one run of Learn.
type learner struct {
	*Engine
	ctx      context.Context
	o        LearnOptions
	config   Config
	embedder embed.Embedder
	vdb      *db.DB
	close    func() error
	unlock   func() // lets the next run begin
	chunks   *db.Collection
	current  string // name of chunks
	files    *db.Collection
	root     root
	seen     map[string]bool
	report   Report
	broken   []Unread // files that cannot be read, by id

	made    bool // the database did not exist before
	changed bool // the configuration is not in its file yet
	created bool // this run made the file of the configuration
	begun   bool // the configuration is in its file, and pinned
	written bool // a batch of files is written

	before  map[string]*db.Document // files by content hash, as they were before the run; nil until needed
	pending []change                // files that are read but not written yet
	texts   int                     // chunks in pending
	bytes   int                     // size of pending in a batch
}

// learner opens or creates a base for writing, when no other run writes it.
func (e *Engine) learner(ctx context.Context, name string, o LearnOptions) (l *learner, err error) {
	if err := validName(name); err != nil {
		return nil, err
	}
	unlock, err := e.lock(ctx, name, toLearn, true)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	asked := Config{}
	if o.Config != nil {
		asked = *o.Config
	}
	c, err := e.Config(name)
	changed := errors.Is(err, ErrNotFound)
	switch {
	case changed:
		if c, err = asked.fresh(name, o.Set, e.Defaults(name)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	default:
		if c, changed, err = e.change(ctx, c, asked, o.Set); err != nil {
			return nil, err
		}
	}
	var read load.Options
	if o.Load != nil {
		read = *o.Load
	}
	if skip := read.Skip; skip == nil {
		read.Skip = e.isPart
	} else {
		read.Skip = func(path string) bool { return e.isPart(path) || skip(path) }
	}
	o.Load = &read
	l = &learner{Engine: e, ctx: ctx, o: o, config: c, unlock: unlock, seen: map[string]bool{}, changed: changed}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := l.settle(); err != nil {
		return nil, err
	}
	_, err = os.Stat(e.database(c))
	l.made = errors.Is(err, fs.ErrNotExist)
	g := e.gate(e.database(c))
	if l.vdb, err = g.write(ctx, e.database(c)); err != nil {
		return nil, fmt.Errorf("knowledge: %w", err)
	}
	l.close = func() error { return g.close(ctx) }
	e.sweep(c)
	if err := l.open(); err != nil {
		return nil, l.giveUp(err)
	}
	return l, nil
}

// giveUp closes the database after an error. Before the first file is written, it removes the
// configuration and the database that this run made.
func (l *learner) giveUp(err error) error {
	err = errors.Join(err, l.close())
	if l.written {
		return err
	}
	if l.created {
		err = errors.Join(err, l.uncreate())
	}
	if l.made {
		err = errors.Join(err, removeIndex(l.database(l.config)))
	}
	return err
}

// uncreate removes the configuration, even if ctx has ended. Then it does not wait for others that
// change the configuration, and leaves it to them.
func (l *learner) uncreate() error {
	unlock, err := l.lock(l.ctx, l.config.Name, toConfigure, true)
	if err != nil {
		return err
	}
	defer unlock()
	return os.RemoveAll(l.ConfigPath(l.config.Name))
}

// settle opens the embedder and fills in the model and dimension that the configuration leaves
// open, because the pinned configuration must be complete.
func (l *learner) settle() (err error) {
	if l.embedder, err = l.Engine.embedder(l.ctx, l.config); err != nil {
		return err
	}
	l.config.Model = cmp.Or(l.config.Model, l.embedder.Model())
	if err := l.dimension(); err != nil {
		return err
	}
	// The completed configuration is part of the names of cache entries, so open the embedder
	// again.
	l.embedder, err = l.Engine.embedder(l.ctx, l.config)
	return err
}

// dimension embeds one text to find the dimension, unless the configuration names it.
func (l *learner) dimension() error {
	dim := &l.config.Embedding.Dimensions
	if *dim = cmp.Or(*dim, l.embedder.Dimensions()); *dim != 0 {
		return nil
	}
	vec, err := l.embedder.Embed(l.ctx, "dimension")
	*dim = len(vec)
	return err
}

// open opens the collections. A base without files is not bound to its pinned configuration.
func (l *learner) open() (err error) {
	if l.files, err = l.vdb.OpenCollection(l.ctx, filesName, db.Schema{}); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	files, err := l.files.Info()
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	want, chunks := l.config.embedding(), chunksName
	if learnt, current, ok := pinnedConfig(files.Metadata); ok {
		if err := match(l.config.Name, learnt, want); err != nil && files.Documents > 0 {
			return err
		}
		chunks = current
	}
	have, err := infoOf(l.vdb, chunks)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return fmt.Errorf("knowledge: %w", err)
	}
	made := err != nil
	if !made && files.Documents == 0 && have.Documents == 0 { // its vectors may be from another embedder
		if err := l.vdb.Drop(l.ctx, chunks); err != nil {
			return fmt.Errorf("knowledge: %w", err)
		}
		made = true
	}
	if from := have.Schema.Lineage; !made && from.Provider != "" && from.Normalized != want.Normalize {
		return otherLengths(l.config.Name, from.Normalized)
	}
	schema := db.Schema{Dim: want.Dimensions, Metric: db.Cosine, Text: &db.TextIndex{Language: l.config.Language},
		Lineage: db.Lineage{Provider: want.Provider, Model: want.Model, Normalized: want.Normalize}}
	if !made { // the text index belongs to the collection: users can change it by command
		schema.Text = have.Schema.Text
	}
	if l.chunks, err = l.vdb.OpenCollection(l.ctx, chunks, schema); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	l.current = chunks
	if err := l.setLanguage(files, schema.Text); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if l.root, err = l.Engine.root(l.ctx, l.config.Name, l.files, l.o.Paths); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}

// infoOf describes a collection.
func infoOf(vdb *db.DB, name string) (db.CollectionInfo, error) {
	c, err := vdb.Collection(name)
	if err != nil {
		return db.CollectionInfo{}, err
	}
	return c.Info()
}

// learntLanguage is the field in the metadata of the collection of files that stores the language
// of the configuration when the base was last learnt. Bases of earlier releases do not have it.
const learntLanguage = "language"

// setLanguage gives the text index the language of the configuration, if the configuration was
// changed since the base was last learnt. Otherwise an index that was changed by command stays as
// it is.
func (l *learner) setLanguage(files db.CollectionInfo, now *db.TextIndex) error {
	want := language(l.config)
	_, asked := l.o.Set["language"]
	asked = asked || l.o.Config != nil && l.o.Config.Language != ""
	before, known := files.Metadata[learntLanguage].(string)
	if !asked && (!known || before == want) {
		return nil
	}
	index := db.TextIndex{Language: want}
	if now != nil {
		if cmp.Or(now.Language, english) == want {
			return nil
		}
		index = *now
		index.Language = want
	}
	return l.chunks.SetText(l.ctx, &index)
}

const english = "english"

func language(c Config) string { return cmp.Or(c.Language, english) }

// begin saves and pins the configuration, before the first file is written.
func (l *learner) begin() error {
	if l.begun {
		return nil
	}
	if l.changed {
		if err := l.saveChanges(); err != nil {
			return err
		}
		l.at("configured")
	}
	files, err := l.files.Info()
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	if err := l.note(files.Metadata[learntAt], files.Metadata[brokenFiles]); err != nil {
		return err
	}
	l.begun = true
	return nil
}

// saveChanges saves the configuration. Keys that were changed since this run began keep their new
// values, unless this run was asked to change them.
func (l *learner) saveChanges() error {
	unlock, err := l.lock(l.ctx, l.config.Name, toConfigure, true)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := l.Engine.Config(l.config.Name)
	if errors.Is(err, ErrNotFound) {
		l.created = true
		return l.save(l.config)
	}
	if err != nil {
		return err
	}
	asked := Config{}
	if l.o.Config != nil {
		asked = *l.o.Config
	}
	if now, _, err = l.change(l.ctx, now, asked, l.o.Set); err != nil {
		return err
	}
	now.Model, now.Embedding.Dimensions = l.config.Model, l.config.Embedding.Dimensions
	return l.save(now)
}

// learntAt is the field in the metadata of the collection of files that stores when Learn last
// completed.
const learntAt = "learnt"

// note pins the configuration and the root and, if not nil, the time and the list of broken files.
func (l *learner) note(learnt, broken any) error {
	base, err := l.realDir(l.config.Name)
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	m := pin(l.config.embedding(), l.current)
	m[learntLanguage] = language(l.config)
	files, err := l.files.Info()
	if err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	id, _ := files.Metadata[identity].(string)
	m[identity] = cmp.Or(id, rand.Text())
	if learnt != nil {
		m[learntAt] = learnt
	}
	if broken != nil {
		m[brokenFiles] = broken
	}
	if !l.root.guess {
		m[rooted] = l.root.recorded(base)
	}
	if err := l.files.SetMetadata(l.ctx, m); err != nil {
		return fmt.Errorf("knowledge: %w", err)
	}
	return nil
}
