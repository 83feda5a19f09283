package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var environmentCases = []Case{
	{Part: "D8.14.writeOnly", Name: "environment/200 set, listed, deleted by a key", Run: variableLife},
	{Part: "D9.2.environment, D8.14.writeOnly", Name: "environment/200 set, listed, deleted by a member", Run: memberVariables, Needs: owner},
	{Part: "D8.14, D8.14.redacted", Name: "MT05 environment/200 what a run makes of variables", Run: variablesOfRun},
	{Part: "D8.14", Name: "environment/422 what names no variable", Run: variableFaults},
	{Part: "D8.14.token", Name: "environment/200 an access token, set, listed, deleted by a key", Run: tokenLife},
	{Part: "D8.14.token, D9.2.environment", Name: "environment/200 an access token, set, listed, deleted by a member", Run: memberTokens, Needs: owner},
	{Part: "D8.14.token", Name: "environment/400, 409 what an access token cannot be", Run: tokenFaults},
	{Part: "D8.14.fetched", Name: "MT05 environment/200 a call with an access token", Run: tokenOfRun, Needs: near},
	{Part: "D8.14.fetched", Name: "environment/422 an access token where no call is", Run: tokenMisplaced},
	{
		Part: "D2.8.workflows", Name: "AU12 environment/403 a key that is restricted to some workflows", Run: variablesRestricted,
		Needs: []probe.Need{probe.NeedOwner},
	},
	{Part: "D1.2.404", Name: "MT01 environment/404 those of another workspace", Run: variablesForeign, Needs: []probe.Need{probe.NeedForeign}},
}

const variables = "/v1/sdk/environment-variables"

// variableName returns a new name.
func variableName() string { return "V_" + unique() }

func setVariable(t *probe.Trial, name string, body object) api.EnvironmentVariable {
	answer := t.Do(probe.Request{
		Method: http.MethodPut, Path: variables + "/" + name, Body: t.JSON(body), Header: http.Header{"Prefer": {"handling=strict"}},
	})
	t.Equal("Preference-Applied", answer.Header.Get("Preference-Applied"), "handling=strict")
	return probe.Decode[api.EnvironmentVariable](t, answer)
}

func deleteVariable(t *probe.Trial, name string) probe.Answer {
	return t.Do(probe.Request{Method: http.MethodDelete, Path: variables + "/" + name})
}

// listedVariable finds a variable on all pages of the list.
func listedVariable(t *probe.Trial, name string, page func(query string) probe.Answer) (found api.EnvironmentVariable) {
	for query := "?limit=50"; ; {
		got := probe.Decode[api.EnvironmentVariablePage](t, page(query))
		t.Equal("hasMore", got.HasMore, got.NextCursor != nil)
		if i := slices.IndexFunc(got.Data, func(v api.EnvironmentVariable) bool { return v.Name == name }); i >= 0 {
			return got.Data[i]
		}
		if !got.HasMore {
			return found
		}
		query = "?limit=50&cursor=" + *got.NextCursor
	}
}

func ofKey(t *probe.Trial) func(string) probe.Answer {
	return func(query string) probe.Answer { return t.Get(variables + query) }
}

func shownAs(t *probe.Trial, v api.EnvironmentVariable, name string, value *string, secret bool, description string) {
	t.Equal("name", v.Name, name)
	t.Equal("secret", v.Secret, secret)
	t.Equal("description", v.Description, description)
	t.Check((v.Value == nil) == (value == nil) && (value == nil || *v.Value == *value), "the value is %v", v.Value)
	created, updated := time.Time(v.CreatedAt), time.Time(v.UpdatedAt)
	t.Check(!created.IsZero() && !updated.Before(created), "created %v, updated %v", created, updated)
}

