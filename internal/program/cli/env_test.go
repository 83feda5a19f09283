package cli_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func variable(name, value string, secret bool) string {
	return fmt.Sprintf(`{"name":%q,"value":%s,"secret":%v,"description":"of\u001b[2J X","createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`, name, value, secret)
}

func TestVariablesAreSetFromArgumentsAndFromStandardInput(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, variable(r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:], "null", true))
	})
	set := func(stdin string, args ...string) result {
		return run(t, s.environ(), stdin, append([]string{"env", "set"}, args...)...)
	}
	set("", "ADDRESS", "https://a.example/?a=<b>&c", "--description", "of X").check(t, 0, "", "{{env.ADDRESS}}")
	set("", "ADDRESS", "").check(t, 0, "", "ADDRESS is set")
	set("hush\n", "TOKEN", "--secret").check(t, 0, "", "TOKEN is set, secret.")
	set("two\r\nlines\r\n", "TOKEN").check(t, 0, "", "is set")
	set("", "OPEN", "seen", "--no-secret").check(t, 0, "", "is set")
	run(t, s.environ(), "", "env", "unset", "TOKEN").check(t, 0, "", "TOKEN is deleted")
	const path, list = " /v1/sdk/environment-variables/", "GET /v1/sdk/environment-variables?limit=100"
	want := []string{
		list, "PUT" + path + `ADDRESS {"description":"of X","value":"https://a.example/?a=<b>&c"}`,
		list, "PUT" + path + `ADDRESS {"value":""}`,
		"PUT" + path + `TOKEN {"secret":true,"value":"hush"}`,
		"PUT" + path + `TOKEN {"value":"two\r\nlines"}`,
		"PUT" + path + `OPEN {"secret":false,"value":"seen"}`,
		"DELETE" + path + "TOKEN",
	}
	if !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
	}
	for text, got := range map[string]result{
		"which other users can see":          set("", "TOKEN", "hush", "--secret"),
		"the value is missing":               set("", "TOKEN"),
		"the value is not valid UTF-8":       set("\xff", "TOKEN"),
		"is not a valid variable name":       set("", "a-b", "c"),
		`"a/b" is not a valid variable name`: run(t, s.environ(), "", "env", "unset", "a/b"),
	} {
		got.check(t, 2, "", text)
		if strings.Contains(got.stdout+got.stderr, "hush") {
			t.Errorf("the output contains the value: %s", got.stderr)
		}
	}
	if len(s.seen()) != len(want) {
		t.Errorf("rejected requests were sent: %q", s.seen()[len(want):])
	}
}

func TestVariablesAreListedByName(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[%s,%s],"nextCursor":null,"hasMore":false}`,
			variable("TOKEN", "null", true), variable("ADDRESS", `"a\n`+strings.Repeat("b", 100)+`"`, false))
	})
	got := run(t, s.environ(), "", "env", "list")
	want := "NAME     VALUE" + strings.Repeat(" ", 99) + "SECRET  UPDATED              DESCRIPTION\n" +
		"ADDRESS  a\uFFFD" + strings.Repeat("b", 100) + "  no      2026-11-21 10:15:30  of\uFFFD[2J X\n" +
		"TOKEN" + strings.Repeat(" ", 108) + "yes     2026-11-21 10:15:30  of\uFFFD[2J X\n"
	if got.code != 0 || got.stdout != want {
		t.Errorf("code %d\n%s\nwant\n%s%s", got.code, got.stdout, want, got.stderr)
	}
}
