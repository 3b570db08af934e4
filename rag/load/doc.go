// Package load reads texts from files: plain text, Markdown, HTML, PDF, source code, Office files
// (DOCX, PPTX, XLSX, ODT), EPUB, RTF, mail (EML), Jupyter notebooks, CSV and JSONL, one file or a
// whole directory.
//
// A [Document] is a text with its position in a file. Other content of the file becomes metadata:
// front matter, titles, fields of rows. [Document.Line] and [Document.Page] map an offset in the
// text to a place in the file.
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
// A file that is broken, too large or not text is skipped with a reason, and reading continues with
// the next file; errors name the part of an archive, the row or the page. An empty file is
// [ErrEmpty], a PDF of images [ErrScanned]. Files are untrusted: no content makes the package panic
// or take memory without bound.
package load
