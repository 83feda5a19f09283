package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var workflowCases = []Case{
	{Part: "D8.1, D8.1.versions, D1.1.strict, D1.3", Name: "workflows/200 what is stored, read and listed", Run: workflowStored},
	{Part: "D8.1.versions, D3.412, D8.7.paused", Name: "workflows/200 every save makes a version that stays", Run: workflowVersions},
	{Part: "D8.1.file", Name: "workflows/200 out as a file and in again", Run: workflowFile},
	{Part: "D8.7.archive, D3.412", Name: "workflows/200 archived and brought back", Run: workflowArchived},
	{Part: "D1.5.order, D1.5.stable, D1.5.cursor", Name: "workflows/200 pages are stable under inserts", Run: workflowPages},
	{Part: "D1.7.operations, D1.7.replay, D1.7.mismatch, D1.7.refused", Name: "EX15 workflows/200 a repeat creates nothing", Run: workflowRepeat},
	{Part: "D3.422, D8.1.checked, D8.2.checked, D8.4.checked", Name: "workflows/422 all that is wrong at once, each with its place", Run: workflowFaults},
	{Part: "D8.20.validate", Name: "workflows/200 validated without being saved", Run: workflowValidated},
	{Part: "D8.1.reviewed, D8.1.late", Name: "workflows/200, 422 what can never work, and what is suspicious", Run: workflowReviewed},
	{Part: "D8.2.checked, D8.5.checked, D8.16.checked", Name: "workflows/200, 422 ports, loops and expressions", Run: workflowControl},
	{Part: "D8.5.checked", Name: "workflows/400, 422 the bounds of a workflow", Run: workflowBounds},
	{Part: "D1.1.unknown, D1.1.strict", Name: "workflows/400 unknown fields at every depth under handling=strict", Run: workflowStrict},
	{Part: "D8.14.shown", Name: "MT05 workflows/200 secret literals are not shown, and stay", Run: workflowSecrets},
	{Part: "D1.2.404", Name: "workflows/404 malformed and unknown ids are the same", Run: workflowUnknown},
	{
		Part: "5.1.3, 7.403, D2.8.workflows, D1.8.order", Name: "AU12 workflows/403 a key that is restricted to other workflows", Run: workflowRestricted,
		Needs: []probe.Need{probe.NeedOwner},
	},
	{
		Part: "D1.2.404, D1.7.scope", Name: "MT01 workflows/404 those of another workspace", Run: workflowForeign,
		Needs: []probe.Need{probe.NeedForeign},
	},
}

const workflows = "/v1/sdk/workflows"

func workflowPath(id string) string { return workflows + "/" + id }

func exportPath(id string) string { return "/v1/sdk/workflow-exports/" + id }

// object is a JSON object.
type object = map[string]any

// workflowRecord is a workflow in a response.
type workflowRecord struct {
	ID, Key, Name, Description, Status, Format, CreatedAt, UpdatedAt string

	Version                                              int
	InputSchema                                          any
	Retry                                                object
	DeadlineMs                                           int64
	Components, SequenceEdges, DataConnections, Triggers []object
	Warnings                                             *[]api.WorkflowWarning
}

// decodeWorkflow decodes a response with a workflow, and checks its ETag.
func decodeWorkflow(t *probe.Trial, answer probe.Answer) workflowRecord {
	w := probe.Decode[workflowRecord](t, answer)
	if w.Format == "" {
		t.Equal("ETag", answer.Header.Get("ETag"), fmt.Sprintf(`"%d"`, w.Version))
		t.Check(uuid7.MatchString(w.ID) && w.CreatedAt <= w.UpdatedAt, "workflow %s, created %s, updated %s", w.ID, w.CreatedAt, w.UpdatedAt)
	}
	return w
}

// drawn returns the body of a workflow that uses every field of a definition.
func drawn(name string) object {
	return object{
		"name": name, "description": "Makes an id and its digest.", "inputSchema": object{"type": "object"}, "retry": persistent(), "deadlineMs": 3600000,
		"components": []any{
			object{
				"id": "id", "module": "RANDOM_UUID", "name": "An id", "input": object{}, "config": object{}, "position": []any{0, 0.5},
				"attempts": 2, "timeoutMs": 5000, "onFailure": "continue",
			},
			object{"id": "digest", "module": "HASH", "input": object{"algorithm": "sha512"}, "retry": persistent()},
		},
		"sequenceEdges":   []any{object{"id": "e1", "from": "id", "to": "digest"}},
		"dataConnections": []any{object{"id": "d1", "from": object{"componentId": "id", "output": "uuid"}, "to": object{"componentId": "digest", "input": "data"}}},
	}
}

