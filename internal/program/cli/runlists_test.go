package cli_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestListsReadSeveralPages(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		item := strings.Replace(workflowText, `"Pause"`, `"\u001b[2JPause"`, 1)
		if strings.HasSuffix(r.URL.Path, "/executions") {
			item = runRecord("COMPLETED", "null", "null")
		}
		fmt.Fprintf(w, `{"data":[%s],"nextCursor":"more","hasMore":true}`, item)
	})
	run(t, s.environ(), "", "workflows", "list", "--limit=2", "--status=PAUSED").
		check(t, 0, "\n\uFFFD[2JPause       ACTIVE  3        2026-11-21 10:15:30  "+workflowID+"\n", "There are more")
	run(t, s.environ(), "", "runs", "list", "--limit=1", "--workflow="+workflowID, "--jq=.[].id").check(t, 0, runID+"\n", "There are more")
	want := []string{
		"GET /v1/sdk/workflows?limit=2&status=PAUSED", "GET /v1/sdk/workflows?cursor=more&limit=1&status=PAUSED",
		"GET /v1/sdk/workflows/executions?limit=1&workflowId=" + workflowID,
	}
	if !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
	}
	// A table needs names, and reads no more workflows than it needs.
	run(t, s.environ(), "", "runs", "list", "--limit=1").check(t, 0, "  COMPLETED  2026-11-21 10:16:00  1.25s  4.5      API      "+runID+"\n", "There are more")
	if want := append(want, "GET /v1/sdk/workflows/executions?limit=1", "GET /v1/sdk/workflows?limit=100"); !slices.Equal(s.seen(), want) {
		t.Errorf("requests %q", s.seen())
	}
}

// A page may be empty although there are more items. All pages have the same filters, even if one is a duration
// before now.
func TestListsAreFilteredByTheService(t *testing.T) {
	t.Parallel()
	page := 0
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		page++
		fmt.Fprintf(w, `{"data":[%s],"nextCursor":"more","hasMore":%t}`, []string{"", "", record("FAILED", "null", "null")}[page%3], page%3 != 0)
	})
	for _, c := range []struct {
		path  string
		args  []string
		query url.Values
	}{
		{"/v1/sdk/workflows/executions", []string{"runs", "list", "--trigger=schedule", "--status=failed", "--workflow=" + workflowID, "--until=2026-11-22 10:00:00"},
			url.Values{"trigger": {"SCHEDULE"}, "status": {"FAILED"}, "workflowId": {workflowID}, "createdBefore": {"2026-11-22T10:00:00Z"}}},
		{"/v1/sdk/components/executions", []string{"executions", "list", "--module=random-uuid", "--status=failed", "--until=2026-11-22T10:00:00.5+01:00"},
			url.Values{"module": {"RANDOM_UUID"}, "status": {"FAILED"}, "createdBefore": {"2026-11-22T09:00:00.5Z"}}},
	} {
		before := len(s.seen())
		run(t, s.environ(), "", append(c.args, "--since=7d", "--limit=2", "--jq=.[].status")...).check(t, 0, "FAILED\n", "")
		var since string
		for i, one := range s.seen()[before:] {
			address, err := url.Parse(strings.TrimPrefix(one, "GET "))
			if err != nil {
				t.Fatal(err)
			}
			got := address.Query()
			if since = cmp.Or(since, got.Get("createdAfter")); got.Get("createdAfter") != since || since == "" || got.Has("cursor") != (i > 0) {
				t.Errorf("page %d: %s", i, one)
			}
			for _, name := range []string{"createdAfter", "cursor", "limit"} {
				got.Del(name)
			}
			if address.Path != c.path || !maps.EqualFunc(got, c.query, slices.Equal) {
				t.Errorf("page %d: %s", i, one)
			}
		}
		if n := len(s.seen()) - before; n != 3 {
			t.Errorf("%d pages were read", n)
		}
	}
}

// Names come from the credentials file and from the service.
func TestUnknownWorkflowSuggestsTheNearestName(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, workflowText)
	})
	s.nameWorkflow(t, "fanOut")
	for text, want := range map[string]string{"Nightly report": `there is no workflow "Nightly report". To list`, "Fan-out": "did you mean fanOut?", "Pauze": "did you mean Pause?"} {
		for _, command := range [][]string{{"run", text}, {"workflows", "pull", text}, {"runs", "list", "--workflow", text}} {
			run(t, s.environ(), "", command...).check(t, 4, "", want)
		}
	}
}

func TestUnknownRunSaysHowToListRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"code":"NOT_FOUND","detail":"There is no run with this ID.","status":404}`)
	})
	run(t, s.environ(), "", "runs", "get", runID).check(t, 4, "", "There is no run with this ID.\nTo list the runs: weft runs list\n")
	run(t, s.environ(), "", "api", "/v1/nothing").check(t, 4, "", "There is no run with this ID.\n")
}

// A list is an array in JSON, a line for each item in JSON lines, and says what to do if it is empty.
func TestListsHaveEveryFormat(t *testing.T) {
	items := ""
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/executions") {
			fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, items)
			return
		}
		fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, workflowText)
	})
	formats := func(args ...string) (all string) {
		for _, format := range []string{"table", "json", "jsonl", "yaml"} {
			all += run(t, s.environ(), "", append([]string{"runs", "list", "-o", format}, args...)...).stdout + "|"
		}
		return all
	}
	if got := formats(); got != "|[]\n||[]\n|" {
		t.Errorf("an empty list is %q", got)
	}
	run(t, s.environ(), "", "runs", "list").check(t, 0, "", "No runs. Start one: weft run fanOut\n")
	if quiet := run(t, s.environ(), "", "runs", "list", "--quiet"); quiet.stderr != "" {
		t.Errorf("--quiet prints %q", quiet.stderr)
	}
	items = runRecord("COMPLETED", `{"n":1e400}`, "null")
	run(t, s.environ(), "", "runs", "list").check(t, 0, "Pause  COMPLETED  2026-11-21 10:16:00  1.25s  4.5      API      "+runID+"\n", "")
	if wide := run(t, append(s.environ(), "COLUMNS=60"), "", "runs", "list"); wide.stdout != run(t, s.environ(), "", "runs", "list").stdout {
		t.Errorf("COLUMNS changes a table in a pipe: %s", wide.stdout)
	}
	run(t, s.environ(), "", "runs", "list", "--jq", ".[] | has(\"workflow\")").check(t, 0, "false\n", "")
	if got := formats("--jq", ".[0].output, .[0].status"); got != "{\"n\":1e400}\nCOMPLETED\n|{\n  \"n\": 1e400\n}\n\"COMPLETED\"\n|{\"n\":1e400}\n\"COMPLETED\"\n|n: 1e400\nCOMPLETED\n|" {
		t.Errorf("the selected values are %q", got)
	}
}
