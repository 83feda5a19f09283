package utility

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/credit"
)

// What one call may cost. A search looks at each character once for each step
// of the pattern, and nothing can stop it once it has begun: between two
// matches the deadline is looked at.
const (
	maxGroups      = 40
	maxPattern     = 1000       // characters
	maxSteps       = 5_000      // of a pattern
	maxSearch      = 50_000_000 // steps of one search
	maxMatches     = 1000
	defaultMatches = 100
)

type regexMatch struct{}

func (regexMatch) Describe() component.Descriptor {
	return component.Descriptor{
		Module:      "REGEX_MATCH",
		Title:       "Match regular expression",
		Description: "Finds the matches of a regular expression in a text, from left to right without overlap, with what its groups matched. Expressions are those of RE2, which take time in proportion to the text whatever they say: there are no look-arounds and no references back to groups. (?i) at the beginning disregards case, (?m) lets ^ and $ match at lines, (?s) lets . match line ends.",
		Category:    category,
		Input: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What to look for, and where.",
			"required": ["pattern", "text"],
			"properties": {
				"pattern": {"type": "string", "format": "re2", "minLength": 1, "maxLength": 1000, "title": "Pattern", "description": "The regular expression, in the syntax of RE2, with at most 40 groups. Groups have names as (?<name>...) or (?P<name>...); no two groups have the same name.", "examples": ["(?<user>[^@\\s]+)@(?<host>[^@\\s]+)"]},
				"text": {"type": "string", "title": "Text", "description": "The text to look in. The larger the pattern, the shorter it has to be.", "examples": ["write to ada@example.com"]},
				"limit": {"type": "integer", "minimum": 1, "maximum": 1000, "title": "Limit", "description": "How many matches to give at most.", "default": 100, "examples": [1]}
			},
			"examples": [{"pattern": "(?<user>[^@\\s]+)@(?<host>[^@\\s]+)", "text": "write to ada@example.com"}, {"pattern": "(?i)error", "text": "no Error here", "limit": 1}]
		}`),
		Config: json.RawMessage(emptySchema),
		Output: json.RawMessage(`{
			"$schema": "https://json-schema.org/draft/2020-12/schema",
			"type": "object",
			"description": "What was found.",
			"required": ["matched", "matches", "truncated"],
			"properties": {
				"matched": {"type": "boolean", "title": "Matched", "description": "Whether there is a match.", "examples": [true]},
				"matches": {"type": "array", "title": "Matches", "description": "The matches in their order.", "examples": [[{"match": "ada@example.com", "index": 9, "groups": ["ada", "example.com"], "named": {"user": "ada", "host": "example.com"}}]], "items": {
					"type": "object",
					"required": ["match", "index", "groups", "named"],
					"properties": {
						"match": {"type": "string", "description": "The text that matched."},
						"index": {"type": "integer", "minimum": 0, "description": "The number of characters (Unicode code points) before it."},
						"groups": {"type": "array", "items": {"type": ["string", "null"]}, "description": "What each group matched, from the first on; null where a group took no part."},
						"named": {"type": "object", "additionalProperties": {"type": ["string", "null"]}, "description": "The same for the groups with names, by name."}
					}
				}},
				"truncated": {"type": "boolean", "title": "Truncated", "description": "Whether there are more matches than limit.", "examples": [false]}
			}
		}`),
		Price: credit.Credits(1), Timeout: 5 * time.Second,
		Effect: component.EffectNone, Repeat: component.RepeatPure, Modes: both,
	}
}

// Formats are the string formats of the schema.
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
		return component.Result{}, component.Permanent(component.CodeTimeout, "the matches were not found in time, because the pattern reads far beyond each of them; take a smaller limit, a shorter text or a simpler pattern")
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

// finder finds one match after the other, which package regexp does only in
// one go that cannot be stopped.
type finder struct {
	first *regexp.Regexp // finds the first match
	next  *regexp.Regexp // finds, as its first group, the first match after the first character
	steps int            // that it takes for each character, at most
}

// newFinder compiles a pattern. Its error says what is wrong and does not
// quote the pattern.
func newFinder(pattern string) (*finder, error) {
	if utf8.RuneCountInString(pattern) > maxPattern {
		return nil, fmt.Errorf("at most %d characters are allowed", maxPattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if wrong, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Errorf("a regular expression of RE2 is needed: %s", wrong.Code)
	} else if err != nil {
		return nil, errors.New("a regular expression of RE2 is needed")
	}
	if groups := parsed.MaxCap(); groups > maxGroups {
		return nil, fmt.Errorf("at most %d groups are allowed, got %d", maxGroups, groups)
	}
	if names := parsed.CapNames()[1:]; hasDuplicate(names) {
		return nil, errors.New("two groups have the same name; each needs a name of its own")
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxSteps {
		return nil, errors.New("it is too large once its repetitions are written out")
	}
	f := &finder{steps: len(program.Inst) * (1 + parsed.MaxCap()/4)} // a step carries along what the groups matched
	if f.first, err = regexp.Compile(pattern); err == nil {
		// As text of its own, in which no quotation is left open and no flag reaches beyond.
		f.next, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + parsed.String() + `)`)
	}
	if err != nil {
		return nil, errors.New("a regular expression of RE2 is needed")
	}
	return f, nil
}

// hasDuplicate reports whether two groups have the same name. Groups without a name have "".
func hasDuplicate(names []string) bool {
	for i, name := range names {
		if name != "" && slices.Contains(names[:i], name) {
			return true
		}
	}
	return false
}

// find is the first match at or after a place between two characters: where it
// and its groups begin and end, nil if there is none.
func (f *finder) find(text string, from int) []int {
	if from == 0 {
		return f.first.FindStringSubmatchIndex(text)
	}
	// The character before is all that a pattern may ask of the text before.
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

// all finds at most limit matches, those that FindAll of package regexp finds.
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
		doubled := found[0] == found[1] && found[0] == end // an empty match at the end of the one before
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

// matches is what was found, in the words of the output: OUTPUT_TOO_LARGE
// before it takes much memory.
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
			if begin := found[2*group]; begin >= 0 {
				value = new(text[begin:found[2*group+1]])
				size += len(*value)
			}
			m.Groups = append(m.Groups, value)
			if names[group] != "" {
				m.Named[names[group]] = value
			}
		}
		if size > component.MaxOutput {
			return nil, component.Permanent(component.CodeOutputTooLarge, "the matches have more than %d bytes; take a smaller limit or fewer groups", component.MaxOutput)
		}
		out = append(out, m)
	}
	return out, nil
}
