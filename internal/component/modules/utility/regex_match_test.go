package utility

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// Compares patterns that have the same meaning in RE2 and JavaScript with RegExp of Node.
func TestRegexMatchMatchesJavaScript(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, regexMatch{})
	texts := []string{
		"write to ada@example.com or bob@example.org", "2026-11-22 and 1985-04-12", "aaa bbb ab aab", "foo.bar(baz, qux)", "\u00fcber \U0001f600 na\u00efve \u65e5\u672c\u8a9e 42", "line one\nline two\n\nline four",
		"0xdeadBEEF 0x1f 1f", "key=value; other = \"quoted \\\" text\"", "x",
	}
	var cases [][]string
	for _, pattern := range []string{
		`(?<user>[^@\s]+)@(?<host>[^@\s]+)`, `(\d{4})-(\d{2})-(\d{2})`, `(a+)(b)?`, `a+?b|b`, `\b\w+\b`, `^\w+`, `\w+$`, `([a-z]+)\.([a-z]+)\(`, `[^\x00-\x7f]+`, `0x([0-9a-fA-F]+)`, `(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|\w+)`,
		`(one|two)|(four)`, `.x?`, `(?:(a)|(b)|(c))+`, `line (?:one|(two))`,
	} {
		for _, text := range texts {
			p, _ := json.Marshal(pattern)
			s, _ := json.Marshal(text)
			cases = append(cases, []string{"regex", string(p), string(s)})
		}
	}
	for i, answer := range independent(t, cases) {
		output, failed := bench.Run(t, "REGEX_MATCH", `{"pattern":`+cases[i][1]+`,"text":`+cases[i][2]+`}`, `{}`)
		if failed != nil {
			t.Errorf("%s in %s: %v", cases[i][1], cases[i][2], failed)
			continue
		}
		var got, want struct {
			Matched bool
			Matches []map[string]any
		}
		if err := errors.Join(json.Unmarshal(output, &got), json.Unmarshal([]byte(`{"matches":`+answer+`}`), &want)); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(cases[i][1], "(?:(a)|(b)|(c))+") {
			for _, m := range append(got.Matches, want.Matches...) {
				m["groups"] = nil // JavaScript resets groups in each repetition
			}
		}
		if fmt.Sprint(got.Matches) != fmt.Sprint(want.Matches) || got.Matched != (len(want.Matches) > 0) {
			t.Errorf("%s in %s:\ngot  %s\nwant %s", cases[i][1], cases[i][2], output, answer)
		}
	}
}

func TestRegexMatchReturnsMatchesAndGroups(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, regexMatch{})
	gives(t, bench, "REGEX_MATCH", `{"pattern":"(?P<user>[^@\\s]+)@([^@\\s]+)","text":"\u00e9: ada@example.com"}`,
		`{"matched":true,"matches":[{"match":"ada@example.com","index":3,"groups":["ada","example.com"],"named":{"user":"ada"}}],"truncated":false}`)
	gives(t, bench, "REGEX_MATCH", `{"pattern":"b","text":"aaa"}`, `{"matched":false,"matches":[],"truncated":false}`)
	gives(t, bench, "REGEX_MATCH", `{"pattern":"(x)?(?<y>y)?a","text":"a"}`, `{"matched":true,"matches":[{"match":"a","index":0,"groups":[null,null],"named":{"y":null}}],"truncated":false}`)
	gives(t, bench, "REGEX_MATCH", `{"pattern":"a","text":"aaa","limit":2}`,
		`{"matched":true,"matches":[{"match":"a","index":0,"groups":[],"named":{}},{"match":"a","index":1,"groups":[],"named":{}}],"truncated":true}`)
	gives(t, bench, "REGEX_MATCH", `{"pattern":"a","text":"aa","limit":2}`,
		`{"matched":true,"matches":[{"match":"a","index":0,"groups":[],"named":{}},{"match":"a","index":1,"groups":[],"named":{}}],"truncated":false}`)
	gives(t, bench, "REGEX_MATCH", `{"pattern":"(?i)ERROR","text":""}`, `{"matched":false,"matches":[],"truncated":false}`)
	gives(t, bench, "REGEX_MATCH", `{"pattern":"^","text":""}`, `{"matched":true,"matches":[{"match":"","index":0,"groups":[],"named":{}}],"truncated":false}`)
}

