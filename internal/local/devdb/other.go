//go:build !linux

// Package devdb runs the private PostgreSQL of weft dev and of the tests, on Linux. Other systems
// cannot stop a server with its owner, so Start returns an error: set DATABASE_URL instead.
package devdb

import (
	"context"
	"errors"
	"log/slog"
)

// Config holds the settings of a server.
type Config struct {
	Dir      string
	Volatile bool
	Settings map[string]string
	Log      *slog.Logger
}

// Server is a running PostgreSQL. It does not exist on this system.
type Server struct{}

// Start returns an error.
func Start(context.Context, Config) (*Server, error) {
	return nil, errors.New("a private PostgreSQL needs Linux; set DATABASE_URL to your own server")
}

// DSN returns "".
func (*Server) DSN(string) string { return "" }

// Done returns nil.
func (*Server) Done() <-chan struct{} { return nil }

// Pid returns 0.
func (*Server) Pid() int { return 0 }

// CreateDatabase returns errors.ErrUnsupported.
func (*Server) CreateDatabase(context.Context, string) error { return errors.ErrUnsupported }

// Stop does nothing and returns nil.
func (*Server) Stop(context.Context) error { return nil }
