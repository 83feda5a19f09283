//go:build !linux

package devdb

import "context"

// Running returns false: this system cannot run a server.
func Running(string, string) (dsn string, ok bool) { return "", false }

// Installed returns false.
func Installed(context.Context) (dir, version string, ok bool) { return "", "", false }
