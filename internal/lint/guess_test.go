package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guesses lists what a newcomer looks for, and the file that its name suggests. A guess is the name
// of the declaration, or of the thing that it is part of, without knowledge of the tree.
var guesses = []struct{ name, file string }{
	// the public face
	{"Open", "db/db.go"}, {"DB.Close", "db/db.go"}, {"DB.Flush", "db/db.go"},
	{"DB.Compact", "db/db.go"}, {"DB.Stats", "db/stats.go"}, {"DB.Snapshot", "db/snapshot.go"},
	{"DB.CreateCollection", "db/collection.go"}, {"Collection.Upsert", "db/collection.go"},
	{"Collection.Search", "db/search.go"}, {"Collection.Get", "db/get.go"},
	{"Batch.Upsert", "db/batch.go"}, {"Query", "db/query.go"}, {"Result", "db/query.go"},
	{"Options", "db/options.go"}, {"Schema", "db/schema.go"}, {"Document", "db/document.go"},
	{"ErrNotFound", "db/errors.go"}, {"DB.NewPublisher", "db/publish.go"}, {"Repair", "db/repair.go"},
	{"CheckFiles", "internal/fsck/files.go"}, {"DB.Backup", "db/backup.go"},
	{"Collection.MeasureRecall", "db/recall.go"}, {"Collection.Explain", "db/explain.go"},
	// a query
	{"search.answer", "internal/query/search.go"}, {"search.fuse", "internal/query/hybrid.go"},
	{"search.whyNot", "internal/query/explain.go"}, {"search.diversify", "internal/query/mmr.go"},
	{"Search.Run", "internal/nearest/nearest.go"}, {"Search.scan", "internal/nearest/scan.go"},
	{"Search.searchGraph", "internal/nearest/graph.go"}, {"Search.rank", "internal/nearest/rank.go"},
	{"Ledger", "internal/nearest/ledger.go"}, {"Condition", "internal/match/condition.go"},
	{"Convex", "internal/fusion/fusion.go"}, {"RRF", "internal/fusion/fusion.go"},
	// the write path and the files
	{"Engine.Write", "internal/engine/commit.go"}, {"commitQueue", "internal/engine/commit.go"},
	{"Engine.flushFrozen", "internal/engine/flush.go"}, {"Engine.Compact", "internal/engine/compact.go"},
	{"head", "internal/engine/head.go"}, {"Version", "internal/engine/version.go"},
	{"EncodeRecord", "internal/engine/record.go"}, {"derivedFile", "internal/engine/derived.go"},
	{"Leftovers", "internal/engine/leftovers.go"}, {"background", "internal/engine/background.go"},
	{"mapFile", "internal/engine/files.go"}, {"copyFile", "internal/replica/backup.go"},
	{"Backup", "internal/replica/backup.go"}, {"Publisher", "internal/replica/publish.go"},
	{"Store", "internal/meta/store.go"}, {"Log.Append", "wal/log.go"}, {"Replay", "wal/replay.go"},
	{"Segment", "segment/segment.go"}, {"Writer", "segment/writer.go"},
}

// leastFound is the number of guesses that have to be right.
const leastFound = 50

// A newcomer finds declarations where their names suggest.
func TestFirstGuess(t *testing.T) {
	found := 0
	for _, g := range guesses {
		b, err := os.ReadFile(filepath.Join(root, g.file))
		if err == nil && declares(b, g.name) {
			found++
		} else {
			t.Logf("%s is not in %s", g.name, g.file)
		}
	}
	if found < leastFound {
		t.Errorf("%d of %d names are where their names suggest, want %d", found, len(guesses), leastFound)
	}
}

// declares reports whether a Go file declares a function, type, variable or method.
func declares(source []byte, name string) bool {
	if m := regexp.MustCompile(`^(\w+)\.(\w+)$`).FindStringSubmatch(name); m != nil {
		return regexp.MustCompile(`(?m)^func \(\w+ \*?` + m[1] + `(?:\[\w+\])?\) ` + m[2] + `\(`).Match(source)
	}
	return regexp.MustCompile(`(?m)^(?:func|type|var|const|\t)\s?` + name + `\b`).Match(source)
}

// Package db is a face: few lines, and few methods of its central type. The limits come from
// decision 13.
func TestFaceIsSmall(t *testing.T) {
	const maxLines, maxMethods = 4000, 45
	lines, methods := 0, 0
	for _, f := range files(t) {
		if f.dir == "db" && !f.test {
			lines += strings.Count(f.text, "\n")
			methods += len(regexp.MustCompile(`(?m)^func \(\w+ \*DB\) `).FindAllString(f.text, -1))
		}
	}
	t.Logf("%d lines, %d methods of *DB", lines, methods)
	if lines < 1000 || lines > maxLines || methods < 10 || methods > maxMethods {
		t.Errorf("db has %d lines and *DB %d methods, want at most %d and %d", lines, methods, maxLines, maxMethods)
	}
}
