//go:build !linux

// Package devdb runs the private PostgreSQL of weft dev and of the tests, on
// Linux. Elsewhere a server cannot be made to end with its owner, so Start returns an
// error: set DATABASE_URL instead.
package devdb

import (
	"context"
	"errors"
	"log/slog"
)

// Config says where the server lives and how careful it is.
type Config struct {
	Dir      string
	Volatile bool
	Settings map[string]string
	Log      *slog.Logger
}

// Server is a running PostgreSQL; on this system there is none.
type Server struct{}

// Start refuses.
func Start(context.Context, Config) (*Server, error) {
	return nil, errors.New("weft starts a PostgreSQL of its own on Linux only: set DATABASE_URL to a server of yours")
}

// DSN is empty.
func (*Server) DSN(string) string { return "" }

// Done is never closed.
func (*Server) Done() <-chan struct{} { return nil }

// Pid is 0.
func (*Server) Pid() int { return 0 }

// CreateDatabase refuses.
func (*Server) CreateDatabase(context.Context, string) error { return errors.ErrUnsupported }

// Stop does nothing.
func (*Server) Stop(context.Context) error { return nil }
