package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

// A Page is a report.
type Page struct {
	Title    string
	Subtitle string
	Body     template.HTML
	Script   template.JS // runs after the body is there
}

var (
	//go:embed page.css
	css string
	//go:embed page.js
	script string
)

// The content security policy proves to the browser, and to the reader, that the page neither loads
// nor sends anything.
const shell = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>%s</title>
<style>
%s</style>
</head>
<body>
<header><h1>%s</h1><p class="soft">%s</p></header>
%s
<script>
%s%s</script>
</body>
</html>
`

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	title := template.HTMLEscapeString(p.Title)
	_, err := fmt.Fprintf(w, shell, title, css, title, template.HTMLEscapeString(p.Subtitle), p.Body, script, p.Script)
	return err
}
