//go:build !linux

// Package devchain runs the private EVM chain of `weft dev --chain`, on Linux. Elsewhere
// a node cannot be made to end with its owner, so Start returns an error.
package devchain

import (
	"context"
	"errors"
	"log/slog"
)

// Config says where the chain lives.
type Config struct {
	Dir string
	Log *slog.Logger
}

// Chain is a running chain; on this system there is none.
type Chain struct{}

// Start refuses.
func Start(context.Context, Config) (*Chain, error) {
	return nil, errors.New("weft starts a chain of its own on Linux only: start anvil yourself, and open it with --allow-network 127.0.0.0/8")
}

// Addr is empty.
func (*Chain) Addr() string { return "" }

// URL is empty.
func (*Chain) URL() string { return "" }

// Done is never closed.
func (*Chain) Done() <-chan struct{} { return nil }

// Stop does nothing.
func (*Chain) Stop(context.Context) error { return nil }
