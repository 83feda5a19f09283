package egresstest

import (
	"context"
	"net"
)

// NewResolver asks the name server at the given UDP address and no other.
func NewResolver(server string) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "udp", server)
		},
	}
}
