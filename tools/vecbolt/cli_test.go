package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// Every command and flag that the documents name, and the messages of our programs, exists.
func TestNamedCommandsExist(t *testing.T) {
	parser, err := newParser(&cli{}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"vecbolt search DB C --k 3":                   "",
		"OPENAI_API_KEY=… vecbolt rag learn b --path": "",
		"go run ./tools/vecbolt demo":                 "",
		"vecbolt --json info DB; vecbolt sweep":       `no command "sweep"`,
		"vecbolt rag --workspace ws forget b":         `no command "rag forget"`,
		"vecbolt rag learn b --pith x":                `"rag learn" has no flag --pith`,
	} {
		if got := strings.Join(unknownCommands(parser, line), "; "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	named := 0
	check := func(file, line string) {
		named += strings.Count(line, "vecbolt ")
		for _, problem := range unknownCommands(parser, line) {
			t.Errorf("%s: %q: %s", file, line, problem)
		}
	}
	code := regexp.MustCompile("`[^`\n]+`")
	quoted := regexp.MustCompile(`\\?"(vecbolt [^"\\]+)\\?"|\n {2}(vecbolt [^\n]+)`)
	err = filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			if path != "../.." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		page, source := strings.HasSuffix(name, ".md"), strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if !page && !source {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if source {
			for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
				check(path, m[1]+m[2])
			}
			return nil
		}
		fenced := false
		for line := range strings.Lines(string(text)) {
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				fenced = !fenced
			case fenced:
				if command.MatchString(line) {
					check(path, strings.TrimSpace(line))
				}
			default:
				for _, span := range code.FindAllString(line, -1) {
					check(path, strings.Trim(span, "`"))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 80 {
		t.Errorf("only %d commands were found", named)
	}
}

var (
	// command matches the call of the tool in a line of a shell, after what is set for it.
	command = regexp.MustCompile(`^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:go run \./tools/|\./)?vecbolt `)
	shell   = regexp.MustCompile(`[;|&#]`)
	verb    = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// unknownCommands says which commands and flags of a line the tool does not have.
func unknownCommands(parser *kong.Kong, line string) (problems []string) {
	for _, part := range shell.Split(line, -1) {
		_, rest, found := strings.Cut(" "+part, "vecbolt ")
		if at := command.FindString(part); at == "" || !found {
			continue
		}
		node := parser.Model.Node
		flags := slices.Clone(node.Flags)
		var words []string
		value := false
		for _, word := range strings.Fields(rest) {
			if word = strings.Trim(word, "[]()\"'`,."); value {
				value = false
				continue
			}
			if name, isFlag := strings.CutPrefix(word, "--"); isFlag {
				name, _, given := strings.Cut(name, "=")
				i := slices.IndexFunc(flags, func(f *kong.Flag) bool { return f.Name == name || "no-"+f.Name == name })
				if i < 0 && name != "" {
					problems = append(problems, fmt.Sprintf("%q has no flag --%s", strings.Join(words, " "), name))
				}
				value = i >= 0 && !given && !flags[i].IsBool()
				continue
			}
			if len(node.Children) == 0 {
				continue
			}
			if !verb.MatchString(word) {
				break // no command but a message, or any
			}
			i := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
			words = append(words, word)
			if i < 0 {
				if word != "help" {
					problems = append(problems, fmt.Sprintf("no command %q", strings.Join(words, " ")))
				}
				break
			}
			node = node.Children[i]
			flags = append(flags, node.Flags...)
		}
	}
	return problems
}

// docs/cli.md is what the tool says of itself.
func TestDocument(t *testing.T) {
	const name = "../../docs/cli.md"
	t.Setenv("COLUMNS", "100")
	help := func(args ...string) string {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), append(args, "--help"), nil, &stdout, &stderr); status != statusOK {
			t.Fatalf("%v: status %d, %s", args, status, &stderr)
		}
		return stdout.String()
	}
	parser, err := newParser(&cli{}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc bytes.Buffer
	doc.WriteString(`# The command-line tool

` + "`go build ./tools/vecbolt`" + ` makes the tool; ` + "`vecbolt demo`" + ` shows what it does. This page is generated from its own
help by a test (` + "`go test ./tools/vecbolt -run TestDocument -update`" + `).

Answers go to standard output; with ` + "`--json`" + ` they are JSON objects, one per line, and nothing else. Messages, progress and
errors go to standard error. The exit status is 0, 1 after an error, and 2 for wrong usage. A file argument of ` + "`-`" + ` is
the standard input or output. Any number of processes may read and write a database at the same time
([docs/processes.md](processes.md)).

`)
	fmt.Fprintf(&doc, "```\n%s```\n", help())
	for _, verb := range parser.Model.Children {
		fmt.Fprintf(&doc, "\n## %s\n\n```\n%s```\n", verb.Name, help(verb.Name))
		for _, sub := range verb.Children {
			fmt.Fprintf(&doc, "\n### %s %s\n\n```\n%s```\n", verb.Name, sub.Name, help(verb.Name, sub.Name))
		}
	}
	if *update {
		if err := os.WriteFile(name, doc.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), doc.String()); diff != "" {
		t.Errorf("%s is not what the tool says; run go test ./tools/vecbolt -run TestDocument -update\n%s", name, diff)
	}
}
