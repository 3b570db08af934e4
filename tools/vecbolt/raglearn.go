package main

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/rag/load"
)

type ragLearnCmd struct {
	Base string   `arg:"" help:"Name of the base, which is created if missing."`
	Path []string `required:"" sep:"none" placeholder:"PATH" help:"File or directory to learn, - for standard input; may be repeated. Files that are deleted, or ignored by now, are removed from the base."`

	ragEmbedder
	ragKeys
	ChunkSize int      `placeholder:"N" help:"Maximum number of tokens of a chunk (512). Files are split again if it changes."`
	Overlap   *int     `placeholder:"N" help:"Tokens that neighbouring chunks share (64); 0 or less: none."`
	Splitter  string   `placeholder:"NAME" help:"Where texts are divided: format (default), fixed, sentences, paragraphs, recursive, semantic, code or markdown."`
	Language  string   `placeholder:"NAME" help:"Language of the texts, for the text index (english); none for no language."`
	Include   []string `placeholder:"PATTERN" help:"Read only matching files in directories; patterns as in .gitignore."`
	Exclude   []string `placeholder:"PATTERN" help:"Skip matching files."`
	Hidden    bool     `help:"Read hidden files, too."`
}

func (c *ragLearnCmd) Help() string {
	return "Reads Markdown, HTML, PDF, Word, PowerPoint, Excel, OpenDocument text, EPUB, RTF, mail (.eml), Jupyter notebooks, CSV, JSON lines, " +
		"code and text; skips hidden files and files that .gitignore and .vecboltignore exclude. Files without readable text, such as " +
		"scanned PDFs, are listed at the end. Unchanged files cost nothing. Files that exist stay in the base, whatever --include and --exclude " +
		"leave out. Keys come from the environment, such as OPENAI_API_KEY."
}

// keys returns the keys that the flags set.
func (c *ragLearnCmd) keys(e *knowledge.Engine) map[string]any {
	c.lookUp()
	set := c.ragKeys.keys()
	given := func(key string, value any, is bool) {
		if is {
			set[key] = value
		}
	}
	given("provider", c.Provider, c.Provider != "")
	given("model", c.Model, c.Model != "")
	given("embedding.dimensions", c.Dimensions, c.Dimensions != 0)
	given("chunk_size", c.ChunkSize, c.ChunkSize != 0)
	if c.Overlap != nil {
		set["chunk_overlap"] = *c.Overlap // 0 too: it is not the default
	}
	given("splitter", c.Splitter, c.Splitter != "")
	given("language", c.Language, c.Language != "")
	provider := c.Provider
	if cfg, err := e.Config(c.Base); provider == "" && err == nil {
		provider = cfg.Provider
	}
	for k, v := range c.Set {
		set["embedding.provider_config."+k] = setting(provider, k, v)
	}
	return set
}

func (c *ragLearnCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	o := knowledge.LearnOptions{
		Paths: c.Path, Stdin: t.in, Set: c.keys(e),
		Load: &load.Options{Include: c.Include, Exclude: c.Exclude, Hidden: c.Hidden},
	}
	p := t.bar("learn", func() int64 { return c.files(ctx, o.Load) })
	o.Progress = func(string) { p.add(1) }
	report, err := e.Learn(ctx, c.Base, o)
	p.end()
	if err != nil {
		return err
	}
	t.unread(report.Unread)
	return t.answer(report, "%s: %s files, %s chunks; embedded %s, unchanged files %s, removed %s, broken %s; %.1f s",
		c.Base, humanize.Comma(int64(report.Files)), humanize.Comma(int64(report.Chunks)),
		humanize.Comma(int64(report.Embedded)), humanize.Comma(int64(report.Skipped)),
		humanize.Comma(int64(report.Removed)), humanize.Comma(int64(report.Broken)), report.Seconds)
}

// files counts the files to learn.
func (c *ragLearnCmd) files(ctx context.Context, o *load.Options) (n int64) {
	for _, path := range c.Path {
		if path == "-" {
			continue
		}
		for _, err := range load.Files(ctx, path, o) {
			if err == nil {
				n++
			}
		}
	}
	return n
}

// unread lists the files and rows that were not read, with the reasons in a column.
func (t *tool) unread(list []knowledge.Unread) {
	if len(list) == 0 || t.json { // the JSON has them
		return
	}
	const widest = 50
	width := 0
	for _, u := range list {
		if n := utf8.RuneCountInString(u.File); n <= widest {
			width = max(width, n)
		}
	}
	t.notef("not read:")
	for _, u := range list {
		fmt.Fprintf(t.report, "  %-*s  %s\n", width, u.File, errtext.Plain(u.Reason))
	}
}