func TestRegexMatchErrorNamesField(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, regexMatch{})
	refuses(t, bench, "REGEX_MATCH", `{"text":"a"}`, "/input/pattern", "is required")
	refuses(t, bench, "REGEX_MATCH", `{"pattern":"a"}`, "/input/text", "is required")
	refuses(t, bench, "REGEX_MATCH", `{"pattern":7,"text":"a"}`, "/input/pattern", "must be a string", "number")
	refuses(t, bench, "REGEX_MATCH", `{"pattern":"a","text":["a"]}`, "/input/text", "must be a string", "array")
	refuses(t, bench, "REGEX_MATCH", `{"pattern":"","text":"a"}`, "/input/pattern", "at least 1 character")
	for pattern, words := range map[string]string{
		"(a":                        "missing closing )",
		"a)":                        "unexpected )",
		"[b-a]":                     "invalid character class range",
		"*a":                        "missing argument to repetition operator",
		"(?=a)":                     "invalid or unsupported Perl syntax",
		`(a)\1`:                     "invalid escape sequence",
		"a{1001}":                   "invalid repeat count",
		"(?<y>a)|(?P<y>b)":          "the same name",
		strings.Repeat("(a)", 41):   "at most 40 groups are allowed, got 41",
		"(((a{9}){9}){9}){9}":       "an RE2 regular expression",
		strings.Repeat("a{900}", 9): "too large",
	} {
		refuses(t, bench, "REGEX_MATCH", object(t, "pattern", pattern, "text", "a"), "/input/pattern", words)
	}
	refuses(t, bench, "REGEX_MATCH", object(t, "pattern", strings.Repeat("a", 1001), "text", "a"), "/input/pattern", "at most 1000 characters")
	refuses(t, bench, "REGEX_MATCH", `{"pattern":"a","text":"a","limit":0}`, "/input/limit", "at least 1")
	refuses(t, bench, "REGEX_MATCH", `{"pattern":"a","text":"a","limit":1001}`, "/input/limit", "at most 1000", "got 1001")
	refuses(t, bench, "REGEX_MATCH", object(t, "pattern", "(x+x+)+y{500}", "text", strings.Repeat("x", 500_000)), "text must have at most", "got 500000")
	if _, failed := bench.Run(t, "REGEX_MATCH", `{"pattern":"(","text":"canary"}`, `{}`); failed == nil || strings.Contains(failed.Error(), "canary") {
		t.Errorf("%v", failed)
	}
}

func TestRegexMatchIsBounded(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, regexMatch{})
	for _, c := range []struct{ pattern, text, code string }{
		{"(x+x+)+y", strings.Repeat("x", 1_000_000), ""}, // exponential with backtracking
		{"(a|aa)+$", strings.Repeat("a", 1_000_000) + "b", ""},
		{"(a?){400}a{400}", strings.Repeat("a", 10_000), ""},
		{"((((((((a*))))))))", strings.Repeat("a", 800_000), component.CodeOutputTooLarge},
		{".", strings.Repeat("\u65e5", 300_000), ""},
		{"", "", component.CodeInvalidInput},
	} {
		input, _ := json.Marshal(map[string]any{"pattern": c.pattern, "text": c.text, "limit": 1000})
		_, failed := bounded(t, bench, "REGEX_MATCH", string(input))
		if (failed == nil) != (c.code == "") || failed != nil && failed.Code != c.code {
			t.Errorf("%s: %v", c.pattern, failed)
		}
	}
}

// Each character is a match, and each search for the b scans to the end of the text. The deadline
// is checked between matches. The error is not retryable, because a second attempt would time out
// too.
func TestRegexMatchStopsAtItsDeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	input := `{"pattern":"a.*b|a","limit":1000,"text":"` + strings.Repeat("a", 1_000_000) + `"}`
	_, err := regexMatch{}.Run(ctx, component.Call{Input: json.RawMessage(input)})
	if failed, ok := errors.AsType[*component.Error](err); !ok || failed.Code != component.CodeTimeout || failed.Retryable || !strings.Contains(failed.Message, "smaller limit") {
		t.Errorf("%v", err)
	}
}

// The matches are the same as those of FindAll, which can't be interrupted.
func FuzzRegexMatch(f *testing.F) {
	for _, pattern := range []string{`a*`, `^a|b$`, `(?m)^.*$`, `\b`, `\B`, `(a)|(b)?`, `\Qa.b`, `(?i)é|E`, `\A.`, `x*\z`, `(?s).`, `(?U)a+`, `(?m:^)|a`} {
		f.Add(pattern, "baac\nab \u00e9\U0001f600 a.b")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !utf8.ValidString(text) || len(text) > 1000 {
			return
		}
		finder, err := newFinder(pattern)
		if err != nil {
			return
		}
		want := regexp.MustCompile(pattern).FindAllStringSubmatchIndex(text, 50)
		got, err := finder.all(t.Context(), text, 50)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q in %q: got %v, want %v, %v", pattern, text, got, want, err)
		}
	})
}
