//go:build !linux && !darwin

package vfs

import "errors"

func exchange(string, string) error { return errors.ErrUnsupported }
