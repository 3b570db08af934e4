package load

import (
	"bytes"
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
	"strings"
	"time"

	"golang.org/x/net/html/charset"
)

const (
	maxMailDepth = 20    // of parts within parts
	maxMailParts = 1_000 // of a message
)

// readMail reads a message (RFC 5322, MIME): the subject as its heading, the sender, the recipients
// and the date, then the text. An HTML part is read if there is no plain text. Attachments are
// named and not read.
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
	body := strings.Join(m.plain, "\n\n")
	if strings.TrimSpace(body) == "" {
		body = strings.Join(m.html, "\n\n")
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
	plain, html []string
	attachments []string
	parts       int
}

// part reads a part. name is its position for errors, as in "part 1.2".
func (m *message) part(header textproto.MIMEHeader, body io.Reader, name string, depth int) error {
	if m.parts++; depth > maxMailDepth || m.parts > maxMailParts {
		return fmt.Errorf("%w: %s: more than %d parts, or %d within each other", ErrTooLarge, name,
			maxMailParts, maxMailDepth)
	}
	kind, params, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || kind == "" {
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
		return m.multipart(multipart.NewReader(body, params["boundary"]), name, depth)
	case !text:
		m.attachments = append(m.attachments, kind)
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(body, m.limit+1))
	if err != nil && len(content) == 0 { // the text before the damage is kept
		return fmt.Errorf("%s: %w", name, err)
	}
	if kind == "text/html" {
		return m.addHTML(content, params["charset"], name)
	}
	s, err := mailText(content, params["charset"])
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m.plain = append(m.plain, s)
	return nil
}

func (m *message) multipart(r *multipart.Reader, name string, depth int) error {
	prefix := strings.TrimPrefix(name, "body")
	if prefix != "" {
		prefix += "."
	} else {
		prefix = "part "
	}
	for i := 1; ; i++ {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		here := fmt.Sprintf("%s%d", prefix, i)
		if err != nil && len(m.plain)+len(m.html) > 0 {
			return nil // cut off: the parts before are kept
		}
		if err != nil {
			return fmt.Errorf("%s: %w", here, err)
		}
		if err := m.part(p.Header, p, here, depth+1); err != nil {
			return err
		}
	}
}

// addHTML converts an HTML part. Its declared character set replaces one that the page declares.
func (m *message) addHTML(content []byte, set, name string) error {
	if set != "" {
		text, err := mailText(content, set)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		content = append([]byte(mark), text...)
	}
	var page Document
	if err := readHTML(&page, content, true, m.limit); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m.html = append(m.html, page.Text)
	return nil
}

// attachment returns the name of a part, and whether it is declared an attachment.
func attachment(header textproto.MIMEHeader, params map[string]string) (name string, declared bool) {
	disposition, more, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	if err != nil {
		disposition, more = "", nil
	}
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

// mailText decodes a text in a character set; an unknown set is detected.
func mailText(b []byte, set string) (string, error) {
	e, label := charset.Lookup(set)
	if e == nil || label == "utf-8" {
		return decode(b)
	}
	text, err := e.NewDecoder().Bytes(b)
	return newlines(string(text)), err
}
