package knowledge

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
)

func (f *fixture) unread() map[string]string {
	f.t.Helper()
	list, err := f.Unread(f.t.Context(), "b")
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]string{}
	last := ""
	for _, u := range list {
		if u.File < last {
			f.t.Errorf("%s after %s", u.File, last)
		}
		last = u.File
		all[filepath.Base(u.File)] = u.Reason
	}
	return all
}

func TestFiles(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.Files(t.Context(), "b", "", 10); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	f.write("a.md", animals)
	f.write("b.csv", "text,n\npears,1\nplums,2,3\n")
	f.write("c/d.txt", "A short text.")
	f.learn("b", counted)

	var all []File
	for after := ""; ; after = all[len(all)-1].Name {
		page, total, err := f.Files(t.Context(), "b", after, 2)
		if err != nil || total != 3 {
			t.Fatal(total, err)
		}
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
	}
	want := []File{{"a.md", 2, nil}, {"b.csv", 1, []string{"row 2: broken: 3 fields under 2 names"}}, {"d.txt", 1, nil}}
	got := make([]File, len(all))
	for i, file := range all {
		got[i] = File{filepath.Base(file.Name), file.Chunks, file.Unread}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got)\n%s", diff)
	}

	for _, tt := range []struct{ offset, limit, want int }{{0, 10, 2}, {1, 10, 1}, {0, 1, 1}, {2, 10, 0}, {0, 0, 0}} {
		file, chunks, err := f.FileChunks(t.Context(), "b", all[0].Name, tt.offset, tt.limit)
		if err != nil || file.Chunks != 2 || len(chunks) != tt.want {
			t.Errorf("%+v: %+v, %d chunks, %v", tt, file, len(chunks), err)
		}
		for i, c := range chunks {
			if !strings.HasSuffix(c.ID, "a.md#"+strconv.Itoa(tt.offset+i)) || c.Text == "" || c.Metadata["header"] == nil || c.Vector != nil {
				t.Errorf("%+v", c)
			}
		}
	}
	if _, _, err := f.FileChunks(t.Context(), "b", "none.md", 0, 1); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, _, err := f.FileChunks(t.Context(), "b", "a.md", -1, 1); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

// What cannot be read is known after the run, until a later run over the path can read it.
func TestUnreadIsKept(t *testing.T) {
	f := newFixture(t)
	f.write("one/a.md", animals)
	f.write("one/broken.pdf", "no PDF")
	f.write("two/broken.rtf", "no RTF")
	f.write("two/rows.csv", "text,n\npears,1\nplums,2,3\n")
	f.learn("b", counted)
	full := map[string]string{"broken.pdf": "broken: not a PDF file: invalid header", "broken.rtf": `broken: no {\rtf at the beginning`, "rows.csv": "row 2: broken: 3 fields under 2 names"}
	if diff := cmp.Diff(full, f.unread()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Another path, and a run that is given up, change nothing.
	f.learnPaths(nil, filepath.Join(f.docs, "one", "a.md"))
	f.write("one/new.md", "New.")
	f.broken = errors.New("no connection")
	if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}}); err == nil {
		t.Error("learnt without an embedder")
	}
	f.broken = nil
	if diff := cmp.Diff(full, f.unread()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// A repaired file leaves the list, its neighbours stay.
	f.write("two/broken.rtf", `{\rtf1 Now it is a text.}`)
	f.write("two/rows.csv", "text,n\npears,1\n")
	f.learnPaths(nil, filepath.Join(f.docs, "two"))
	if diff := cmp.Diff(map[string]string{"broken.pdf": full["broken.pdf"]}, f.unread()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Another embedder keeps the list.
	f.reembed(ReembedOptions{Config: hashed, Switch: yes})
	if diff := cmp.Diff(map[string]string{"broken.pdf": full["broken.pdf"]}, f.unread()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	f.learnPaths(nil, f.docs)
	if got := f.unread(); len(got) != 1 {
		t.Error(got)
	}
}

// A file whose name no id can hold is skipped, and the others are learnt.
func TestNamesThatAreNoIDs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skipped: the system may not have such names")
	}
	long := strings.Repeat("long/", 4) + strings.Repeat("x", 250)
	deep := strings.Repeat(strings.Repeat("d", 250)+"/", 4)
	for _, tt := range []struct{ name, listed, reason string }{
		{"caf\xe9.md", `caf\xe9.md`, "not valid UTF-8"},
		{"caf\xe9/a.md", `caf\xe9`, "readdir caf\uFFFD: invalid argument"},
		{"a\tb.md", `a\tb.md`, "control character"},
		{"a\nb.md", `a\nb.md`, "control character"},
		{deep + long, deep + long, "the limit is 1024"},
		// The id of the file fits, those of its chunks do not.
		{deep + strings.Repeat("x", 19), deep + strings.Repeat("x", 19), "the limit is 1024"},
	} {
		f := newFixture(t)
		t.Chdir(filepath.Dir(f.docs))
		f.write("a.md", "Cats purr.")
		f.write(tt.name, "Dogs bark.")
		listed := "docs/" + tt.listed
		for _, want := range []Report{
			{Files: 1, Chunks: 1, Embedded: 1, Broken: 1},
			{Files: 1, Chunks: 1, Skipped: 1, Broken: 1},
		} {
			got := f.learnPaths(counted, "docs")
			f.expect(got, want)
			if len(got.Unread) != 1 || got.Unread[0].File != listed || !strings.Contains(got.Unread[0].Reason, tt.reason) {
				t.Errorf("%q: %q", tt.name, got.Unread)
			}
			list, err := f.Unread(t.Context(), "b")
			if diff := cmp.Diff(got.Unread, list); diff != "" || err != nil {
				t.Errorf("%q: %v, (-want +got)\n%s", tt.name, err, diff)
			}
		}
		// Files that come later are learnt, and a file under a better name leaves the list.
		f.write("b.md", "Cows moo.")
		f.expect(f.learnPaths(nil, "docs"), Report{Files: 2, Chunks: 2, Embedded: 1, Skipped: 1, Broken: 1})
		err := os.Rename(filepath.Join("docs", tt.name), filepath.Join("docs", "good.md"))
		if dir, _, ok := strings.Cut(tt.name, "/"); ok && err == nil {
			err = os.RemoveAll(filepath.Join("docs", dir))
		}
		if err != nil {
			t.Fatal(err)
		}
		f.expect(f.learnPaths(nil, "docs"), Report{Files: 3, Chunks: 3, Embedded: 1, Skipped: 2})
		if list, err := f.Unread(t.Context(), "b"); len(list) > 0 || err != nil {
			t.Errorf("%q: %q, %v", tt.name, list, err)
		}
		f.expectIDs("docs/a.md", "docs/b.md", "docs/good.md")
	}
}

