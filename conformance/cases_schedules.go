package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var scheduleCases = []Case{
	{Part: "D8.15.schedules, D1.1.strict, D1.3", Name: "schedules/200 made, read, listed, replaced, deleted", Run: scheduleLife},
	{Part: "D8.15.input, D8.15.previous", Name: "schedules/200, 400, 422 inputs and previous results", Run: scheduleInputs},
	{Part: "D8.15.schedules", Name: "schedules/200 the times of the workflow's ON_SCHEDULE", Run: scheduleOfWorkflow},
	{Part: "D8.15.schedules", Name: "schedules/200 clock changes that skip or repeat times", Run: scheduleClockChanges},
	{Part: "D1.7.operations, D1.7.replay, D1.7.mismatch, D1.7.refused", Name: "EX15 schedules/200 a repeat creates nothing", Run: scheduleRepeat},
	{Part: "D8.15.schedules, D3.table", Name: "schedules/400, 404, 409 invalid schedules", Run: scheduleFaults},
	{Part: "D8.15.runs, D8.15.input, D8.15.previous, D8.7.run, C.ON_SCHEDULE", Name: "schedules/200 runs begin when it is time", Run: scheduleRuns},
	{Part: "D2.8.workflows", Name: "AU12 schedules/403 a key that is restricted to other workflows", Run: scheduleRestricted, Needs: owner},
	{Part: "D1.2.404", Name: "MT01 schedules/404 those of another workspace", Run: scheduleForeign, Needs: []probe.Need{probe.NeedForeign}},
}

const schedules = "/v1/sdk/schedules"

func schedulePath(id string) string { return schedules + "/" + id }

// strictly sends a request with handling=strict.
func strictly(t *probe.Trial, method, path string, body object) probe.Answer {
	answer := t.Do(probe.Request{Method: method, Path: path, Body: t.JSON(body), Header: http.Header{"Prefer": {"handling=strict"}}})
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	return answer
}

func getSchedule(t *probe.Trial, id string) api.Schedule {
	return probe.Decode[api.Schedule](t, t.Get(schedulePath(id)))
}

func deleted(path string) probe.Request { return probe.Request{Method: http.MethodDelete, Path: path} }

