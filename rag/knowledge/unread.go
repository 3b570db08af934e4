package knowledge

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/rag/load"
)

// Unread is a file, or a row of a file, that was not read.
type Unread struct {
	File   string `json:"file"`   // with escapes if it is not UTF-8 or has control characters
	Reason string `json:"reason"` // begins with the row, if it is one
}

// skip counts a file that cannot be read.
func (l *learner) skip(file string, err error) {
	file = printable(file)
	l.report.Broken++
	var skip *load.SkipError
	if errors.As(err, &skip) {
		err = skip.Err
	}
	reason := reasonOf(err)
	if len(l.broken) < maxUnread {
		l.broken = append(l.broken, Unread{file, reason})
	}
	l.unread(file, []any{reason})
}

// unread reports reasons why a file, or rows of it, were not read.
func (l *learner) unread(file string, reasons []any) {
	for _, r := range reasons {
		reason, _ := r.(string)
		l.opts.Logger.InfoContext(l.ctx, "not read", "file", file, "reason", reason)
		if len(l.report.Unread) < maxUnread {
			l.report.Unread = append(l.report.Unread, Unread{file, reason})
		}
	}
}

// maxUnread is the number of files and rows that are listed as unread.
const maxUnread = 1000

// reasons are why a file, or rows of it, were not read.
type reasons struct {
	first []any // as they are kept with the file
	rows  int   // whose reasons are in first
	more  int   // rows with other reasons
}

// row adds the reason for a row.
func (r *reasons) row(row int, err error) {
	const most = 19
	if r.rows == most {
		r.more++
		return
	}
	r.rows++
	r.first = append(r.first, brief(rowReason(row, err).Error()))
}

// list returns the first reasons, and the number of rows that have others.
func (r *reasons) list() []any {
	if r.more > 0 {
		return append(slices.Clip(r.first), fmt.Sprintf("%d rows more", r.more))
	}
	return r.first
}

// rowReason returns the reason why a row is not read, in valid UTF-8.
func rowReason(row int, err error) error { return fmt.Errorf("row %d: %s", row, reasonOf(err)) }

// reasonOf returns an error as UTF-8: errors of the system contain names of files, which may be
// none.
func reasonOf(err error) string { return strings.ToValidUTF8(err.Error(), "\uFFFD") }

// printable returns the name of a file with escapes if it is not UTF-8 or has control characters.
// Such names are no ids, and lists of unread files, stored or printed, could not hold them.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) {
		return name
	}
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}
