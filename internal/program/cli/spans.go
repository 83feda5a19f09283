package cli

import (
	"fmt"
	"slices"
	"strings"
)

// maxSpans bounds the spans that are kept of a component, however many items there are.
const maxSpans = 12

// spans are loop items by index. Consecutive items are merged.
type spans struct {
	list  []span
	items int
	more  int // items beyond the list
}

type span struct{ first, last []int32 }

func (s *spans) add(iteration []int32) {
	s.items++
	if n := len(s.list); n > 0 && follows(s.list[n-1].last, iteration) {
		s.list[n-1].last = iteration
		return
	}
	if len(s.list) == maxSpans {
		s.more++
		return
	}
	s.list = append(s.list, span{iteration, iteration})
}

// follows reports whether an item is the next one of the same loop.
func follows(before, after []int32) bool {
	last := len(after) - 1
	return len(before) == len(after) && slices.Equal(before[:last], after[:last]) && before[last]+1 == after[last]
}

func (s *spans) String() string {
	var parts []string
	for _, one := range s.list {
		text := index(one.first)
		if !slices.Equal(one.first, one.last) {
			text += "-" + index(one.last)
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, ", ")
	if s.more > 0 {
		text = fmt.Sprintf("%s and %d more", text, s.more)
	}
	if s.items == 1 {
		return "item " + text
	}
	return "items " + text
}

// index formats the index of an item, after the indexes of the enclosing items.
func index(iteration []int32) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(iteration), " ", "."), "[]")
}
