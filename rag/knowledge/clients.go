package knowledge

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// ErrorText words an error of a base for clients of a service, and reports whether the text has the
// whole reason. No text has a path of the machine. Servers, in the configuration or in the reason
// why a model does not answer, are for clients that may write. Errors of the machine, such as a
// full disk, are named only.
func (e *Engine) ErrorText(name string, err error, write bool) (text string, whole bool) {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case is(ErrNotFound):
		return fmt.Sprintf("base '%.100s' does not exist, or was never learnt", name), true
	case is(embed.ErrMismatch):
		return errtext.Plain(err.Error()), true
	case is(ErrConfig):
		text, whole := configText(err, write)
		return errtext.Plain(strings.ReplaceAll(text, e.ConfigPath(name), "config.yaml")), whole
	case is(db.ErrTextIndex), is(rag.ErrConfig), is(db.ErrInvalid), errors.As(err, new(*filter.SyntaxError)):
		return errtext.Plain(err.Error()), true
	case is(db.ErrExists):
		return "the base exists already", true
	case is(db.ErrLocked):
		return fmt.Sprintf("base '%.100s' is being learnt or configured, or another process keeps it for itself", name), true
	case errors.As(err, new(*embed.Error)), is(ErrModel), is(rag.ErrRerank):
		if write {
			return errtext.Plain(err.Error()), true
		}
		if model := (*embed.Error)(nil); errors.As(err, &model) && model.Misconfigured() {
			return fmt.Sprintf("the configuration of base '%.100s' is invalid", name), false
		}
		return fmt.Sprintf("a model of base '%.100s' does not answer", name), false
	}
	for _, known := range []error{db.ErrNoSpace, db.ErrUnknown, db.ErrCorrupt, db.ErrVersion, db.ErrClosed,
		context.Canceled, context.DeadlineExceeded} {
		if is(known) {
			return fmt.Sprintf("base '%.100s': %s", name, errtext.Plain(known.Error())), false
		}
	}
	return fmt.Sprintf("base '%.100s' cannot be used", name), false
}

// configText words an error of a configuration for clients, and reports whether the text has the
// whole reason. It has no lines of the file, which errors of YAML quote and which may have a
// password, and values of private keys only for clients that may write.
func configText(err error, write bool) (text string, whole bool) {
	text = err.Error()
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		text = strings.ReplaceAll(text, syntax.Error(), syntax.FormatError(false, false))
	}
	var value *valueError
	if !write && errors.As(err, &value) && value.key.private() {
		return strings.ReplaceAll(text, value.Error(), value.withoutValue()), false
	}
	return text, true
}

// ClientChunks is the most chunks that a question of a client of a service may ask for, by each of
// the keys top_k, candidates, max_siblings and fusion_depth.
const ClientChunks = 1000

// chunkKeys are the keys that are numbers of chunks.
var chunkKeys = []string{"top_k", "candidates", "max_siblings", "fusion_depth"}

// ForClients returns the options for a question of a client of a service: ErrConfig refuses it if
// the question, or the configuration of the base, asks for more than ClientChunks.
func (o QueryOptions) ForClients() QueryOptions {
	o.most = ClientChunks
	return o
}

// ForClients returns the options for an evaluation by a client of a service: each run is bounded as
// a question is.
func (o EvalOptions) ForClients() EvalOptions {
	o.most = ClientChunks
	return o
}

// bound refuses a configuration for a question that asks for more chunks than most; 0 is no bound.
func (c *Config) bound(most int) error {
	for _, key := range chunkKeys {
		if n := c.field(key).Int(); most > 0 && n > int64(most) {
			return fmt.Errorf("%w: %s: %d: want an integer of at most %d, for clients of a service", ErrConfig, key, n, most)
		}
	}
	return nil
}

// ForClients returns the part of a configuration that clients of a service may see. Servers and
// directories are for clients that may write.
func (c Config) ForClients(write bool) Config {
	if !write {
		for _, name := range privateKeys {
			c.field(name).SetZero()
		}
	}
	return c
}

// ForClients returns the part of a status that clients of a service may see. files is the directory
// of the files that they may learn; empty means none.
func (s *Status) ForClients(files string, write bool) *Status {
	shown := *s
	shown.Root = ""
	if s.Locked != "" {
		shown.Locked = "another process keeps the base for itself"
	}
	shown.Config, shown.Learning = s.Config.ForClients(write), s.Learning.ForClients(files)
	return &shown
}

// ForClients returns the part of a progress that clients of a service may see. files is as for
// Status.ForClients: the name of the file is relative to it, or has no directory. It may be called
// on nil.
func (p *Progress) ForClients(files string) *Progress {
	if p == nil || p.File == "" {
		return p
	}
	shown := *p
	rel, err := filepath.Rel(files, p.File)
	if err != nil || files == "" || !filepath.IsLocal(rel) {
		rel = filepath.Base(p.File)
	}
	shown.File = filepath.ToSlash(rel)
	return &shown
}
