package conformance

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var filterCases = []Case{
	{Part: "D1.5.filter", Name: "list/200 executions by module, status and time", Run: filterExecutions, Needs: near},
	{Part: "D1.5.filter", Name: "list/200 runs by trigger, status and time", Run: filterRuns},
	{Part: "D1.5.filter", Name: "list/400 filters", Run: filtersRefused},
	{Part: "D1.5.filter, D1.5.cursor", Name: "list/400 a cursor with other filters", Run: filtersOfCursors},
}

// item is what the lists of executions and of runs have in common.
type item struct {
	ID, Module, Status, Trigger, CreatedAt string
}

// filtered returns all items of a list with the filters, by pages of three.
func filtered(t *probe.Trial, path string, filters url.Values) (all []item) {
	query := "?limit=3"
	if len(filters) > 0 {
		query += "&" + filters.Encode()
	}
	for next := ""; ; {
		page := probe.Decode[struct {
			Data       []item
			NextCursor *string
		}](t, t.Get(path+query+next))
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			return all
		}
		next = "&cursor=" + *page.NextCursor
	}
}

// selects checks that a list with the filters has the wanted items, newest first, and no others of
// own. Both are in the order of their creation.
func selects(t *probe.Trial, path string, filters url.Values, own, want []item) {
	var got []string
	for _, one := range filtered(t, path, filters) {
		for name, value := range map[string]string{"module": one.Module, "status": one.Status, "trigger": one.Trigger} {
			t.Check(!filters.Has(name) || filters.Get(name) == value, "%s: %s has the %s %s", filters.Encode(), one.ID, name, value)
		}
		if slices.ContainsFunc(own, func(i item) bool { return i.ID == one.ID }) {
			got = append(got, one.ID)
		}
	}
	var wanted []string
	for _, one := range slices.Backward(want) {
		wanted = append(wanted, one.ID)
	}
	t.Equal("items with "+filters.Encode(), got, wanted)
}

// since returns the items that were created at the time of the first or later.
func since(own []item, first item) []item {
	return slices.DeleteFunc(slices.Clone(own), func(i item) bool { return i.CreatedAt < first.CreatedAt })
}

// until returns the items that were created before the time of the last.
func until(own []item, last item) []item {
	return slices.DeleteFunc(slices.Clone(own), func(i item) bool { return i.CreatedAt >= last.CreatedAt })
}

// during checks the period of a list. The filters select the items of own.
func during(t *probe.Trial, path string, own []item, filters url.Values) {
	with := func(after, before string) url.Values {
		all := url.Values{}
		for name, values := range filters {
			all[name] = values
		}
		if after != "" {
			all.Set("createdAfter", after)
		}
		if before != "" {
			all.Set("createdBefore", before)
		}
		return all
	}
	first, last := own[1], own[len(own)-1]
	selects(t, path, with(first.CreatedAt, ""), own, since(own, first))
	selects(t, path, with(own[0].CreatedAt, last.CreatedAt), own, until(own, last))
	selects(t, path, with(own[0].CreatedAt, "9999-12-31T23:59:59Z"), own, own)
	t.Equal("items of 1970", len(filtered(t, path, with("0001-01-01T00:00:00Z", "1971-01-01T00:00:00Z"))), 0)
	t.Equal("items of another century", len(filtered(t, path, with("2999-01-01t00:00:00.5+01:00", ""))), 0)
}

