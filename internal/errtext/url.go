package errtext

import (
	"errors"
	"net/url"
	"regexp"
)

// userinfo is the name and the password in what somebody took for a URL, behind its scheme.
var userinfo = regexp.MustCompile(`(?s)^([A-Za-z][A-Za-z0-9+.-]*://)?.*@`)

// WithoutUser returns an address, or what somebody took for one, without what stands before its
// host: that may be a password.
func WithoutUser(address string) string { return userinfo.ReplaceAllString(address, "${1}…@") }

// Anonymous leaves the name and the password in a URL out of an error of package http or url.
func Anonymous(err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err
	}
	at, unread := url.Parse(failed.URL)
	if unread != nil { // it may quote a part of the password
		return errors.New("invalid URL")
	}
	at.User = nil
	failed.URL = at.String()
	return err
}
