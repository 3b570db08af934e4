package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// readNotebook reads a Jupyter notebook (nbformat 3 and 4) as Markdown: text cells as they are,
// code in fences. Outputs are left out, because they repeat and are mostly numbers or images.
func readNotebook(_ context.Context, doc *Document, b []byte, limit int64) error {
	type notebookCell struct {
		Type     string `json:"cell_type"`
		Source   lines  `json:"source"`
		Input    lines  `json:"input"` // of code in nbformat 3
		Language string `json:"language"`
		Level    int    `json:"level"` // of a heading in nbformat 3
	}
	var book struct {
		Cells      []notebookCell `json:"cells"`
		Worksheets []struct {
			Cells []notebookCell `json:"cells"`
		} `json:"worksheets"` // nbformat 3
		Metadata struct {
			Title  string `json:"title"`
			Kernel struct {
				Language string `json:"language"`
			} `json:"kernelspec"`
			Language struct {
				Name string `json:"name"`
			} `json:"language_info"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(b, []byte(mark)), &book); err != nil {
		return err
	}
	doc.Title = oneLine(book.Metadata.Title)
	language := book.Metadata.Language.Name
	if language == "" {
		language = book.Metadata.Kernel.Language
	}
	if language != "" {
		doc.Metadata["language"] = language
	}
	cells := book.Cells
	for _, sheet := range book.Worksheets {
		cells = append(cells, sheet.Cells...)
	}
	text := newMarkdown(limit)
	for i, c := range cells {
		source := newlines(strings.ToValidUTF8(string(c.Source+c.Input), "\ufffd"))
		var err error
		switch c.Type {
		case "code":
			if strings.TrimSpace(source) == "" {
				continue
			}
			lang := c.Language
			if lang == "" {
				lang = language
			}
			fence := strings.Repeat("`", max(3, longestRun(source, '`')+1))
			err = text.paragraph("", fence+oneLine(lang)+"\n"+strings.Trim(source, "\n")+"\n"+fence)
		case "heading":
			err = text.heading(c.Level, source)
		default: // markdown, raw
			err = text.paragraph("", source)
		}
		if err != nil {
			return fmt.Errorf("cell %d: %w", i+1, err)
		}
	}
	doc.Text = strings.TrimSpace(text.String())
	return nil
}

// longestRun returns the length of the longest sequence of c.
func longestRun(s string, c byte) int {
	longest, run := 0, 0
	for i := range len(s) {
		if s[i] != c {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}

// lines is a text that a notebook stores as one string, or as a list of lines with their ends.
type lines string

// UnmarshalJSON implements json.Unmarshaler.
func (l *lines) UnmarshalJSON(b []byte) error {
	var list []string
	if bytes.HasPrefix(b, []byte("[")) {
		err := json.Unmarshal(b, &list)
		*l = lines(strings.Join(list, ""))
		return err
	}
	return json.Unmarshal(b, (*string)(l))
}
