package main

import (
	"context"
	"fmt"
)

// floors measures once what the machine can do. Figures with a floor measure it again, alternately
// with Weft.
func (r *rig) floors(ctx context.Context) ([]Floor, error) {
	r.logf("floors ...")
	type floor struct {
		name    string
		clients int
		measure load
	}
	floors := []floor{
		{"one PostgreSQL commit (a row inserted)", 1, r.commits(ctx, 1, false)},
		{"one PostgreSQL commit (a row inserted)", 64, r.commits(ctx, 64, false)},
		{"two PostgreSQL commits (insert, update)", 64, r.commits(ctx, 64, true)},
	}
	if r.All {
		floors = append(floors,
			floor{"signed echo, no database", 64, r.echoes(ctx, 64)},
			floor{"signed POST by Go's client to a receiver", 64, r.posts(ctx)})
	}
	var list []Floor
	for _, f := range floors {
		s, err := f.measure()
		if err != nil {
			return list, fmt.Errorf("measure the floor %q: %w", f.name, err)
		}
		list = append(list, Floor{Name: f.name, Clients: f.clients, Rate: s.rate(), P50ms: s.p50()})
	}
	return list, nil
}