func scheduleLife(t *probe.Trial) {
	workflow := create(t, having(drawn("scheduled"), "inputSchema", object{
		"type": "object", "required": []string{"customer"}, "properties": object{"customer": object{"type": "string"}, "token": object{"type": "string", "x-secret": true}},
	})).ID
	answer := strictly(t, http.MethodPost, schedules, object{
		"workflowId": workflow, "cron": "30 2 * * SUN", "timeZone": "Europe/Berlin", "overlap": "queue", "name": "Work", "input": object{"customer": "acme", "token": "canary"},
	})
	made := probe.Decode[api.Schedule](t, answer)
	id := made.ID.String()
	t.Check(uuid7.MatchString(id) && made.WorkflowID.String() == workflow, "%s", answer.Body)
	t.Equal("schedule", []string{made.Name, made.Cron, made.TimeZone, string(made.Overlap), string(made.Status)}, []string{"Work", "30 2 * * SUN", "Europe/Berlin", "queue", "ACTIVE"})
	t.Check(made.LastAt == nil && made.LastRunID == nil && made.LastSkippedAt == nil && made.LastSkipReason == nil && made.Waiting != nil && len(made.Waiting) == 0, "%s", answer.Body)
	t.Check(made.NextAt != nil, "there is no next time: %s", answer.Body)
	alike(t, "input", made.Input, object{"customer": "acme", "token": "[redacted]"})
	alike(t, "previous", made.Previous, nil)
	berlin, err := time.LoadLocation("Europe/Berlin")
	t.NoError("time zone", err)
	next := made.NextAt.Std().In(berlin)
	t.Check(next.Hour() == 2 && next.Minute() == 30 && next.Second() == 0 && next.Weekday() == time.Sunday, "the next time is %s", next)
	t.Check(next.After(time.Now()) && time.Until(next) < 15*24*time.Hour, "the next time is %s", next) // a clock change skips one time
	t.Check(made.NextClockChange != nil && made.NextClockChange.Count == 1, "the next clock change is %s", t.JSON(made.NextClockChange))
	same(t, "the schedule", getSchedule(t, id), made)
	for _, query := range []string{"?limit=100&workflowId=" + workflow, "?limit=100"} {
		page := probe.Decode[api.SchedulePage](t, t.Get(schedules+query))
		t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
		at := slices.IndexFunc(page.Data, func(s api.Schedule) bool { return s.ID == made.ID })
		t.Check(at >= 0 && (query == "?limit=100" || len(page.Data) == 1), "it is not listed: %s", t.JSON(page))
		same(t, "the schedule in a list", page.Data[at], inList(made))
	}
	paused := probe.Decode[api.Schedule](t, strictly(t, http.MethodPut, schedulePath(id), object{"cron": "@daily", "status": "PAUSED"}))
	t.Equal("replaced", []string{paused.Name, paused.Cron, paused.TimeZone, string(paused.Overlap), string(paused.Status)}, []string{"", "@daily", "UTC", "skip", "PAUSED"})
	t.Check(paused.NextAt == nil && paused.ID == made.ID && paused.CreatedAt == made.CreatedAt && paused.WorkflowID == made.WorkflowID, "%s", t.JSON(paused))
	again := probe.Decode[api.Schedule](t, strictly(t, http.MethodPut, schedulePath(id), object{"cron": "@hourly"}))
	t.Check(again.Status == "PAUSED" && again.NextAt == nil, "%s", t.JSON(again)) // the request had no status, so the status is unchanged
	again = probe.Decode[api.Schedule](t, strictly(t, http.MethodPut, schedulePath(id), object{
		"cron": "@hourly", "timeZone": "Europe/Berlin", "status": "ACTIVE", "previous": object{"scheduledAt": "2026-11-20T09:00:00+01:00", "output": object{"cursor": "4711"}},
	}))
	t.Check(again.NextAt != nil && again.NextAt.Std().Minute() == 0 && time.Until(again.NextAt.Std()) <= time.Hour, "%s", t.JSON(again))
	alike(t, "the input, which no request changed", again.Input, object{"customer": "acme", "token": "[redacted]"})
	alike(t, "previous", again.Previous, object{"scheduledAt": "2026-11-20T08:00:00.000Z", "output": object{"cursor": "4711"}})
	same(t, "the schedule", getSchedule(t, id), again)
	same(t, "the deleted", probe.Decode[api.Schedule](t, t.Do(deleted(schedulePath(id)))), again)
	t.Problem(t.Do(deleted(schedulePath(id))), http.StatusNotFound, "NOT_FOUND")
	t.Problem(t.Get(schedulePath(id)), http.StatusNotFound, "NOT_FOUND")
	t.Equal("left", len(probe.Decode[api.SchedulePage](t, t.Get(schedules+"?workflowId="+workflow)).Data), 0)
}

// inList returns a schedule as lists show it: without its input and the previous result.
func inList(one api.Schedule) api.Schedule {
	one.Input, one.Previous = nil, nil
	return one
}

