package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// Exit statuses.
const (
	statusOK    = 0
	statusError = 1
	statusUsage = 2
)

// A cli is the command line: one field per verb.
type cli struct {
	JSON bool `name:"json" help:"Answer with one JSON object per line."`

	Import importCmd `cmd:"" help:"Import vectors and documents from files."`
	Put    putCmd    `cmd:"" help:"Write documents, given as JSON lines."`
	Delete deleteCmd `cmd:"" help:"Delete documents."`

	Search  searchCmd  `cmd:"" help:"Find the documents nearest to a vector."`
	Explain explainCmd `cmd:"" help:"Show how a search finds its hits, and why a document is not a hit."`
	Get     getCmd     `cmd:"" help:"Show documents."`
	List    listCmd    `cmd:"" help:"List documents in order of id."`
	Count   countCmd   `cmd:"" help:"Count documents."`
	Export  exportCmd  `cmd:"" help:"Write documents to files that import can read."`

	Bench  benchCmd  `cmd:"" help:"Measure speed and recall of searches."`
	Recall recallCmd `cmd:"" help:"Measure recall, and compare it with the promised recall."`
	Eval   evalCmd   `cmd:"" help:"Measure the quality of search with judged queries."`
	Xray   xrayCmd   `cmd:"" help:"Look for near-duplicates, outliers, hubs and documents that are never found; draw a map."`

	Model modelCmd `cmd:"" help:"Keep models of embeddings: add, list, test and remove them."`

	RAG ragCmd `cmd:"" name:"rag" help:"Learn documents and answer questions from them."`

	Serve serveCmd `cmd:"" help:"Serve a database over HTTP."`
	MCP   mcpCmd   `cmd:"" name:"mcp" help:"Serve a database to agents with the Model Context Protocol."`

	Collections collectionsCmd `cmd:"" help:"List the collections."`
	Rename      renameCmd      `cmd:"" help:"Rename a collection."`
	Drop        dropCmd        `cmd:"" help:"Remove a collection with all its documents."`
	TextIndex   textIndexCmd   `cmd:"" help:"Change or remove the full-text index of a collection."`
	Index       indexCmd       `cmd:"" help:"Change the index over the vectors of a collection."`

	Info    infoCmd    `cmd:"" help:"Show statistics of a database."`
	Check   checkCmd   `cmd:"" help:"Read and verify every byte of a database."`
	Repair  repairCmd  `cmd:"" help:"Copy the intact documents of a damaged database into a new one."`
	Compact compactCmd `cmd:"" help:"Free the space of deleted documents, and build the graphs that are due."`
	Backup  backupCmd  `cmd:"" help:"Copy a database."`
	Publish publishCmd `cmd:"" help:"Write the current version of a database to a folder, for replicas."`
	Migrate migrateCmd `cmd:"" help:"Copy a collection to or from another store, such as a cluster of Weaviate."`
	Torture tortureCmd `cmd:"" help:"Test on your disk whether a crash loses data."`

	Demo    demoCmd    `cmd:"" help:"Show the features on a few thousand word vectors."`
	Version versionCmd `cmd:"" help:"Show the version."`
}

// newParser returns the parser of command lines. Help goes to stdout, and sets *helped.
func newParser(c *cli, stdout, stderr io.Writer, helped *bool) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("vecbolt"),
		kong.Description("Vecbolt is the vector database that can prove its answers. A database is a directory; DB is its path."),
		kong.Writers(stdout, stderr),
		kong.Vars{"keep": strconv.Itoa(db.DefaultKeep)},
		kong.Exit(func(int) { *helped = true }),
		kong.WithHyphenPrefixedParameters(true), // --vector -, --threshold -2.5
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
}

// run executes one command line and returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var (
		c      cli
		helped bool
	)
	parser, err := newParser(&c, stdout, stderr, &helped)
	if err != nil { // a mistake in the tags above; every test fails then
		fmt.Fprintln(stderr, "vecbolt:", err)
		return statusError
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help": // users of git and go try this first
		args = append(args[1:len(args):len(args)], "--help")
	case args[0] == "--version":
		args = append([]string{"version"}, args[1:]...)
	}
	line, err := parser.Parse(args)
	// kong replaces bytes that are not UTF-8, and so would name another document or file.
	if i := slices.IndexFunc(args, func(arg string) bool { return !utf8.ValidString(arg) }); i >= 0 {
		err = fmt.Errorf("%q is not UTF-8", args[i])
	}
	if helped {
		return statusOK
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok && failed.Op == "write" { // of the help
		fmt.Fprintln(stderr, "vecbolt:", errtext.Plain(err.Error()))
		return statusError
	}
	if err != nil {
		fmt.Fprintf(stderr, "vecbolt: %s\nRun \"vecbolt --help\" for the usage.\n", errtext.Plain(err.Error()))
		return statusUsage
	}
	if _, ok := terminal(stdout); ok {
		stdout = &screen{Writer: stdout}
	}
	t := &tool{json: c.JSON, in: newWaitingInput(ctx, stdin), out: bufio.NewWriter(stdout), report: stderr}
	line.BindTo(ctx, (*context.Context)(nil))
	err = line.Run(t)
	if ferr := t.out.Flush(); !errors.Is(err, ferr) { // what failed once fails again
		err = errors.Join(err, ferr)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = fmt.Errorf("interrupted: %w", err)
	}
	if err == nil {
		return statusOK
	}
	message := inWorkspace(line, errtext.Plain(err.Error()))
	switch {
	case errors.Is(err, errReported):
	case errors.Is(err, embed.ErrMismatch) && strings.Contains(message, "\n"): // with commands to copy
		fmt.Fprintln(stderr, message)
	default:
		fmt.Fprintln(stderr, "vecbolt:", message)
	}
	for _, hint := range hints(line, err) {
		fmt.Fprintln(stderr, "vecbolt:", inWorkspace(line, hint))
	}
	return statusError
}

// errReported is the error of a verb whose answer already describes the failure.
var errReported = errors.New("reported")
