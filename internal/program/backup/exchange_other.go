//go:build !linux

package backup

import "errors"

// exchange returns an error: this system cannot swap the names of two folders.
func exchange(string, string) error { return errors.ErrUnsupported }