// scheduleInputs saves schedules with valid and invalid inputs and previous results.
func scheduleInputs(t *probe.Trial) {
	body := having(drawn("inputs"), "inputSchema", object{"type": "object", "required": []string{"customer"}, "properties": object{"customer": object{"type": "string"}}})
	workflow := create(t, body).ID
	refused := func(answer probe.Answer, status int, pointer string) {
		t.Equal("pointers", probe.Pointers(t.Problem(answer, status, "INVALID_INPUT")), []string{pointer})
	}
	save := func(method, path string, fields object) probe.Answer {
		fields["cron"] = "@daily"
		if method == http.MethodPost {
			fields["workflowId"] = workflow
		}
		return t.Do(probe.Request{Method: method, Path: path, Body: t.JSON(fields)})
	}
	made := probe.Decode[api.Schedule](t, save(http.MethodPost, schedules, object{"input": object{"customer": "acme"}}))
	for method, path := range map[string]string{http.MethodPost: schedules, http.MethodPut: schedulePath(made.ID.String())} {
		refused(save(method, path, object{"input": "acme"}), http.StatusBadRequest, "/input")
		refused(save(method, path, object{"input": object{"customer": "[redacted]"}}), http.StatusBadRequest, "/input/customer")
		refused(save(method, path, object{"input": object{"customer": 7}}), http.StatusUnprocessableEntity, "/input/customer")
		refused(save(method, path, object{"input": object{}}), http.StatusUnprocessableEntity, "/input/customer")
		refused(save(method, path, object{"input": nil}), http.StatusUnprocessableEntity, "/input/customer")
	}
	refused(save(http.MethodPost, schedules, object{}), http.StatusUnprocessableEntity, "/input/customer")
	path := schedulePath(made.ID.String())
	refused(save(http.MethodPut, path, object{"previous": "4711"}), http.StatusBadRequest, "/previous")
	refused(save(http.MethodPut, path, object{"previous": object{"scheduledAt": "2026-11-20T08:00:00Z"}}), http.StatusBadRequest, "/previous/output")
	refused(save(http.MethodPut, path, object{"previous": object{"scheduledAt": "noon", "output": 1}}), http.StatusBadRequest, "/previous/scheduledAt")
	same(t, "the schedule", getSchedule(t, made.ID.String()), made)
	set := probe.Decode[api.Schedule](t, save(http.MethodPut, path, object{"previous": object{"scheduledAt": "2026-11-20T08:00:00Z", "output": nil}}))
	alike(t, "previous", set.Previous, object{"scheduledAt": "2026-11-20T08:00:00.000Z", "output": nil})
	alike(t, "previous, removed", probe.Decode[api.Schedule](t, save(http.MethodPut, path, object{"previous": nil})).Previous, nil)
	decodeWorkflow(t, put(t, workflow, drawn("inputs"), ""))
	alike(t, "input, removed", probe.Decode[api.Schedule](t, save(http.MethodPut, path, object{"input": nil})).Input, nil)
}

