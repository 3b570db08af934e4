package load

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestTables: spans are capped at the size of the table, and a table that would be far larger than
// the page is refused.
func TestTables(t *testing.T) {
	repeat := strings.Repeat
	row := func(cells ...string) string { return "<tr><td>" + strings.Join(cells, "<td>") + "</tr>" }
	tests := []struct{ name, page, want string }{ // no text: ErrTooLarge
		{"spans", "<table><tr><th colspan=2>a</th></tr>" + row("1", "2"), "| a |  |\n|---|---|\n| 1 | 2 |"},
		{"rows", "<table><tr><th>a<th>b</tr><tr><td rowspan=2>1<td>2</tr>" + row("3"), "| a | b |\n|---|---|\n| 1 | 2 |\n|  | 3 |"},
		{"wide span", "<table><tr><th colspan=999>a</th></tr>" + row("1", "2"), "| a |  |\n|---|---|\n| 1 | 2 |"},
		{"span beyond integers", "<table><tr><th colspan=99999999999999999999>a</th></tr>" + row("1", "2"), "| a |  |\n|---|---|\n| 1 | 2 |"},
		{"spans only", "<table><tr><td colspan=9999 rowspan=9999>x</td></tr></table>", "|  |\n|---|\n| x |"},
		{"long cell", "<table>" + row(repeat("x", 1000)) + repeat(row("1"), 1000), "|  |\n|---|\n| " + repeat("x", 1000) + " |\n" + strings.TrimSpace(repeat("| 1 |\n", 1000))},
		{"ragged", "<table><tr>" + repeat("<td>1", 10_000) + "</tr>" + repeat(row("1"), 10_000), ""},
		{"spans of many cells", "<table><tr>" + repeat("<td colspan=1000>", 5000), ""},
		{"spans of many rows", "<table>" + repeat("<tr><td rowspan=9999>", 3000), ""},
		{"many tables", repeat("<table><tr>"+repeat("<td>1", 300)+"</tr>"+repeat("<tr><td>1", 300)+"</table>", 20), ""},
		{"moved cells", "<table><tr><td colspan=1000>" + repeat("<td>", 40_000) + row("1"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			docs, skipped := read(t, "a.html", tt.page, &Options{WholePages: true})
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 256<<20 {
				t.Errorf("%d MB allocated", got>>20)
			}
			switch {
			case tt.want == "":
				if len(docs) != 0 || len(skipped) != 1 || !errors.Is(skipped[0], ErrTooLarge) || !strings.Contains(skipped[0].Error(), "a table of at least") {
					t.Errorf("%d documents, %v", len(docs), skipped)
				}
			case len(docs) != 1:
				t.Error(skipped)
			case docs[0].Text != tt.want:
				t.Errorf("%.300q, want %.300q", docs[0].Text, tt.want)
			}
		})
	}
}

// TestDeepLists: quotes and lists that are nested deep take little memory, and their text is kept.
func TestDeepLists(t *testing.T) {
	lines := strings.Repeat("x<br>", 3000)
	for name, page := range map[string]string{
		"quotes": strings.Repeat("<blockquote>", 150) + lines + "</blockquote><p>outside",
		"lists":  strings.Repeat("<ul><li>item", 150) + lines + "</ul><p>outside",
		"mixed":  strings.Repeat("<ol><li>item<blockquote>", 100) + lines + "</blockquote><p>outside",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		docs, skipped := read(t, "a.html", page, &Options{WholePages: true})
		runtime.ReadMemStats(&after)
		if len(docs) != 1 || strings.Count(docs[0].Text, "x\n")+strings.Count(docs[0].Text, "x  \n") != 3000 || !strings.Contains(docs[0].Text, "outside") {
			t.Errorf("%s: %v", name, skipped)
			for _, d := range docs {
				t.Errorf("%.300q", d.Text)
			}
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 128<<20 {
			t.Errorf("%s: %d MB allocated", name, got>>20)
		}
	}
	const list = "<ul><li>a<ul><li>b<blockquote>c</blockquote></ul></ul>"
	if docs, _ := read(t, "a.html", list, nil); len(docs) != 1 || docs[0].Text != "- a\n  \n  - b\n    \n    > c" {
		t.Errorf("%q", docs[0].Text)
	}
}

// TestTextOfPage: the text of a page can be longer than the page.
func TestTextOfPage(t *testing.T) {
	page := "<p>" + strings.Repeat("*", 900)
	mail := fmt.Sprintf("Subject: x\nContent-Type: text/html\n\n%s", page)
	for name, content := range map[string]string{"a.html": page, "a.eml": mail} {
		docs, skipped := read(t, name, content, &Options{MaxBytes: 1000})
		if len(docs) != 0 || len(skipped) != 1 || !errors.Is(skipped[0], ErrTooLarge) || !strings.Contains(skipped[0].Error(), "bytes of text") {
			t.Errorf("%s: %d documents, %v", name, len(docs), skipped)
		}
	}
}

// TestPartsOfPages: parts are left out unless they are most of the page.
func TestPartsOfPages(t *testing.T) {
	article := strings.Repeat("<p>A paragraph of the article, with enough words to count as one.</p>", 100)
	for _, tt := range []struct{ name, page, has, lacks string }{
		{"form", "<form><p>All of it.</p></form>", "All of it.", ""},
		{"long form", "<form>" + article + "</form>", "A paragraph of the article", ""},
		{"article in a form", "<form><nav>Menu</nav><article>" + article + "</article></form>", "A paragraph of the article", "Menu"},
		{"aside", "<p>intro</p><aside>Warning: never unplug it.</aside>", "Warning: never unplug it.", ""},
		{"button", "<h2><button>A question?</button></h2><p>The answer.</p>", "A question?", ""},
		{"navigation", "<nav>Menu</nav><p>Some text.</p><footer>Imprint</footer>", "Some text.", "Menu"},
		{"footer", "<nav>Menu</nav><p>Some text.</p><footer>Imprint</footer>", "Some text.", "Imprint"},
		{"only navigation", "<nav>" + strings.Repeat("<a href=x>Another page</a> ", 10) + "</nav><p>x</p>", "Another page", ""},
		{"long page", "<nav>Menu</nav><article>" + article + "</article><aside>More like this</aside>", "A paragraph of the article", "More like this"},
		{"script", "<p>text</p><script>run()</script>", "text", "run"},
	} {
		docs, skipped := read(t, "a.html", tt.page, nil)
		if len(docs) != 1 || !strings.Contains(docs[0].Text, tt.has) || tt.lacks != "" && strings.Contains(docs[0].Text, tt.lacks) {
			t.Errorf("%s: %v", tt.name, skipped)
			for _, d := range docs {
				t.Errorf("%.300q", d.Text)
			}
		}
	}
}

// TestTitleOfPage: a drawing in a page has a title of its own.
func TestTitleOfPage(t *testing.T) {
	const drawing = "<svg><title>A drawing</title></svg><p>text</p>"
	for page, want := range map[string]string{drawing: "", drawing + "<title>A page</title>": "A page",
		"<title>A page</title>" + drawing: "A page"} {
		if docs, skipped := read(t, "a.html", page, nil); len(docs) != 1 || docs[0].Title != want {
			t.Errorf("%s: %v, %v", page, docs, skipped)
		}
	}
}
