package egresstest

import (
	"context"
	"net"
)

// NewResolver returns a resolver that uses only the name server at the given UDP address.
func NewResolver(server string) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "udp", server)
		},
	}
}