// persistent returns a retry policy that uses every field.
func persistent() object {
	return object{
		"maxElapsedMs": 7200000, "initialDelayMs": 5000, "backoffFactor": 1.5, "maxDelayMs": 600000, "maxAttempts": 50, "on": []any{"UPSTREAM_ERROR", 404},
	}
}

// likeDrawn compares a workflow with drawn, including the defaults.
func likeDrawn(t *probe.Trial, w workflowRecord, name string) {
	want := drawn(name)
	components := want["components"].([]any)
	digest := components[1].(object)
	digest["name"], digest["config"], digest["position"] = "", object{}, nil
	want["sequenceEdges"].([]any)[0].(object)["port"] = "next"
	same(t, "components", w.Components, components)
	same(t, "sequenceEdges", w.SequenceEdges, want["sequenceEdges"])
	same(t, "dataConnections", w.DataConnections, want["dataConnections"])
	same(t, "inputSchema", w.InputSchema, want["inputSchema"])
	same(t, "retry", w.Retry, want["retry"])
	t.Equal("deadlineMs", w.DeadlineMs, int64(3600000))
	t.Equal("name", w.Name, name)
	t.Equal("description", w.Description, want["description"])
	t.Check(w.Triggers != nil && len(w.Triggers) == 0, "triggers %v", w.Triggers)
}

// same compares two values as JSON.
func same(t *probe.Trial, what string, got, want any) {
	t.Equal(what, string(t.JSON(got)), string(t.JSON(want)))
}

func create(t *probe.Trial, body object) workflowRecord {
	return decodeWorkflow(t, t.Post(workflows, body))
}

// put replaces a workflow, with If-Match unless ifMatch is "".
func put(t *probe.Trial, id string, body object, ifMatch string) probe.Answer {
	request := probe.Request{Method: http.MethodPut, Path: workflowPath(id), Body: t.JSON(body), Header: http.Header{}}
	if ifMatch != "" {
		request.Header.Set("If-Match", ifMatch)
	}
	return t.Do(request)
}

func workflowStored(t *probe.Trial) {
	answer := t.Do(probe.Request{Method: http.MethodPost, Path: workflows, Body: t.JSON(drawn("stored")), Header: http.Header{"Prefer": {"handling=strict"}}})
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	made := decodeWorkflow(t, answer)
	t.Check(made.Status == "ACTIVE" && made.Version == 1, "%s, version %d", made.Status, made.Version)
	likeDrawn(t, made, "stored")
	read := decodeWorkflow(t, t.Get(workflowPath(made.ID)))
	t.Check(made.Warnings != nil && len(*made.Warnings) == 0, "a save without warnings: %s", answer.Body)
	made.Warnings = nil // only in the response of a save
	same(t, "the workflow", read, made)
	bare := create(t, object{"name": "bare", "status": "PAUSED", "components": []any{object{"id": "a", "module": "RANDOM_UUID"}}})
	same(t, "components", bare.Components, []any{object{"id": "a", "module": "RANDOM_UUID", "name": "", "input": object{}, "config": object{}, "position": nil}})
	t.Check(bare.Status == "PAUSED" && bare.Description == "" && bare.InputSchema == nil && bare.SequenceEdges != nil && bare.DataConnections != nil, "%+v", bare)
	for id, want := range map[string]workflowRecord{made.ID: made, bare.ID: bare} {
		listed := listedWorkflow(t, id, "")
		t.Equal("listed", listed, workflowRecord{
			ID: id, Key: want.Key, Name: want.Name, Description: want.Description, Status: want.Status, Version: 1, CreatedAt: want.CreatedAt, UpdatedAt: want.UpdatedAt,
		})
	}
}

// workflowPage is a page of the list of workflows.
type workflowPage struct {
	Data       []workflowRecord
	NextCursor *string
	HasMore    bool
}

func pageOfWorkflows(t *probe.Trial, query string) workflowPage {
	page := probe.Decode[workflowPage](t, t.Get(workflows+query))
	t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
	t.Check(sort.SliceIsSorted(page.Data, func(i, j int) bool { return page.Data[i].ID > page.Data[j].ID }), "not newest first: %s", t.JSON(page))
	return page
}

// listedWorkflow returns a workflow from the list, or zero if no page contains it.
func listedWorkflow(t *probe.Trial, id, filter string) workflowRecord {
	for query := "?limit=100" + filter; ; {
		page := pageOfWorkflows(t, query)
		if at := slices.IndexFunc(page.Data, func(w workflowRecord) bool { return w.ID == id }); at >= 0 {
			return page.Data[at]
		}
		if page.NextCursor == nil {
			return workflowRecord{}
		}
		query = "?limit=100&cursor=" + *page.NextCursor + filter
	}
}