func variableLife(t *probe.Trial) {
	name := variableName()
	shownAs(t, setVariable(t, name, object{"value": "first", "description": "what for"}), name, new("first"), false, "what for")
	shownAs(t, listedVariable(t, name, ofKey(t)), name, new("first"), false, "what for")
	shownAs(t, setVariable(t, name, object{"value": ""}), name, new(""), false, "what for")
	shownAs(t, setVariable(t, name, object{"value": "hush", "secret": true, "description": ""}), name, nil, true, "")
	shownAs(t, setVariable(t, name, object{"value": "hush again"}), name, nil, true, "")
	shownAs(t, listedVariable(t, name, ofKey(t)), name, nil, true, "")
	shownAs(t, probe.Decode[api.EnvironmentVariable](t, deleteVariable(t, name)), name, nil, true, "")
	t.Equal("listed", listedVariable(t, name, ofKey(t)).Name, "")
	t.Problem(deleteVariable(t, name), http.StatusNotFound, "NOT_FOUND")
	for _, bad := range []string{"lower", "1A", "_A", "A-B", strings.Repeat("A", 65)} {
		answer := t.Do(probe.Request{Method: http.MethodPut, Path: variables + "/" + bad, Body: []byte(`{"value":"x"}`)})
		t.Problem(answer, http.StatusNotFound, "NOT_FOUND")
	}
	for _, body := range []string{`{}`, `{"value":null}`, `{"value":7}`, `{"value":"x","secret":"yes"}`, `{"value":"` + strings.Repeat("é", 4097) + `"}`, `{"value":"` + strings.Repeat("x", 8193) + `"}`} {
		p := t.Problem(t.Do(probe.Request{Method: http.MethodPut, Path: variables + "/" + name, Body: []byte(body)}), http.StatusBadRequest, "INVALID_INPUT")
		t.Check(len(probe.Pointers(p)) == 1, "%.40s: %v", body, probe.Pointers(p))
	}
}

func memberVariables(t *probe.Trial) {
	boss, name := t.SignIn(), variableName()
	path := "/environment-variables/" + name
	set := func(body object) api.EnvironmentVariable {
		return probe.Decode[api.EnvironmentVariable](t, within(t, boss, http.MethodPut, path, body))
	}
	listed := func() api.EnvironmentVariable {
		return listedVariable(t, name, func(query string) probe.Answer {
			return within(t, boss, http.MethodGet, "/environment-variables"+query, nil)
		})
	}
	shownAs(t, set(object{"value": "a", "description": "d"}), name, new("a"), false, "d")
	shownAs(t, listed(), name, new("a"), false, "d")
	shownAs(t, listedVariable(t, name, ofKey(t)), name, new("a"), false, "d")
	shownAs(t, set(object{"value": "b", "secret": true}), name, nil, true, "d")
	shownAs(t, listed(), name, nil, true, "d")
	shownAs(t, set(object{"value": "c", "secret": false}), name, new("c"), false, "d")
	shownAs(t, probe.Decode[api.EnvironmentVariable](t, within(t, boss, http.MethodDelete, path, nil)), name, new("c"), false, "d")
	t.Problem(within(t, boss, http.MethodDelete, path, nil), http.StatusNotFound, "NOT_FOUND")
	var actions []string
	for _, e := range probe.Decode[api.AuditEventPage](t, within(t, boss, http.MethodGet, "/audit-events?limit=100", nil)).Data {
		if strings.Contains(string(t.JSON(e.Details)), name) {
			actions = append(actions, e.Action)
		}
	}
	t.Equal("actions in the audit log", strings.Join(actions, " "), "environment_variable.deleted environment_variable.updated environment_variable.updated environment_variable.created")
}