// scheduleOfWorkflow creates schedules with the times of the workflow, and pages through the list.
func scheduleOfWorkflow(t *probe.Trial) {
	workflow := create(t, sketch([]object{set("start", "ON_SCHEDULE", object{"cron": "30 4 * * *", "timeZone": "Asia/Tokyo"}), use("id", "RANDOM_UUID")}, []string{"start next id"})).ID
	var made []api.Schedule
	for range 3 {
		one := probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": workflow}))
		t.Equal("times", one.Cron+" "+one.TimeZone+" "+one.NextAt.Std().UTC().Format("15:04"), "30 4 * * * Asia/Tokyo 19:30")
		made = append([]api.Schedule{inList(one)}, made...)
	}
	var seen []api.Schedule
	for query := "?limit=2&workflowId=" + workflow; query != ""; {
		page := probe.Decode[api.SchedulePage](t, t.Get(schedules+query))
		seen, query = append(seen, page.Data...), ""
		if page.NextCursor != nil {
			query = "?limit=2&workflowId=" + workflow + "&cursor=" + *page.NextCursor
		}
	}
	same(t, "the pages", seen, made)
	elsewhere := create(t, sketch([]object{set("start", "ON_SCHEDULE", object{"cron": "{{env.CRON}}"}), use("id", "RANDOM_UUID")}, []string{"start next id"})).ID
	for _, id := range []string{create(t, drawn("without")).ID, elsewhere} {
		p := t.Problem(t.Post(schedules, object{"workflowId": id}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{"/cron"})
	}
}

// scheduleClockChanges reads the next clock change of two schedules in Lord Howe, where clocks
// change by 30 minutes. The first schedule has times that a clock change skips or repeats, the
// second has none.
func scheduleClockChanges(t *probe.Trial) {
	workflow := create(t, drawn("clock changes")).ID
	const zone = "Australia/Lord_Howe"
	made := probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": workflow, "cron": "*/10 1-2 * * *", "timeZone": zone}))
	t.Check(made.LastClockChange == nil, "a new schedule: %s", t.JSON(made))
	change := made.NextClockChange
	t.Check(change != nil, "no clock change: %s", t.JSON(made))
	at := change.At.Std().UTC()
	want := api.ScheduleClockChange{At: change.At, Kind: "skipped", Count: 3, LocalTime: at.AddDate(0, 0, 1).Format("2006-01-02") + "T02:00"}
	if at.Month() == time.April {
		want.Kind, want.LocalTime = "repeated", at.AddDate(0, 0, 1).Format("2006-01-02")+"T01:30"
	}
	t.Equal("clock change", *change, want)
	t.Check(at.After(time.Now()) && time.Until(at) < 220*24*time.Hour, "the next clock change is at %s", at)
	sundays := probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": workflow, "cron": "0 12 * * 7", "timeZone": zone}))
	t.Check(sundays.NextClockChange == nil && sundays.LastClockChange == nil, "noon: %s", t.JSON(sundays))
	local, err := time.LoadLocation(zone)
	t.NoError("time zone", err)
	t.Equal("day 7", sundays.NextAt.Std().In(local).Format("Mon 15:04"), "Sun 12:00")
}

func scheduleRepeat(t *probe.Trial) {
	workflow := create(t, drawn("repeated")).ID
	body := object{"workflowId": workflow, "cron": "@weekly"}
	request := probe.Request{Method: http.MethodPost, Path: schedules, Body: t.JSON(body), Header: http.Header{"Idempotency-Key": {unique()}}}
	other := request
	other.Body = t.JSON(object{"workflowId": workflow, "cron": "@never"})
	t.Problem(t.Do(other), http.StatusBadRequest, "INVALID_INPUT") // leaves no trace
	answer := t.Do(request)
	t.Equal("Idempotent-Replayed of the first", answer.Header.Get("Idempotent-Replayed"), "")
	made := probe.Decode[api.Schedule](t, answer)
	replaced := probe.Decode[api.Schedule](t, strictly(t, http.MethodPut, schedulePath(made.ID.String()), object{"cron": "@weekly", "name": "since"}))
	answer = t.Do(request)
	t.Equal("Idempotent-Replayed of a repeat", answer.Header.Get("Idempotent-Replayed"), "true")
	same(t, "the repeat", probe.Decode[api.Schedule](t, answer), replaced)
	t.Problem(t.Do(other), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
	t.Equal("schedules", len(probe.Decode[api.SchedulePage](t, t.Get(schedules+"?workflowId="+workflow)).Data), 1)
}

func scheduleFaults(t *probe.Trial) {
	workflow := create(t, drawn("faults")).ID
	for pointer, body := range map[string]object{
		"/cron": {"cron": "60 * * * *"}, "/timeZone": {"cron": "@daily", "timeZone": "Mars/Olympus"}, "/overlap": {"cron": "@daily", "overlap": "perhaps"},
		"/status": {"cron": "@daily", "status": "ARCHIVED"}, "/name": {"cron": "@daily", "name": strings.Repeat("x", 201)},
	} {
		body["workflowId"] = workflow
		p := t.Problem(t.Post(schedules, body), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p), []string{pointer})
	}
	for _, cron := range []string{"* * * * * *", "@every 1s", "0 0 30 2 *", "TZ=UTC 0 9 * * *", "{{env.CRON}}", "x"} {
		p := t.Problem(t.Post(schedules, object{"workflowId": workflow, "cron": cron}), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers of "+cron, probe.Pointers(p), []string{"/cron"})
	}
	id := probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": workflow, "cron": "@daily"})).ID.String()
	p := t.Problem(t.Do(probe.Request{Method: http.MethodPut, Path: schedulePath(id), Body: []byte(`{"cron":"61 * * * *"}`)}), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/cron"})
	t.Problem(t.Post(schedules, object{"workflowId": "0193f1c0-0000-7000-8000-000000000005", "cron": "@daily"}), http.StatusNotFound, "NOT_FOUND")
	const nobodys = "0193f1c0-0000-7000-8000-000000000008"
	for _, none := range []string{nobodys, "x", upper(nobodys)} {
		for _, request := range []probe.Request{{Path: schedulePath(none)}, {Method: http.MethodPut, Path: schedulePath(none), Body: []byte(`{"cron":"@daily"}`)}, deleted(schedulePath(none))} {
			t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND")
		}
	}
	begins := create(t, sketch([]object{use("start", "ON_API_CALLED"), use("id", "RANDOM_UUID")}, []string{"start next id"})).ID
	p = t.Problem(t.Post(schedules, object{"workflowId": begins, "cron": "@daily"}), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "no_trigger")
	t.Do(deleted(workflowPath(workflow)))
	p = t.Problem(t.Post(schedules, object{"workflowId": workflow, "cron": "@daily"}), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "workflow_archived")
}

// scheduleRuns waits for the next minute.
func scheduleRuns(t *probe.Trial) {
	body := sketch([]object{set("start", "ON_SCHEDULE", object{"cron": "* * * * *"}), use("answer", "RESPOND")}, []string{"start next answer"}, "start.scheduledAt answer.at", "start.input answer.input", "start.previous answer.previous")
	runs, paused := create(t, body).ID, create(t, body).ID
	decodeWorkflow(t, put(t, paused, having(body, "status", "PAUSED"), ""))
	active := probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": runs, "input": object{"customer": "acme"}})).ID.String()
	skipped := probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": paused})).ID.String()
	defer t.Do(deleted(schedulePath(active)))
	defer t.Do(deleted(schedulePath(skipped)))
	earlier := object{"scheduledAt": "2026-11-20T08:00:00.000Z", "output": object{"cursor": "4711"}}
	t.Do(probe.Request{Method: http.MethodPut, Path: schedulePath(active), Body: t.JSON(object{"cron": "* * * * *", "previous": earlier})})
	due := getSchedule(t, active).NextAt
	t.Until("a run begins", 90*time.Second, func() bool { return getSchedule(t, active).LastRunID != nil })
	begun := getSchedule(t, active)
	t.Check(begun.LastAt != nil && !begun.LastAt.Std().Before(due.Std()) && begun.NextAt.Std().Sub(begun.LastAt.Std()) >= time.Minute, "due %v: %s", due, t.JSON(begun))
	run := finished(t, begun.LastRunID.String(), "COMPLETED")
	t.Check(run.Trigger == "SCHEDULE" && run.TriggerID != nil && run.TriggerID.String() == active && run.WorkflowID.String() == runs, "%s", t.JSON(run))
	alike(t, "input", run.Input, object{"input": object{"customer": "acme"}, "scheduledAt": begun.LastAt, "previous": earlier})
	alike(t, "output", run.Output, object{"at": begun.LastAt, "input": object{"customer": "acme"}, "previous": earlier})
	alike(t, "previous", begun.Previous, object{"scheduledAt": begun.LastAt, "output": object{"at": begun.LastAt, "input": object{"customer": "acme"}, "previous": earlier}})
	// A minute may have ended between the creation of the two.
	t.Until("a time is passed over", 90*time.Second, func() bool { return getSchedule(t, skipped).LastSkipReason != nil })
	passed := getSchedule(t, skipped)
	t.Check(*passed.LastSkipReason == "workflow_paused" && passed.LastSkippedAt != nil && !passed.LastSkippedAt.Std().Before(due.Std()) && passed.LastRunID == nil, "%s", t.JSON(passed))
	// For a run that a request starts, the time is the current time.
	run = ran(t, runs, "COMPLETED", nil)
	t.Check(run.Trigger == "API" && run.TriggerID == nil && strings.Contains(string(run.Output), `"at":"20`), "%s", t.JSON(run))
}

func scheduleRestricted(t *probe.Trial) {
	listed, other := create(t, drawn("listed")).ID, create(t, drawn("other")).ID
	var ids []string
	for _, workflow := range []string{listed, other} {
		ids = append(ids, probe.Decode[api.Schedule](t, t.Post(schedules, object{"workflowId": workflow, "cron": "@daily"})).ID.String())
	}
	boss := t.SignIn()
	made, credentials := newKeyOf(t, boss, "restricted", listed)
	defer within(t, boss, http.MethodDelete, "/api-keys/"+made.ID.String(), nil)
	restricted(t, credentials, schedules, listed, other, ids, object{"workflowId": listed, "cron": "@daily"})
}

// restricted accesses the resources of two workflows with a key that is restricted to one.
func restricted(t *probe.Trial, credentials probe.Credentials, path, listed, other string, ids []string, body object) {
	as := probe.Signing{As: &credentials}
	for _, request := range []probe.Request{
		{Method: http.MethodPost, Path: path, Body: t.JSON(body)}, {Method: http.MethodPut, Path: path + "/" + ids[0], Body: t.JSON(body)}, deleted(path + "/" + ids[0]),
	} {
		request.Sign = as
		t.Equal("reason", probe.Reason(t.Problem(t.Do(request), http.StatusForbidden, "FORBIDDEN")), "key_restricted")
	}
	t.Equal("what is listed", t.Do(probe.Request{Path: path + "/" + ids[0], Sign: as}).Status, http.StatusOK)
	for _, hidden := range []string{path + "/" + ids[1], path + "?workflowId=" + other} {
		t.Equal("reason", probe.Reason(t.Problem(t.Do(probe.Request{Path: hidden, Sign: as}), http.StatusForbidden, "FORBIDDEN")), "workflow_not_allowed")
	}
	t.Problem(t.Do(probe.Request{Path: path + "/0193f1c0-0000-7000-8000-000000000008", Sign: as}), http.StatusNotFound, "NOT_FOUND")
	for _, query := range []string{"", "?workflowId=" + listed} {
		page := probe.Decode[struct{ Data []struct{ ID string } }](t, t.Do(probe.Request{Path: path + query, Sign: as}))
		t.Check(len(page.Data) == 1 && page.Data[0].ID == ids[0], "%s%s: %s", path, query, t.JSON(page))
	}
}

func scheduleForeign(t *probe.Trial) {
	foreign(t, schedules, object{"cron": "@daily"})
}

// foreign accesses the resources of a workflow in another workspace.
func foreign(t *probe.Trial, path string, body object) {
	as := probe.Signing{As: t.Target().Foreign}
	theirs := decodeWorkflow(t, t.Do(probe.Request{Method: http.MethodPost, Path: workflows, Body: t.JSON(drawn("foreign")), Sign: as})).ID
	body["workflowId"] = theirs
	t.Problem(t.Post(path, body), http.StatusNotFound, "NOT_FOUND")
	made := probe.Decode[struct{ ID string }](t, t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: t.JSON(body), Sign: as})).ID
	for _, request := range []probe.Request{{Path: path + "/" + made}, {Method: http.MethodPut, Path: path + "/" + made, Body: t.JSON(body)}, deleted(path + "/" + made)} {
		nobodys := request
		nobodys.Path = path + "/0193f1c0-0000-7000-8000-000000000008"
		t.Equal(request.Method, t.Problem(t.Do(request), http.StatusNotFound, "NOT_FOUND").Detail, t.Problem(t.Do(nobodys), http.StatusNotFound, "NOT_FOUND").Detail)
	}
	t.Equal("listed", len(probe.Decode[struct{ Data []any }](t, t.Get(path+"?workflowId="+theirs)).Data), 0)
	t.Equal("theirs", t.Do(probe.Request{Method: http.MethodDelete, Path: path + "/" + made, Sign: as}).Status, http.StatusOK)
}
