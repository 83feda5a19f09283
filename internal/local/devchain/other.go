//go:build !linux

// Package devchain runs the private EVM chain of `weft dev --chain`, on Linux. Other systems cannot
// stop a node with its owner, so Start returns an error.
package devchain

import (
	"context"
	"errors"
	"log/slog"
)

// Config holds the settings of a chain.
type Config struct {
	Dir string
	Log *slog.Logger
}

// Chain is a running chain. It does not exist on this system.
type Chain struct{}

// Start returns an error.
func Start(context.Context, Config) (*Chain, error) {
	return nil, errors.New("a private chain needs Linux; start anvil yourself and allow it with --allow-network 127.0.0.0/8")
}

// Addr returns "".
func (*Chain) Addr() string { return "" }

// URL returns "".
func (*Chain) URL() string { return "" }

// Done returns nil.
func (*Chain) Done() <-chan struct{} { return nil }

// Stop does nothing and returns nil.
func (*Chain) Stop(context.Context) error { return nil }