// variablesOfRun checks a run that uses variables in every way.
func variablesOfRun(t *probe.Trial) {
	const canary = "canary-7d20e6b1"
	plain, secret, number, gone := variableName(), variableName(), variableName(), variableName()
	setVariable(t, plain, object{"value": `wo"rld {{env.` + secret + `}}`})
	setVariable(t, secret, object{"value": canary, "secret": true})
	setVariable(t, number, object{"value": "20"})
	defer func() {
		for _, name := range []string{plain, secret, number} {
			deleteVariable(t, name)
		}
	}()
	run := func(components []object, edges ...string) api.WorkflowRun {
		w := create(t, sketch(components, edges))
		answer := t.Post(workflowPath(w.ID), object{"waitForMs": 15000})
		result := probe.Decode[api.TriggerResult](t, answer)
		t.Check(result.Run != nil, "%s", answer.Body)
		return probe.Decode[api.WorkflowRun](t, t.Get(workflows+"/executions/"+result.RunID.String()))
	}
	done := run([]object{
		{"id": "wait", "module": "DELAY", "config": object{"durationMs": "{{env." + number + "}}"}},
		{"id": "answer", "module": "RESPOND", "input": object{"text": "hello {{env." + plain + "}}", "token": "{{env." + secret + "}}"}},
	}, "wait next answer")
	same(t, "output", done.Output, object{"text": `hello wo"rld {{env.` + secret + `}}`, "token": canary}) // an output is not altered
	failed := run([]object{{"id": "fail", "module": "FAIL", "config": object{"code": "NO", "message": "says {{env." + secret + "}}"}}})
	t.Check(failed.Status == "FAILED" && strings.Contains(string(t.JSON(failed)), "says [redacted]"), "%s", t.JSON(failed))
	t.Check(!strings.Contains(string(t.JSON(failed)), canary), "%s", t.JSON(failed))
	unknown := run([]object{{"id": "text", "module": "STRING_CONSTANT", "config": object{"value": "{{env." + gone + "}}"}}})
	t.Check(unknown.Status == "FAILED" && strings.Contains(string(unknown.Error), "MISSING_VALUE") && strings.Contains(string(unknown.Error), gone), "%s", unknown.Error)
}

func variableFaults(t *probe.Trial) {
	call := object{
		"id": "call", "module": "API_CALL", "config": object{"apiUrl": "https://{{env.HOST}}/{{env.}}", "method": "{{env.METHOD}}"},
		"input": object{"headers": object{}, "body": object{"a": []string{"{{env.lower}}", "{{env.FINE}}", "{{ env.NOT_OURS }}"}}},
	}
	wait := object{"id": "wait", "module": "DELAY", "config": object{"durationMs": "{{env.MS}}"}}
	p := t.Problem(t.Post(workflows, sketch([]object{call, wait}, nil)), http.StatusUnprocessableEntity, "INVALID_INPUT")
	t.Equal("pointers", strings.Join(probe.Pointers(p), " "), "/components/0/config/apiUrl /components/0/input/body/a/0")
}

func variablesRestricted(t *probe.Trial) {
	boss := t.SignIn()
	made, credentials := newKeyOf(t, boss, "restricted", create(t, drawn("listed")).ID)
	for _, request := range []probe.Request{
		{Path: variables}, {Method: http.MethodPut, Path: variables + "/A", Body: []byte(`{"value":"x"}`)}, {Method: http.MethodDelete, Path: variables + "/A"},
	} {
		request.Sign = probe.Signing{As: &credentials}
		t.Equal("reason", probe.Reason(t.Problem(t.Do(request), http.StatusForbidden, "FORBIDDEN")), "key_restricted")
	}
	within(t, boss, http.MethodDelete, "/api-keys/"+made.ID.String(), nil)
}

func variablesForeign(t *probe.Trial) {
	name, as := variableName(), probe.Signing{As: t.Target().Foreign}
	path := variables + "/" + name
	foreign := probe.Decode[api.EnvironmentVariable](t, t.Do(probe.Request{Method: http.MethodPut, Path: path, Body: []byte(`{"value":"foreign"}`), Sign: as}))
	shownAs(t, foreign, name, new("foreign"), false, "")
	t.Equal("listed", listedVariable(t, name, ofKey(t)).Name, "")
	t.Problem(deleteVariable(t, name), http.StatusNotFound, "NOT_FOUND")
	setVariable(t, name, object{"value": "own"})
	deleteVariable(t, name)
	gone := t.Do(probe.Request{Method: http.MethodDelete, Path: path, Sign: as})
	shownAs(t, probe.Decode[api.EnvironmentVariable](t, gone), name, new("foreign"), false, "")
}
