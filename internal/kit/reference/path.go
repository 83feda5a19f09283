package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Path is a chain of names in an expression, such as load.body.items[0].id.
type Path struct {
	Root     string   // the ID of a component, or Env, Run or Now
	Named    bool     // Root is a name of the language, and not the ID of a component
	Segments []string // the names and indexes after it
	From, To int      // its place in the expression, in bytes

	// Tolerated reports whether the expression has a value without the path. Package expression sets it.
	Tolerated bool
}

// String returns the path in dotted form.
func (p Path) String() string {
	if p.Named && p.Root == Now {
		return "now()"
	}
	return strings.Join(append([]string{p.Root}, p.Segments...), ".")
}

// reserved are operators and literals of the language. A component with such an ID is meant only if
// something of it is read.
var reserved = []string{"and", "or", "not", "in", "matches", "contains", "startsWith", "endsWith", "let", "if", "else", "nil", "true", "false"}

// IsReserved reports whether a name is an operator or a literal of the language.
func IsReserved(name string) bool { return slices.Contains(reserved, name) }

// Paths returns the paths in an expression, in order. known reports whether a name is the ID of a
// component, or a name of the language that the expression may use. Paths returns a *Malformed if it
// is unclear whether a minus sign is a part of a name.
func Paths(code string, known func(name string) bool) (paths []Path, err error) {
	s := scanner{code: code, known: known}
	for s.at < len(code) {
		if next := afterLiteral(code, s.at); next > s.at {
			s.at = next
			continue
		}
		if !isLetter(code[s.at]) {
			s.at++
			continue
		}
		path, found, err := s.name()
		if err != nil {
			return nil, err
		}
		if found {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// scanner finds paths.
type scanner struct {
	code  string
	known func(string) bool
	at    int
}

// isLetter reports whether a byte can be a part of a name. Every character beyond ASCII can.
func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

const spaces = " \t\r\n"

var noArguments = regexp.MustCompile(`^\s*\(\s*\)`)

// name reads the name at the current position, and the path that starts there, if one does.
func (s *scanner) name() (p Path, found bool, err error) {
	start := s.at
	s.at = s.word(start, false)
	before := strings.TrimRight(s.code[:start], spaces)
	if strings.HasSuffix(before, ".") && !strings.HasSuffix(before, "..") || strings.HasSuffix(before, "#") {
		return p, false, nil // a field, or a variable of a predicate
	}
	root := s.longest(start)
	if root == start {
		return p, false, nil
	}
	p = Path{Root: s.code[start:root], From: start, Named: IsName(s.code[start:root])}
	rest := s.code[root:]
	trimmed := strings.TrimLeft(rest, spaces)
	if p.Root == Now {
		p.To = root + len(noArguments.FindString(rest))
		s.at = max(s.at, p.To)
		return p, p.To > root, nil
	}
	switch followed := strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["); {
	case strings.HasPrefix(trimmed, "("): // a function
		return p, false, nil
	case strings.HasPrefix(trimmed, ":") && (strings.HasSuffix(before, "{") || strings.HasSuffix(before, ",")): // a key
		return p, false, nil
	case slices.Contains(reserved, p.Root) && !followed:
		return p, false, nil
	}
	s.at = root
	if err := s.segments(&p); err != nil {
		return p, false, err
	}
	if p.Root == Outputs && len(p.Segments) > 0 {
		p.Root, p.Named, p.Segments = p.Segments[0], false, p.Segments[1:]
	}
	return p, true, nil
}

// word returns the end of the name that starts at an index. It contains hyphens if hyphens is set.
func (s *scanner) word(from int, hyphens bool) int {
	for from < len(s.code) && (isLetter(s.code[from]) || hyphens && s.code[from] == '-') {
		from++
	}
	return from
}

// longest returns the end of the longest known name at an index, or the index. A name ends before a
// character that cannot be a part of it, or before a hyphen.
func (s *scanner) longest(start int) int {
	last := s.word(start, true)
	for at := last; at > start; at-- {
		if at < last && s.code[at] != '-' {
			continue
		}
		if name := s.code[start:at]; s.known(name) && strings.Trim(name, "0123456789") != "" {
			return at
		}
	}
	return start
}

// literal matches an index or a name in brackets.
var literal = regexp.MustCompile(`^\[\s*(?:([0-9]+)|"([^"\\]*)"|'([^'\\]*)')\s*\]`)

// segments reads the segments after the root of a path. They end before ?. and before brackets that
// contain anything but a literal.
func (s *scanner) segments(p *Path) error {
	for {
		rest := s.code[s.at:]
		if found := literal.FindStringSubmatch(rest); found != nil {
			p.Segments = append(p.Segments, found[1]+found[2]+found[3])
			s.at += len(found[0])
			continue
		}
		if strings.HasPrefix(rest, ".") {
			if next := s.word(s.at+1, true); next > s.at+1 {
				p.Segments = append(p.Segments, s.code[s.at+1:next])
				s.at = next
				continue
			}
		}
		p.To = s.at
		return s.minus(*p)
	}
}

// minus rejects a path before a minus sign that has a space on one side only.
func (s *scanner) minus(p Path) error {
	rest := s.code[p.To:]
	after := strings.TrimLeft(rest, spaces)
	hyphenated := strings.HasSuffix(s.code[p.From:p.To], "-")
	negative := len(after) < len(rest) && len(after) > 1 && after[0] == '-' && !strings.ContainsRune(spaces, rune(after[1]))
	if hyphenated || negative {
		return &Malformed{fmt.Sprintf("a minus sign after %s has a space on one side only: write spaces on both sides to subtract", strings.TrimRight(p.String(), "-"))}
	}
	return nil
}
