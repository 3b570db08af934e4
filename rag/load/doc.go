// Package load reads texts from files: plain text, Markdown, HTML, PDF, DOCX,
// CSV, JSONL and source code, one by one or a directory at a time.
//
// A [Document] is a text with where it comes from. What a file has beyond text
// becomes metadata: front matter, titles, fields of rows. [Document.Line] and
// [Document.Page] say where an offset of the text stands in the file.
//
//	for doc, err := range load.Path(ctx, "notes", nil) {
//		var skipped *load.SkipError
//		if errors.As(err, &skipped) {
//			log.Print(skipped)
//			continue
//		}
//		...
//	}
//
// A file that is broken, too large or not text is skipped with a reason, and the
// rest goes on. Files are not trusted: whatever they hold, reading them neither
// panics nor takes memory without bound.
package load
