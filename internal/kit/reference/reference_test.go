package reference_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/reference"
)

func TestStringsAreSplitIntoTextAndExpressions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     `""`,
		"plain }} text":                        `"plain }} text"`,
		"{{a.b}}":                              "[a.b]",
		"{{ a.b }}":                            "[a.b]",
		"{{ a.b? }}":                           "[a.b]?",
		"{{ a.b ?? c? }}":                      "[a.b ?? c]?",
		"{{ a ?? b }}":                         "[a ?? b]",
		" {{a}}\n":                             `" "[a]"\n"`,
		"x{{a}}y{{b}}":                         `"x"[a]"y"[b]`,
		`{{ "}}" }}`:                           `["}}"]`,
		`{{ "{{" }} is literal`:                `["{{"]" is literal"`,
		"{{{a: 1}}}":                           "[{a: 1}]",
		"{{ map(a.list, {{id: .id}}) }}":       "[map(a.list, {{id: .id}})]",
		"{{ a['}}'] }}":                        "[a['}}']]",
		"{{ 'it\\'s }}' }}":                    "['it\\'s }}']",
		"{{ a /* }} */ }}":                     "[a /* }} */]",
		"https://x/{{a.id}}?q={{ env.Q }}#top": `"https://x/"[a.id]"?q="[env.Q]"#top"`,
	} {
		parts, err := reference.Parse(text)
		if got := shown(parts); err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
		for _, part := range parts {
			if !strings.HasPrefix(text[part.At:], part.Text) {
				t.Errorf("%q: the part %q is not at %d", text, part.Text, part.At)
			}
		}
	}
	for text, want := range map[string]string{"{{": "not closed", "{{ }}": "empty", "{{?}}": "empty", "a {{ b }": "not closed", "{{ '}} ": "not closed"} {
		if _, err := reference.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func shown(parts []reference.Part) string {
	var out strings.Builder
	for _, part := range parts {
		switch {
		case part.IsCode && part.Optional:
			out.WriteString("[" + part.Text + "]?")
		case part.IsCode:
			out.WriteString("[" + part.Text + "]")
		default:
			out.WriteString(`"` + strings.ReplaceAll(part.Text, "\n", `\n`) + `"`)
		}
	}
	return out.String()
}

func TestPathsStartAtKnownNames(t *testing.T) {
	t.Parallel()
	known := func(name string) bool {
		return slices.Contains([]string{"start", "load", "my-id", "my", "a", "b", "in", "sum", "2fa", "7"}, name) || reference.IsName(name)
	}
	for code, want := range map[string]string{
		"start":                                  "start",
		"start.amount * 2":                       "start.amount",
		"my-id.x - my.y":                         "my-id.x my.y",
		"my-other.x":                             "my",
		"load.body.items[0].id":                  "load.body.items.0.id",
		"load.items.0.id":                        "load.items.0.id",
		`load.headers["content.type"]`:           "load.headers.content.type",
		"load.headers.content-type":              "load.headers.content-type",
		"load.items[-1]":                         "load.items",
		"load.items[start.n]":                    "load.items start.n",
		"a.b?.c":                                 "a.b",
		"(a.b)[1]":                               "a.b",
		"sum(a.list)":                            "a.list",
		"sum.total":                              "sum.total",
		"a.x in b.list":                          "a.x b.list",
		"in.x":                                   "in.x",
		"{a: 1, b: a.x, c: 2}":                   "a.x",
		"start.ok ? a : b":                       "start.ok a b",
		"filter(a.list, .start == #.load)":       "a.list",
		"filter(a.list, #index > 1)":             "a.list",
		"1..start.n":                             "start.n",
		"'start.x' + \"a\" + `b` // start.y":     "",
		"now()":                                  "now()",
		"now( )":                                 "now()",
		"now":                                    "",
		"env.NAME + run.id":                      "env.NAME run.id",
		`outputs["7"].x`:                         "7.x",
		`outputs["my-id"]`:                       "my-id",
		"7 + 2fa.code":                           "2fa.code",
		"other.start":                            "",
		"a.x\n- b.y":                             "a.x b.y",
		"-a.x":                                   "a.x",
		"a.b . c":                                "a.b",
		"let x = a.n; x + x":                     "a.n",
		"a.überschrift == '\u00fc'":              "a.überschrift",
		"strasse.a":                              "",
		"a[\"x\"]['y'][0]":                       "a.x.y.0",
		"a.b ?? start.c ?? 1":                    "a.b start.c",
		"start.d-e":                              "start.d-e",
		"not a.x and b.y":                        "a.x b.y",
		"[a.x, b.y]":                             "a.x b.y",
		"f(a, b)":                                "a b",
		"start.x matches \"^a\" or a contains b": "start.x a b",
	} {
		paths, err := reference.Paths(code, known)
		var words []string
		for _, p := range paths {
			words = append(words, p.String())
		}
		if got := strings.Join(words, " "); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", code, got, err, want)
		}
	}
	for _, code := range []string{"a.x -1", "a.x- 1", "a -b", "my-id.x -b.y"} {
		if _, err := reference.Paths(code, known); err == nil {
			t.Errorf("%s: want an error for the minus sign", code)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a {{ b.c ?? \"}}\" }} {{d?}}")
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := reference.Parse(text)
		if err != nil {
			return
		}
		for _, part := range parts {
			if !strings.HasPrefix(text[part.At:], part.Text) {
				t.Fatalf("the part %q is not at %d", part.Text, part.At)
			}
			paths, err := reference.Paths(part.Text, func(name string) bool { return len(name) == 1 })
			for _, p := range paths {
				if err == nil && (p.From >= p.To || p.To > len(part.Text)) {
					t.Fatalf("%+v in %q", p, part.Text)
				}
			}
		}
	})
}
