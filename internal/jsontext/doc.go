// Package jsontext finds what encoding/json silently replaces in a text. Its input is bytes. It
// knows no value and no file.
package jsontext
