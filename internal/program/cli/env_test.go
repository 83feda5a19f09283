package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func variable(name, value string, secret bool) string {
	return fmt.Sprintf(`{"name":%q,"kind":"value","value":%s,"secret":%v,"description":"of\u001b[2J X","createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`, name, value, secret)
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
	want := "NAME     VALUE" + strings.Repeat(" ", 99) + "KIND   SECRET  UPDATED              DESCRIPTION\n" +
		"ADDRESS  a\uFFFD" + strings.Repeat("b", 100) + "  value  no      2026-11-21 10:15:30  of\uFFFD[2J X\n" +
		"TOKEN" + strings.Repeat(" ", 108) + "value  yes     2026-11-21 10:15:30  of\uFFFD[2J X\n"
	if got.code != 0 || got.stdout != want {
		t.Errorf("code %d\n%s\nwant\n%s%s", got.code, got.stdout, want, got.stderr)
	}
}

const token = `{"name":"SHOP","kind":"oauth2","value":null,"secret":true,"tokenUrl":"https://auth.example/token","clientId":"weft","clientAuth":"header","scope":null,"audience":null,` +
	`"description":"","createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}`

func TestAVariableThatIsATokenIsSetFromFlags(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, token) })
	set := func(stdin string, args ...string) result {
		return run(t, s.environ(), stdin, append([]string{"env", "set", "SHOP"}, args...)...)
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := []string{"--oauth2", "--token-url", "https://auth.example/token", "--client-id", "weft"}
	set("", append(client, "--client-secret-file", file, "--scope", "a b", "--audience", "x", "--client-auth", "body")...).check(t, 0, "https://auth.example/token", "SHOP is set, secret.")
	set("hush\n", append(client, "--client-secret-file", "-")...).check(t, 0, "weft", "SHOP is set")
	set("", append(client, "--description", "of X")...).check(t, 0, "oauth2", "SHOP is set")
	const put = "PUT /v1/sdk/environment-variables/SHOP "
	want := []string{
		put + `{"audience":"x","clientAuth":"body","clientId":"weft","clientSecret":"hush","kind":"oauth2","scope":"a b","tokenUrl":"https://auth.example/token"}`,
		put + `{"clientId":"weft","clientSecret":"hush","kind":"oauth2","tokenUrl":"https://auth.example/token"}`,
		put + `{"clientId":"weft","description":"of X","kind":"oauth2","tokenUrl":"https://auth.example/token"}`,
	}
	if !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
	}
	set("", append(client, "hush")...).check(t, 2, "", "--oauth2 takes no value")
	set("", append(client, "--client-secret-file", "-")...).check(t, 2, "", "the client secret is missing")
	set("", append(client, "--client-secret-file", file+"x")...).check(t, 1, "", "no such file")
	set("\xff", append(client, "--client-secret-file", "-")...).check(t, 2, "", "not valid UTF-8")
	set("", "x", "--client-id", "weft").check(t, 2, "", "need --oauth2")
	if len(s.seen()) != len(want) {
		t.Errorf("rejected requests were sent: %q", s.seen()[len(want):])
	}
}

func TestAValueForATokenIsRefusedWithAWayOut(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, token)
			return
		}
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"status":409,"code":"CONFLICT","error":"CONFLICT","reason":"variable_is_token","message":"It is a token.","requestId":"x","retryable":false}`)
	})
	for _, args := range [][]string{{"plain"}, {"plain", "--no-secret"}, nil} {
		run(t, s.environ(), "plain\n", append([]string{"env", "set", "SHOP"}, args...)...).check(t, 2, "", "weft env unset SHOP")
	}
}

func TestGetOfATokenSaysThatItCannotBeReadAndShowsItsClientAsJSON(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, token)
	})
	got := run(t, s.environ(), "", "env", "get", "SHOP")
	got.check(t, 6, "", "SHOP is an access token, which Weft fetches when a call needs it")
	if strings.Contains(got.stderr, "--secret") {
		t.Errorf("it says how to set a value: %s", got.stderr)
	}
	run(t, s.environ(), "", "env", "get", "SHOP", "-o", "json").check(t, 0, `"tokenUrl": "https://auth.example/token"`, "")
}