func workflowVersions(t *probe.Trial) {
	first := create(t, drawn("first"))
	body := drawn("second")
	body["status"], body["components"].([]any)[0].(object)["name"] = "PAUSED", "Another"
	answer := t.Do(probe.Request{
		Method: http.MethodPut, Path: workflowPath(first.ID), Body: t.JSON(body), Header: http.Header{"If-Match": {`"1"`}, "Prefer": {"handling=strict"}},
	})
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	second := decodeWorkflow(t, answer)
	t.Check(second.ID == first.ID && second.Version == 2 && second.Status == "PAUSED" && second.CreatedAt == first.CreatedAt && second.UpdatedAt >= first.UpdatedAt, "%+v", second)
	t.Equal("the name of a component", second.Components[0]["name"], "Another")
	for _, stale := range []string{`"1"`, `W/"1"`, `"3"`, `"9999999999"`, `2`, `"02"`, `"+2"`, `"2`, `"x"`, `"1", "3"`, `"2""2"`, `w/"2"`, `W/"2"`, `W/"2", "1"`, `"*"`} {
		p := t.Problem(put(t, first.ID, drawn("lost"), stale), http.StatusPreconditionFailed, "PRECONDITION_FAILED")
		t.Equal("retryable", p.Retryable, false)
	}
	third := decodeWorkflow(t, put(t, first.ID, drawn("third"), "*"))
	t.Check(third.Version == 3 && third.Status == "PAUSED", "without a status it became %s, version %d", third.Status, third.Version)
	fourth := decodeWorkflow(t, put(t, first.ID, drawn("fourth"), `"x", "3"`))
	likeDrawn(t, fourth, "fourth")
	old := decodeWorkflow(t, t.Get(workflowPath(first.ID)+"?version=1"))
	likeDrawn(t, old, "first")
	t.Check(old.Version == 1 && old.UpdatedAt == first.UpdatedAt && old.Status == "PAUSED", "version 1 is %+v", old)
	same(t, "version 2", decodeWorkflow(t, t.Get(workflowPath(first.ID)+"?version=2")).Components, second.Components)
	fourth.Warnings = nil // only in the response of a save
	same(t, "the present version", decodeWorkflow(t, t.Get(workflowPath(first.ID))), fourth)
	t.Problem(t.Get(workflowPath(first.ID)+"?version=5"), http.StatusNotFound, "NOT_FOUND")
}

