package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/share"
	"github.com/vecbolt/vecbolt/rag/embed/models"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

// hints returns advice for the user about an error, as commands with the arguments of this one.
func hints(line *kong.Context, err error) (all []string) {
	is := func(target error) bool { return errors.Is(err, target) }
	base := argument(line, "base")
	database := argument(line, "db")
	if blamed := (*databaseError)(nil); errors.As(err, &blamed) {
		database = blamed.dir
	} else if database == "" && base != "" {
		database = indexOf(line, base)
	}
	command := func(verb string, more ...string) string { // in quotation marks
		words := []string{"vecbolt", verb}
		if database != "" {
			words = append(words, quote(database))
			for _, word := range more {
				if word != "" {
					words = append(words, quote(word))
				}
			}
		}
		return cite(strings.Join(words, " "), onWindows)
	}
	switch {
	case !is(db.ErrCorrupt):
	case lost(database):
		all = append(all, fmt.Sprintf("%s has lost its meta.bolt, which cannot be repaired: restore a backup", quote(database)))
	case !strings.HasPrefix(line.Command(), "repair "):
		all = append(all, fmt.Sprintf("%s lists all damage, %s copies the intact documents", command("check"),
			command("repair", "NEW")))
	}
	if is(db.ErrTextIndex) {
		all = append(all, fmt.Sprintf("%s creates or changes the text index of a collection",
			command("text-index", argument(line, "collection"))))
	}
	switch {
	case is(share.ErrStopped):
		all = append(all, "let that process go on (fg, kill -CONT) or end it; a command that writes takes its place if it can")
	case is(db.ErrLocked) && base != "":
		all = append(all, "another process learns, changes or asks the base: try again when it has ended")
	case is(db.ErrLocked) && !engine.CanShare: // the error says what to do
	case is(db.ErrLocked):
		all = append(all, "processes share a database; this one is held alone, or this command is for the process that leads: "+
			"end that process, or ask it if it is \"vecbolt serve\"")
	}
	if is(db.ErrNotFound) && is(fs.ErrNotExist) && database != "" && missing(database) && // not a target
		!creates.MatchString(line.Command()) { // nor on a drive that is missing
		all = append(all, fmt.Sprintf("%s and %s create a database%s", command("import", "COLLECTION", "FILE"),
			command("put", "COLLECTION"), errtext.Instead(filepath.Base(database), databases(filepath.Dir(database)))))
	} else if is(db.ErrNotFound) && database != "" && lost(database) {
		all = append(all, fmt.Sprintf("%s holds no database%s", quote(database),
			errtext.Instead(filepath.Base(database), databases(filepath.Dir(database)))))
	}
	if is(db.ErrNoSpace) && database != "" && !elsewhere.MatchString(line.Command()) {
		if log := logSize(database); log > 0 { // opening to write moves it into other files first
			all = append(all, fmt.Sprintf("nothing is lost and reading goes on; make room on the disk of %s, mostly no more than "+
				"the %s of its log, and run this again, or continue on another disk with what %s copies",
				quote(database), humanize.IBytes(uint64(log)), command("backup", "DIR")))
		}
	}
	if is(knowledge.ErrNotFound) && base != "" {
		all = append(all, cite("vecbolt rag learn "+quote(base)+" --path FILES", onWindows)+" makes the base")
	}
	if is(models.ErrNotFound) {
		all = append(all, `"vecbolt model add" stores a model`)
	}
	return all
}

// creates matches commands that make a missing database.
var creates = regexp.MustCompile("^(import|put) ")

// elsewhere matches commands that write to another directory, whose disk may be the full one.
var elsewhere = regexp.MustCompile("^(backup|export|migrate|publish|repair) ")

// logSize returns the bytes of the log of a database.
func logSize(dir string) (n int64) {
	entries, err := os.ReadDir(filepath.Join(dir, "wal"))
	if err != nil {
		return 0 // the hint does without
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// inWorkspace adds the workspace of this command to the commands that a message names: without it
// they would change bases of another one.
func inWorkspace(line *kong.Context, message string) string {
	for _, f := range line.Flags() {
		if f.Name == "workspace" && f.Target.String() != f.Default {
			return strings.ReplaceAll(message, "vecbolt rag ", "vecbolt rag --workspace "+quote(f.Target.String())+" ")
		}
	}
	return message
}

// indexOf returns the directory of the database of a base, or nothing if that cannot be told.
func indexOf(line *kong.Context, base string) string {
	for _, f := range line.Flags() {
		if f.Name != "workspace" {
			continue
		}
		e, err := knowledge.New(f.Target.String(), nil)
		if err != nil {
			return ""
		}
		if c, err := e.Config(base); err == nil {
			return filepath.Join(filepath.Dir(e.ConfigPath(base)), cmp.Or(c.Index, "index.vdb"))
		}
	}
	return ""
}

// lost reports whether the database in dir, which is no published folder, has no meta.bolt.
func lost(dir string) bool {
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	return there("") && !there("meta.bolt") && !there("manifest")
}

// argument returns the argument of the verb with a name, or nothing if the verb has none.
func argument(line *kong.Context, name string) string {
	node := line.Selected()
	if node == nil {
		return ""
	}
	for _, p := range node.Positional {
		if p.Name == name && p.Target.IsValid() {
			return fmt.Sprint(p.Target.Interface())
		}
	}
	return ""
}

const onWindows = runtime.GOOS == "windows"

var (
	plainWord  = regexp.MustCompile(`^[A-Za-z0-9_./,:=@%+-]+$`)
	plainWords = regexp.MustCompile(`^[A-Za-z0-9_./,:=@+~\\-]+$`) // of cmd.exe and PowerShell
)

// quote returns a word as a shell takes it.
func quote(word string) string { return quoteFor(word, onWindows) }

func quoteFor(word string, windows bool) string {
	switch {
	case windows && plainWords.MatchString(word) || !windows && plainWord.MatchString(word):
		return word
	case windows && !strings.Contains(word, `"`): // cmd.exe does not know other quotation marks
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// cite returns a command in quotation marks, with paths as a shell takes them.
func cite(command string, windows bool) string {
	switch {
	case windows && strings.Contains(command, `"`):
		return "'" + command + "'"
	case windows:
		return `"` + command + `"` // strconv.Quote would double every backslash
	}
	return strconv.Quote(command)
}

// databases returns the names of the databases in a directory.
func databases(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // the hint does without
	}
	for _, e := range entries {
		if e.Name()[0] == '.' { // hidden, such as what a process that was stopped has left
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "meta.bolt")); e.IsDir() && err == nil {
			names = append(names, e.Name())
		}
	}
	return names
}
