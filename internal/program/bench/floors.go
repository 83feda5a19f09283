package bench

import (
	"context"
	"fmt"
)

// floors measures once what the machine can do. Figures with a floor measure it again, alternately
// with Weft.
func (r *rig) floors(ctx context.Context) ([]Floor, error) {
	r.logf("floors ...")
	var list []Floor
	add := func(name string, clients int, measure func() (sample, error)) error {
		s, err := measure()
		if err != nil {
			return fmt.Errorf("measure the floor %q: %w", name, err)
		}
		list = append(list, Floor{Name: name, Clients: clients, Rate: s.rate(), P50ms: s.p50()})
		return nil
	}
	for _, two := range []bool{false, true} {
		name := "one PostgreSQL commit (a row inserted)"
		if two {
			name = "two PostgreSQL commits (insert, update)"
		}
		for _, clients := range []int{1, 16, 64} {
			if err := add(name, clients, func() (sample, error) { return r.commits(ctx, clients, two) }); err != nil {
				return list, err
			}
		}
	}
	for _, clients := range []int{1, 16, 64} {
		if err := add("signed echo, no database", clients, func() (sample, error) { return r.echoes(ctx, clients) }); err != nil {
			return list, err
		}
	}
	if err := add("signed POST by Go's client to a receiver", 64, func() (sample, error) { return r.posts(ctx) }); err != nil {
		return list, err
	}
	rate, err := r.riverDrains(ctx)
	if err != nil {
		return list, err
	}
	return append(list, Floor{Name: "River drains queued no-op jobs", Clients: 1, Rate: rate}), nil
}
