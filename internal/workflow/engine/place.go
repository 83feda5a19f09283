package engine

import (
	"strconv"
	"strings"
)

// Place identifies a component in an iteration, or an iteration of a loop. In the second case, the
// index in that loop comes last.
type Place struct {
	Component string
	Iteration string // in PostgreSQL's array syntax
}

// Indexes returns the iteration of the place.
func (p Place) Indexes() []int32 {
	indexes := []int32{} // never nil, which is NULL to PostgreSQL
	for _, text := range strings.Split(strings.Trim(p.Iteration, "{}"), ",") {
		if index, err := strconv.ParseInt(text, 10, 32); err == nil {
			indexes = append(indexes, int32(index))
		}
	}
	return indexes
}

// PlaceOf returns the place of a component in an iteration.
func PlaceOf(component string, iteration []int32) Place {
	return Place{component, array(iteration)}
}

// array returns an iteration in PostgreSQL's array syntax.
func array(iteration []int32) string {
	text := []byte{'{'}
	for i, index := range iteration {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(index), 10)
	}
	return string(append(text, '}'))
}
