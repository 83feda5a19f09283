//go:build !linux

package devdb

import "context"

// Running is always false: no server can be started here.
func Running(string, string) (dsn string, ok bool) { return "", false }

// Installed is always false.
func Installed(context.Context) (dir, version string, ok bool) { return "", "", false }