func workflowFile(t *probe.Trial) {
	made := create(t, drawn("exported"))
	answer := t.Get(exportPath(made.ID))
	t.Equal("ETag", answer.Header.Get("ETag"), `"1"`)
	t.Check(!strings.Contains(string(answer.Body), made.ID), "the file names the workflow: %s", answer.Body)
	file := decodeWorkflow(t, answer)
	t.Equal("format", file.Format, "weft.workflow.v1")
	likeDrawn(t, file, "exported")
	t.Problem(t.Post(workflows, json.RawMessage(answer.Body)), http.StatusConflict, "CONFLICT") // its key is taken
	copied := strings.Replace(string(answer.Body), made.Key, made.Key+"-copy", 1)
	in := t.Do(probe.Request{Method: http.MethodPost, Path: workflows, Body: []byte(copied), Header: http.Header{"Prefer": {"handling=strict"}}})
	again := decodeWorkflow(t, in)
	t.Check(again.ID != made.ID && again.Status == "ACTIVE", "%s, %s", again.ID, again.Status)
	likeDrawn(t, again, "exported")
	out := t.Get(exportPath(again.ID) + "?version=1")
	t.Equal("the file of what came out of the file", string(out.Body), copied)
	over := t.Do(probe.Request{Method: http.MethodPut, Path: workflowPath(made.ID), Body: answer.Body, Header: http.Header{"Prefer": {"handling=strict"}}})
	likeDrawn(t, decodeWorkflow(t, over), "exported")
	var other object
	t.NoError("the file", json.Unmarshal(answer.Body, &other))
	other["format"] = "weft.workflow.v9"
	p := t.Problem(t.Post(workflows, other), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/format"})
}

func workflowArchived(t *probe.Trial) {
	made := create(t, drawn("archived"))
	archive := probe.Request{Method: http.MethodDelete, Path: workflowPath(made.ID), Header: http.Header{}}
	for _, stale := range []string{`"2"`, `W/"1"`, `1`} {
		archive.Header.Set("If-Match", stale)
		t.Problem(t.Do(archive), http.StatusPreconditionFailed, "PRECONDITION_FAILED")
	}
	archive.Header["If-Match"] = []string{`"2"`, `"3"`}
	t.Problem(t.Do(archive), http.StatusPreconditionFailed, "PRECONDITION_FAILED")
	t.Equal("after the refusals", decodeWorkflow(t, t.Get(workflowPath(made.ID))).Status, "ACTIVE")
	archive.Header["If-Match"] = []string{`"2"`, `"1"`}
	gone := decodeWorkflow(t, t.Do(archive))
	t.Check(gone.Status == "ARCHIVED" && gone.Version == 1 && gone.UpdatedAt >= made.UpdatedAt && gone.Warnings == nil, "%+v", gone)
	likeDrawn(t, gone, "archived")
	same(t, "again", decodeWorkflow(t, t.Do(archive)), gone)
	same(t, "read", decodeWorkflow(t, t.Get(workflowPath(made.ID))), gone)
	for filter, want := range map[string]string{"": "", "&status=ACTIVE": "", "&status=PAUSED": "", "&status=ARCHIVED": made.ID} {
		t.Equal("listed by "+filter, listedWorkflow(t, made.ID, filter).ID, want)
	}
	p := t.Problem(put(t, made.ID, drawn("lost"), ""), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "workflow_archived")
	p = t.Problem(t.Post(workflowPath(made.ID)+"/components/id", object{"name": "lost"}), http.StatusConflict, "CONFLICT")
	t.Equal("reason", probe.Reason(p), "workflow_archived")
	body := drawn("back")
	body["status"] = "ARCHIVED"
	p = t.Problem(put(t, made.ID, body, ""), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/status"})
	body["status"] = "ACTIVE"
	back := decodeWorkflow(t, put(t, made.ID, body, `"1"`))
	t.Check(back.Status == "ACTIVE" && back.Version == 2, "%s, version %d", back.Status, back.Version)
	t.Equal("listed", listedWorkflow(t, made.ID, "").Name, "back")
}

func workflowPages(t *probe.Trial) {
	var own, seen []string
	for i := range 5 {
		own = append(own, create(t, drawn(fmt.Sprint("page ", i))).ID)
	}
	slices.Reverse(own)
	for query := "?limit=2"; len(seen) < len(own); {
		page := pageOfWorkflows(t, query)
		t.Check(len(page.Data) <= 2, "a page of %d", len(page.Data))
		for _, w := range page.Data {
			if slices.Contains(own, w.ID) {
				seen = append(seen, w.ID)
			}
		}
		if page.NextCursor == nil {
			break
		}
		create(t, drawn("inserted"))
		query = "?limit=2&cursor=" + *page.NextCursor
	}
	t.Equal("our workflows, newest first", seen, own)
	for query, pointer := range map[string]string{"limit=0": "/query/limit", "cursor=x": "/query/cursor", "status=GONE": "/query/status"} {
		p := t.Problem(t.Get(workflows+"?"+query), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal(query, slices.Compact(probe.Pointers(p)), []string{pointer})
	}
}

func workflowRepeat(t *probe.Trial) {
	request := probe.Request{Method: http.MethodPost, Path: workflows, Body: t.JSON(drawn("repeated")), Header: http.Header{"Idempotency-Key": {unique()}}}
	other := request
	other.Body = t.JSON(object{"name": "wrong", "components": []any{object{"id": "a", "module": "NO_SUCH_MODULE"}}})
	t.Problem(t.Do(other), http.StatusUnprocessableEntity, "INVALID_INPUT") // leaves no trace
	answer := t.Do(request)
	t.Equal("Idempotent-Replayed of the first", answer.Header.Get("Idempotent-Replayed"), "")
	made := decodeWorkflow(t, answer)
	saved := decodeWorkflow(t, put(t, made.ID, drawn("saved since"), ""))
	answer = t.Do(request)
	t.Equal("Idempotent-Replayed of a repeat", answer.Header.Get("Idempotent-Replayed"), "true")
	same(t, "the repeat", decodeWorkflow(t, answer), saved)
	for _, body := range []object{drawn("other"), {"name": 7}, {"name": "wrong", "components": []any{object{"id": "a", "module": "NO_SUCH_MODULE"}}}} {
		other.Body = t.JSON(body)
		t.Problem(t.Do(other), http.StatusConflict, "IDEMPOTENCY_MISMATCH")
	}
}
