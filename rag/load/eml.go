package load

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html/charset"
)

const (
	maxMailDepth = 20    // of parts within parts
	maxMailParts = 1_000 // of a message
)

// readMail reads a message (RFC 5322, MIME): the subject as its heading, the sender, the recipients
// and the date, then the text. Of alternatives the plain text is read, or HTML if no part has any.
// Attachments are named and not read.
func readMail(_ context.Context, doc *Document, b []byte, limit int64) error {
	msg, err := mail.ReadMessage(bytes.NewReader(bytes.TrimLeft(b, "\r\n")))
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if len(msg.Header) == 0 {
		return errors.New("no header")
	}
	m := &message{limit: limit}
	if err := m.part(textproto.MIMEHeader(msg.Header), msg.Body, "body", 0); err != nil {
		return err
	}
	text := newMarkdown(limit)
	doc.Title = words(msg.Header.Get("Subject"))
	if err := text.heading(1, doc.Title); err != nil {
		return err
	}
	var head []string
	for _, name := range []string{"From", "To", "Cc", "Date"} {
		value := words(msg.Header.Get(name))
		if value == "" {
			continue
		}
		head = append(head, name+": "+value)
		if name == "Date" {
			if t, err := mail.ParseDate(msg.Header.Get(name)); err == nil {
				value = t.Format(time.RFC3339)
			}
		}
		doc.Metadata[strings.ToLower(name)] = value
	}
	if len(m.attachments) > 0 {
		var names []any
		for _, name := range m.attachments {
			names = append(names, name)
		}
		doc.Metadata["attachments"] = names
		head = append(head, "Attachments: "+strings.Join(m.attachments, ", "))
	}
	var texts []string
	for _, one := range m.texts {
		texts = append(texts, one.text)
	}
	body := strings.Join(texts, "\n\n")
	if strings.TrimSpace(body) == "" && m.failed != nil {
		return m.failed
	}
	if strings.TrimSpace(body) == "" && len(m.attachments) == 0 && doc.Title == "" {
		return nil // ErrEmpty
	}
	for _, s := range []string{strings.Join(head, "\n"), newlines(body)} {
		if err := text.paragraph("", s); err != nil {
			return err
		}
	}
	doc.Text = strings.TrimSpace(text.String())
	return nil
}

// message collects the parts of a message.
type message struct {
	limit       int64
	texts       []mailText
	attachments []string
	parts       int
	failed      error // of the last part that could not be read
}

// mailText is the text of a part.
type mailText struct {
	text string
	html bool
}

