package utility

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
)

// Limits of one call. A search takes one step per character and instruction of the pattern, and it
// can't be interrupted. The deadline is checked between two matches.
const (
	maxGroups      = 40
	maxPattern     = 1000       // characters
	maxSteps       = 5_000      // instructions of a compiled pattern
	maxSearch      = 50_000_000 // steps of one search
	maxMatches     = 1000
	defaultMatches = 100
)

type regexMatch struct{}

func (regexMatch) Describe() component.Descriptor {
	return component.Computation{
		Module:      "REGEX_MATCH",
		Title:       "Match regular expression",
		Description: "Finds all non-overlapping matches of a regular expression in a string, from left to right, with their groups. The syntax is RE2, which runs in linear time and has no lookaround and no backreferences. Start the pattern with (?i) to ignore case, (?m) to let ^ and $ match at line boundaries, (?s) to let . match newlines.",
		Category:    category,
		Input: `"description": "The pattern and the text.", "required": ["pattern", "text"], "properties": {
			"pattern": {"type": "string", "format": "re2", "minLength": 1, "maxLength": 1000, "title": "Pattern", "description": "The regular expression, in RE2 syntax, with at most 40 groups. Name a group with (?<name>...) or (?P<name>...). Group names must be unique.", "examples": ["(?<user>[^@\\s]+)@(?<host>[^@\\s]+)"]},
			"text": {"type": "string", "title": "Text", "description": "The text to search. The maximum length depends on the size of the pattern.", "examples": ["write to ada@example.com"]},
			"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "title": "Limit", "description": "The maximum number of matches to return.", "default": 100, "examples": [1]}
		}, "examples": [{"pattern": "(?<user>[^@\\s]+)@(?<host>[^@\\s]+)", "text": "write to ada@example.com"}, {"pattern": "(?i)error", "text": "no Error here", "limit": 1}]`,
		Output: `"description": "The matches.", "required": ["matched", "matches", "truncated"], "properties": {
			"matched": {"type": "boolean", "title": "Matched", "description": "Whether there is a match.", "examples": [true]},
			"matches": {"type": "array", "title": "Matches", "description": "The matches, from left to right.", "examples": [[{"match": "ada@example.com", "index": 9, "groups": ["ada", "example.com"], "named": {"user": "ada", "host": "example.com"}}]], "items": {
				"type": "object",
				"required": ["match", "index", "groups", "named"],
				"properties": {
					"match": {"type": "string", "description": "The matched text."},
					"index": {"type": "integer", "minimum": 0, "description": "The index of the match, in characters (Unicode code points)."},
					"groups": {"type": "array", "items": {"type": ["string", "null"]}, "description": "The text that each group matched, in order; null if the group didn't participate in the match."},
					"named": {"type": "object", "additionalProperties": {"type": ["string", "null"]}, "description": "The text that each named group matched, by name."}
				}
			}},
			"truncated": {"type": "boolean", "title": "Truncated", "description": "Whether there are more matches than limit.", "examples": [false]}
		}`,
	}.Descriptor()
}

// Formats returns the string formats of the schema.
func (regexMatch) Formats() map[string]func(string) error {
	return map[string]func(string) error{"re2": func(text string) error { _, err := newFinder(text); return err }}
}

func (regexMatch) Run(ctx context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		Pattern, Text string
		Limit         component.Integer
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	limit := int(cmp.Or(input.Limit, defaultMatches))
	if limit < 1 || limit > maxMatches {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "limit must be between 1 and %d, got %d", maxMatches, limit)
	}
	f, err := newFinder(input.Pattern)
	if err != nil {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "pattern: %s", err)
	}
	if longest := maxSearch / f.steps; len(input.Text) > longest {
		return component.Result{}, component.Permanent(component.CodeInvalidInput, "text must have at most %d bytes for a pattern of this size, got %d", longest, len(input.Text))
	}
	found, err := f.all(ctx, input.Text, limit+1)
	if errors.Is(err, context.DeadlineExceeded) {
		return component.Result{}, component.Permanent(component.CodeTimeout, "the search timed out because the pattern scans far beyond each match. Use a smaller limit, a shorter text or a simpler pattern")
	}
	if err != nil {
		return component.Result{}, err
	}
	matches, err := f.matches(input.Text, found[:min(limit, len(found))])
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]any{"matched": len(found) > 0, "matches": matches, "truncated": len(found) > limit})
}