// A long list is cut to what fits into the metadata of a collection.
func TestLongListOfBrokenFiles(t *testing.T) {
	l := &learner{}
	for i := range 2 * maxUnread {
		l.broken = append(l.broken, Unread{strconv.Itoa(i), strings.Repeat("ä", maxReason)})
	}
	list := l.brokenFiles(nil)
	if n := len(listOf(list)); n != maxUnread {
		t.Errorf("%d files", n)
	}
	for i := range l.broken {
		l.broken[i].File = strings.Repeat("x", 4000)
	}
	long := l.brokenFiles(list)
	var bytes int
	for _, u := range listOf(long) {
		bytes += len(u.File) + len(u.Reason)
	}
	if bytes > maxBroken || bytes < maxBroken-8000 || bytes > db.MaxMetadataLen/2 {
		t.Errorf("%d bytes in %d files", bytes, len(long))
	}
}

func TestExplain(t *testing.T) {
	f := newFixture(t)
	facts(f)
	m := newModel(t, func(system, _ string) string {
		if strings.Contains(system, "what the message asks about") {
			return "why cats purr"
		}
		return "Cats do [1]."
	})
	f.set("b", map[string]any{"chat": "ollama", "chat_url": m.URL, "chat_model": "m", "reranker": "lexical", "top_k": 2, "cache_size": 10})
	o := QueryOptions{Explain: true, Conversation: "x"}
	for i, want := range []string{"the conversation begins", "searched for the topic of the conversation: why cats purr"} {
		r, err := f.Ask(t.Context(), "b", []string{"which animal purrs?", "why do they?"}[i], AskOptions{QueryOptions: o})
		if err != nil {
			t.Fatal(err)
		}
		var names, about []string
		for _, s := range r.Stages {
			names, about = append(names, s.Name), append(about, s.About)
		}
		if diff := cmp.Diff([]string{"conversation", "embed", "search", "rerank", "context", "answer"}, names); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
		if !strings.HasPrefix(about[0], want) || !strings.HasPrefix(about[3], "reranker lexical: 2 of 4 chunks") || about[5] != "m: 1 of 2 sources cited" {
			t.Errorf("%q", about)
		}
	}
	if r := f.query("which animal purrs?", QueryOptions{}); r.Stages != nil {
		t.Errorf("%d stages", len(r.Stages))
	}
}