func filterExecutions(t *probe.Trial) {
	failing := probe.Fetch(t.Upstream(answering(503)))
	var own []item
	for _, call := range []probe.Call{probe.RandomUUID(), failing, probe.RandomUUID(), failing, probe.RandomUUID()} {
		e := t.Final(t.Execute(call).ID.String())
		own = append(own, item{ID: e.ID.String(), Module: e.Module, Status: string(e.Status), CreatedAt: e.CreatedAt.String()})
	}
	from := own[0].CreatedAt // other cases create executions as well
	selects(t, probe.Executions, url.Values{"module": {"API_CALL"}, "createdAfter": {from}}, own, []item{own[1], own[3]})
	selects(t, probe.Executions, url.Values{"status": {"FAILED"}, "createdAfter": {from}}, own, []item{own[1], own[3]})
	selects(t, probe.Executions, url.Values{"status": {"COMPLETED"}, "createdAfter": {from}}, own, []item{own[0], own[2], own[4]})
	selects(t, probe.Executions, url.Values{"status": {"FAILED"}, "module": {"RANDOM_UUID"}, "createdAfter": {from}}, own, nil)
	for _, status := range []string{"CREATED", "EXECUTING"} {
		selects(t, probe.Executions, url.Values{"status": {status}}, own, nil)
	}
	during(t, probe.Executions, own, nil)

	upstream, letGo, asked := held(t)
	id := t.Execute(probe.Fetch(upstream)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	live := []item{{ID: id}}
	selects(t, probe.Executions, url.Values{"status": {"EXECUTING"}}, live, live)
	selects(t, probe.Executions, url.Values{"status": {"CREATED"}}, live, nil)
	letGo()
	t.Final(id)
	selects(t, probe.Executions, url.Values{"status": {"EXECUTING"}}, live, nil)
}

func filterRuns(t *probe.Trial) {
	ok, bad := draw(t, nil, nil), draw(t, []object{use("end", "FAIL")}, []string{"start next end"})
	parent := draw(t, []object{set("below", "RUN_WORKFLOW", object{"workflowId": ok})}, []string{"start next below"})
	own := func(workflow string) (all []item) {
		all = filtered(t, runs, url.Values{"workflowId": {workflow}})
		slices.Reverse(all)
		return all
	}
	var from string // other cases start runs as well
	for range 2 {
		from = cmp.Or(from, ran(t, ok, "COMPLETED", nil).CreatedAt.String())
		ran(t, bad, "FAILED", nil)
		ran(t, parent, "COMPLETED", nil)
	}
	waiting := begin(t, draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"}), nil)
	eventually(t, waiting, "executing", func(run api.WorkflowRun) bool { return run.Status == "EXECUTING" })
	live := []item{{ID: waiting}}
	selects(t, runs, url.Values{"status": {"EXECUTING"}}, live, live)
	selects(t, runs, url.Values{"status": {"CANCELED"}, "createdAfter": {from}}, live, nil)
	cancel(t, waiting, object{})
	finished(t, waiting, "CANCELED")
	selects(t, runs, url.Values{"status": {"EXECUTING"}}, live, nil)
	selects(t, runs, url.Values{"status": {"CANCELED"}, "createdAfter": {from}}, live, live)
	selects(t, runs, url.Values{"status": {"CANCELED"}, "trigger": {"SCHEDULE"}}, live, nil)

	all := own(ok)
	t.Equal("runs of the workflow", len(all), 4)
	triggered, below := []item{all[0], all[2]}, []item{all[1], all[3]}
	selects(t, runs, url.Values{"trigger": {"API"}, "workflowId": {ok}}, all, triggered)
	selects(t, runs, url.Values{"trigger": {"RUN"}, "workflowId": {upper(ok)}}, all, below)
	selects(t, runs, url.Values{"trigger": {"RUN"}, "createdAfter": {from}}, all, below)
	selects(t, runs, url.Values{"trigger": {"RUN"}, "status": {"COMPLETED"}, "createdAfter": {from}}, all, below)
	selects(t, runs, url.Values{"trigger": {"WEBHOOK"}, "workflowId": {ok}}, all, nil)
	selects(t, runs, url.Values{"trigger": {"SCHEDULE"}, "workflowId": {ok}}, all, nil)
	during(t, runs, all, url.Values{"workflowId": {ok}})
	failed := own(bad)
	during(t, runs, failed, url.Values{"workflowId": {bad}, "status": {"FAILED"}})
	selects(t, runs, url.Values{"status": {"FAILED"}, "createdAfter": {from}}, failed, failed)
}

func filtersRefused(t *probe.Trial) {
	const period = "createdAfter=2026-01-02T00:00:00Z&createdBefore="
	both := map[string]string{
		"status=DONE": "status", "status=": "status", "status=FAILED&status=FAILED": "status",
		"createdAfter=yesterday": "createdAfter", "createdAfter=2026-01-01": "createdAfter", "createdAfter=": "createdAfter",
		"createdBefore=2026-13-01T00:00:00Z": "createdBefore", "createdBefore=2026-01-01T00:00:00": "createdBefore",
		period + "2026-01-02T00:00:00Z": "createdAfter", period + "2026-01-01T23:59:59Z": "createdAfter", period + "2026-01-02T00:00:00%2B01:00": "createdAfter",
		period + "x": "createdBefore",
	}
	for path, wrong := range map[string]map[string]string{
		probe.Executions: {"module=API_CAL": "module", "module=": "module", "status=CANCELED": "status"},
		runs:             {"trigger=CRON": "trigger", "trigger=api": "trigger", "workflowId=X": "workflowId"},
	} {
		for _, queries := range []map[string]string{both, wrong} {
			for query, name := range queries {
				p := t.Problem(t.Get(path+"?"+query), http.StatusBadRequest, "INVALID_INPUT")
				t.Equal(query, slices.Compact(probe.Pointers(p)), []string{"/query/" + name})
			}
		}
	}
	p := t.Problem(t.Get(probe.Executions+"?module=API_CAL"), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("message", p.Errors[0].Message, `unknown module "API_CAL"; did you mean API_CALL?`)
}

func filtersOfCursors(t *probe.Trial) {
	for range 2 {
		t.Execute(probe.RandomUUID())
	}
	workflow := draw(t, nil, nil)
	for range 2 {
		ran(t, workflow, "COMPLETED", nil)
	}
	for path, queries := range map[string][]string{
		probe.Executions: {"", "&module=RANDOM_UUID", "&createdAfter=2020-01-01T00:00:00Z", "&createdAfter=2020-01-01T00:00:00Z&module=RANDOM_UUID"},
		runs:             {"", "&trigger=API", "&createdBefore=2999-01-01T00:00:00Z", "&createdBefore=2999-01-01T00:00:00Z&workflowId=" + workflow},
	} {
		for _, query := range queries {
			next := probe.Decode[struct{ NextCursor string }](t, t.Get(path+"?limit=1"+query)).NextCursor
			for _, other := range queries {
				answer := t.Get(path + "?limit=1" + other + "&cursor=" + next)
				if other == query {
					t.Equal("status of the next page", answer.Status, http.StatusOK)
					continue
				}
				p := t.Problem(answer, http.StatusBadRequest, "INVALID_INPUT")
				t.Equal("pointers", probe.Pointers(p), []string{"/query/cursor"})
			}
		}
		same := "&createdAfter=2020-01-01T00:00:00Z"
		next := probe.Decode[struct{ NextCursor string }](t, t.Get(path+"?limit=1"+same)).NextCursor
		t.Equal("the same time in another form", t.Get(path+"?limit=1&createdAfter=2020-01-01T01:00:00%2B01:00&cursor="+next).Status, http.StatusOK)
	}
}