// finder finds matches one at a time. Package regexp only offers a function that returns all
// matches, which can't be interrupted.
type finder struct {
	first *regexp.Regexp // finds the first match
	next  *regexp.Regexp // finds, as its first group, the first match after the first character
	steps int            // maximum number of steps per character
}

// newFinder compiles a pattern. Errors don't quote the pattern.
func newFinder(pattern string) (*finder, error) {
	if utf8.RuneCountInString(pattern) > maxPattern {
		return nil, fmt.Errorf("at most %d characters are allowed", maxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if wrong, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("expected an RE2 regular expression: %s", wrong.Code)
	} else if err != nil {
		return nil, errors.New("expected an RE2 regular expression")
	}
	if groups := parsed.MaxCap(); groups > maxGroups {
		return nil, fmt.Errorf("at most %d groups are allowed, got %d", maxGroups, groups)
	}
	if names := parsed.CapNames()[1:]; hasDuplicate(names) {
		return nil, errors.New("two groups have the same name; group names must be unique")
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxSteps {
		return nil, errors.New("it is too large after expanding its repetitions")
	}
	f := &finder{steps: len(program.Inst) * (1 + parsed.MaxCap()/4)} // a step copies the positions of the groups
	if f.first, err = regexp.Compile(pattern); err == nil {
		// parsed.String() is self-contained: it has no open \\Q quotation and no flags that affect
		// the characters after it.
		f.next, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + parsed.String() + `)`)
	}
	if err != nil {
		return nil, errors.New("expected an RE2 regular expression")
	}
	return f, nil
}

// hasDuplicate reports whether two groups have the same name. Unnamed groups have the name "".
func hasDuplicate(names []string) bool {
	for i, name := range names {
		if name != "" && slices.Contains(names[:i], name) {
			return true
		}
	}
	return false
}

// find returns the start and end offsets of the first match at or after an offset, and of its
// groups. It returns nil if there is no match.
func (f *finder) find(text string, from int) []int {
	if from == 0 {
		return f.first.FindStringSubmatchIndex(text)
	}
	// A pattern can depend only on the one character before the offset.
	_, width := utf8.DecodeLastRuneInString(text[:from])
	base := from - width
	found := f.next.FindStringSubmatchIndex(text[base:])
	if found == nil {
		return nil
	}
	found = found[2:]
	for i := range found {
		if found[i] >= 0 {
			found[i] += base
		}
	}
	return found
}

// all returns at most limit matches, the same as FindAll of package regexp.
func (f *finder) all(ctx context.Context, text string, limit int) ([][]int, error) {
	var all [][]int
	for from, end := 0, -1; len(all) < limit && from <= len(text); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found := f.find(text, from)
		if found == nil {
			break
		}
		doubled := found[0] == found[1] && found[0] == end // an empty match at the end of the previous match
		end = found[1]
		if !doubled {
			all = append(all, found)
		}
		if from = end; found[0] == end {
			_, width := utf8.DecodeRuneInString(text[end:])
			from += max(width, 1)
		}
	}
	return all, nil
}

type match struct {
	Match  string             `json:"match"`
	Index  int                `json:"index"`
	Groups []*string          `json:"groups"`
	Named  map[string]*string `json:"named"`
}

// matches converts matches into the form of the output. It returns OUTPUT_TOO_LARGE as soon as the
// matches exceed the limit.
func (f *finder) matches(text string, all [][]int) ([]match, error) {
	out := make([]match, 0, len(all))
	index, counted, size := 0, 0, 0
	names := f.first.SubexpNames()
	for _, found := range all {
		index += utf8.RuneCountInString(text[counted:found[0]])
		counted = found[0]
		m := match{Match: text[found[0]:found[1]], Index: index, Groups: []*string{}, Named: map[string]*string{}}
		size += len(m.Match)
		for group := 1; 2*group < len(found); group++ {
			var value *string
			if start := found[2*group]; start >= 0 {
				value = new(text[start:found[2*group+1]])
				size += len(*value)
			}
			m.Groups = append(m.Groups, value)
			if names[group] != "" {
				m.Named[names[group]] = value
			}
		}
		if size > component.MaxOutput {
			return nil, component.Permanent(component.CodeOutputTooLarge, "the matches have more than %d bytes. Use a smaller limit or fewer groups", component.MaxOutput)
		}
		out = append(out, m)
	}
	return out, nil
}