// part reads a part. name is its position for errors, as in "part 1.2".
func (m *message) part(header textproto.MIMEHeader, body io.Reader, name string, depth int) error {
	if m.parts++; depth > maxMailDepth || m.parts > maxMailParts {
		return fmt.Errorf("%w: %s: more than %d parts, or %d within each other", ErrTooLarge, name,
			maxMailParts, maxMailDepth)
	}
	kind, params := mediaType(header.Get("Content-Type"))
	if kind == "" {
		kind = "text/plain" // RFC 2045, 5.2
	}
	text, parts := kind == "text/plain" || kind == "text/html", strings.HasPrefix(kind, "multipart/")
	// A message may name its text, too, and lists of parts may have names.
	own := depth == 0 && (text || parts)
	file, declared := attachment(header, params)
	if !own && (declared || file != "" && !parts) || kind == "message/rfc822" {
		if file == "" {
			file = kind
		}
		m.attachments = append(m.attachments, file)
		return nil
	}
	switch strings.ToLower(strings.TrimSpace(header.Get("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	switch {
	case parts:
		return m.multipart(multipart.NewReader(body, params["boundary"]), kind, name, depth)
	case !text:
		m.attachments = append(m.attachments, kind)
		return nil
	}
	content, err := m.text(kind, params["charset"], body)
	if errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err != nil { // it is listed, and does not hide the other parts
		m.failed = fmt.Errorf("%s: %w", name, err)
		m.attachments = append(m.attachments, cmp.Or(file, kind))
		return nil
	}
	m.texts = append(m.texts, mailText{content, kind == "text/html"})
	return nil
}

// text reads the text of a part.
func (m *message) text(kind, set string, body io.Reader) (string, error) {
	content, err := io.ReadAll(io.LimitReader(body, m.limit+1))
	if err != nil && len(content) == 0 { // the text before the damage is kept
		return "", err
	}
	if kind == "text/html" {
		return m.html(content, set)
	}
	return decodeMail(content, set)
}

func (m *message) multipart(r *multipart.Reader, kind, name string, depth int) error {
	prefix := strings.TrimPrefix(name, "body")
	if prefix != "" {
		prefix += "."
	} else {
		prefix = "part "
	}
	before := m.texts
	var parts [][]mailText
	for i := 1; ; i++ {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		here := fmt.Sprintf("%s%d", prefix, i)
		if err != nil {
			m.failed = fmt.Errorf("%s: %w", here, err)
			break // cut off: the parts before are kept
		}
		m.texts = nil
		if err := m.part(p.Header, p, here, depth+1); err != nil {
			return err
		}
		parts = append(parts, m.texts)
	}
	if kind == "multipart/alternative" {
		parts = best(parts)
	}
	m.texts = append(before, slices.Concat(parts...)...)
	return nil
}

// best returns the part of multipart/alternative to read: the first of plain text, or the last one
// with text, because the parts get richer (RFC 2046, 5.1.4).
func best(parts [][]mailText) [][]mailText {
	html := func(t mailText) bool { return t.html }
	var last [][]mailText
	for _, part := range parts {
		if !slices.ContainsFunc(part, func(t mailText) bool { return strings.TrimSpace(t.text) != "" }) {
			continue
		}
		last = [][]mailText{part}
		if !slices.ContainsFunc(part, html) {
			break
		}
	}
	return last
}

// html converts an HTML part. Its declared character set replaces one that the page declares.
func (m *message) html(content []byte, set string) (string, error) {
	if set != "" {
		text, err := decodeMail(content, set)
		if err != nil {
			return "", err
		}
		content = append([]byte(mark), text...)
	}
	var page Document
	err := readHTML(&page, content, true, m.limit)
	return page.Text, err
}

// mediaType parses a header such as Content-Type. Parameters that are not quoted as they should be
// do not hide the type, nor the other parameters. A header without a type has the type "".
func mediaType(header string) (kind string, params map[string]string) {
	kind, params, err := mime.ParseMediaType(header)
	if err == nil {
		return kind, params
	}
	quoted := false
	fields := strings.FieldsFunc(header, func(r rune) bool {
		quoted = quoted != (r == '"')
		return r == ';' && !quoted
	})
	if len(fields) == 0 {
		return "", nil
	}
	kind = fields[0]
	if kind, _, err = mime.ParseMediaType(kind); err != nil {
		return "", nil
	}
	params = map[string]string{}
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		if params[name] == "" {
			params[name] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return kind, params
}

// attachment returns the name of a part, and whether it is declared an attachment.
func attachment(header textproto.MIMEHeader, params map[string]string) (name string, declared bool) {
	disposition, more := mediaType(header.Get("Content-Disposition"))
	name = oneLine(words(more["filename"]))
	if name == "" {
		name = oneLine(words(params["name"]))
	}
	return name, disposition == "attachment"
}

// words decodes the encoded words of a header (RFC 2047). A header with a broken one stays as it
// is.
func words(header string) string {
	dec := mime.WordDecoder{CharsetReader: charset.NewReaderLabel}
	if s, err := dec.DecodeHeader(header); err == nil {
		header = s
	}
	return oneLine(strings.ToValidUTF8(header, "\ufffd"))
}

// decodeMail decodes a text in a character set; an unknown set is detected.
func decodeMail(b []byte, set string) (string, error) {
	e, label := charset.Lookup(set)
	if e == nil || label == "utf-8" {
		return decode(b)
	}
	text, err := e.NewDecoder().Bytes(b)
	return newlines(string(text)), err
}
