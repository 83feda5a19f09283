package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var startedCallbackCases = []Case{
	{Part: "D8.21.kept, D2.8.origin", Name: "runs/callback shown and changed in schedules and hooks", Run: startedCallbackSettings},
	{Part: "D8.21.refused", Name: "runs/400 callbacks of schedules and hooks that are refused", Run: startedCallbackRefused},
	{Part: "D8.21.started, D8.21.own", Name: "runs/callback one of a run that a hook starts", Run: hookCalledBack, Needs: near},
	{Part: "D8.21.started", Name: "runs/callback one of a run that a schedule starts", Run: scheduleCalledBack, Needs: near},
}

// starters returns the body of a schedule and of a hook, by their paths.
func starters(t *probe.Trial) map[string]object {
	id := create(t, object{"name": "triggered", "components": []object{use("id", "RANDOM_UUID")}}).ID
	return map[string]object{
		schedules: {"workflowId": id, "cron": "0 0 1 1 *", "status": "PAUSED"},
		hooks:     {"workflowId": id, "verification": signing()},
	}
}

// replaceStarter replaces a schedule or hook. fields is JSON without its braces.
func replaceStarter(t *probe.Trial, own, fields string) probe.Answer {
	required := `"name":"x"`
	if strings.HasPrefix(own, schedules) {
		required = `"cron":"0 0 1 1 *"`
	}
	if fields != "" {
		required += "," + fields
	}
	return t.Do(probe.Request{Method: http.MethodPut, Path: own, Body: []byte("{" + required + "}")})
}

// startedCallbackSettings keeps what a request leaves out, and removes it by null.
func startedCallbackSettings(t *probe.Trial) {
	const token = "Bearer canary-51c2"
	for path, body := range starters(t) {
		type record struct {
			ID       string
			Callback *api.RunCallback
		}
		is := func(what string, answer probe.Answer, url string, signed bool, names ...string) string {
			t.Check(!strings.Contains(string(answer.Body), secret) && !strings.Contains(string(answer.Body), token), "%s %s shows a secret: %s", what, path, answer.Body)
			got := probe.Decode[record](t, answer)
			want := "null"
			if url != "" {
				shown := api.RunCallback{URL: url, Signed: signed, HeaderNames: append([]string{}, names...)}
				if signed {
					shown.SignatureAlgorithm = new(api.SignatureAlgorithmHmacSha256V1)
				}
				want = string(t.JSON(shown))
			}
			t.Equal("callback of "+what+" "+path, string(t.JSON(got.Callback)), want)
			return got.ID
		}
		const first, moved = "https://a.example/in", "https://b.example/in"
		body["callbackUrl"], body["callbackSecret"], body["callbackHeaders"] = first, secret, object{"X-Order": "4711", "Authorization": token}
		own := path + "/" + is("POST", t.Post(path, body), first, true, "Authorization", "X-Order")
		is("GET", t.Get(own), first, true, "Authorization", "X-Order")
		list := probe.Decode[struct{ Data []record }](t, t.Get(path+"?workflowId="+body["workflowId"].(string)))
		t.Check(len(list.Data) == 1 && list.Data[0].Callback != nil && list.Data[0].Callback.Signed, "list %s", t.JSON(list))

		is("PUT without the fields", replaceStarter(t, own, ""), first, true, "Authorization", "X-Order")
		is("PUT of another path", replaceStarter(t, own, `"callbackUrl":"`+first+`/2"`), first+"/2", true, "Authorization", "X-Order")
		for _, refused := range []struct {
			fields   string
			status   int
			pointers []string
		}{
			{`"callbackUrl":"` + moved + `"`, 422, []string{"/callbackSecret", "/callbackHeaders"}},
			{`"callbackUrl":"https://a.example:8443/in","callbackHeaders":null`, 422, []string{"/callbackSecret"}},
			{`"callbackUrl":"` + moved + `","callbackSecret":"` + secret + `"`, 422, []string{"/callbackHeaders"}},
			{`"callbackUrl":null,"callbackSecret":"` + secret + `"`, 400, []string{"/callbackSecret"}},
			{`"callbackSecret":"[redacted]","callbackHeaders":{"Authorization":"[redacted]"}`, 400, []string{"/callbackSecret", "/callbackHeaders/Authorization"}},
			{`"callbackUrl":"https://10.0.0.1/"`, 400, []string{"/callbackUrl"}},
			{`"callbackUrl":"` + moved + `","callbackSecret":null,"callbackHeaders":{"Host":"x"}`, 400, []string{"/callbackHeaders/Host"}},
		} {
			p := t.Problem(replaceStarter(t, own, refused.fields), refused.status, "INVALID_INPUT")
			t.Equal("pointers of "+refused.fields, slices.Compact(probe.Pointers(p)), refused.pointers)
		}
		is("GET after refusals", t.Get(own), first+"/2", true, "Authorization", "X-Order")
		is("PUT of another origin", replaceStarter(t, own, `"callbackUrl":"`+moved+`","callbackSecret":"`+secret+`","callbackHeaders":null`), moved, true)
		is("PUT of headers", replaceStarter(t, own, `"callbackHeaders":{"X-Order":"4712"}`), moved, true, "X-Order")
		is("PUT without a secret", replaceStarter(t, own, `"callbackSecret":null`), moved, false, "X-Order")
		is("PUT without a callback", replaceStarter(t, own, `"callbackUrl":null`), "", false)
		is("PUT of a URL alone", replaceStarter(t, own, `"callbackUrl":"`+first+`"`), first, false)
		is("DELETE", t.Do(deleted(own)), first, false)
	}
}

func startedCallbackRefused(t *probe.Trial) {
	for path, body := range starters(t) {
		for given, pointer := range map[string]string{
			`{"callbackUrl":"ftp://a.example/"}`: "/callbackUrl", `{"callbackUrl":"https://10.0.0.1/"}`: "/callbackUrl", `{"callbackUrl":7}`: "/callbackUrl",
			`{"callbackSecret":"` + secret + `"}`: "/callbackSecret", `{"callbackHeaders":{}}`: "/callbackHeaders",
			`{"callbackUrl":"https://a.example/","callbackSecret":"[redacted]"}`:          "/callbackSecret",
			`{"callbackUrl":"https://a.example/","callbackSecret":"whsec_?"}`:             "/callbackSecret",
			`{"callbackUrl":"https://a.example/","callbackHeaders":{"X-Svc-Run-Id":"1"}}`: "/callbackHeaders/X-Svc-Run-Id",
		} {
			whole := strings.TrimSuffix(string(t.JSON(body)), "}") + "," + strings.TrimPrefix(given, "{")
			p := t.Problem(t.Do(probe.Request{Method: http.MethodPost, Path: path, Body: []byte(whole)}), http.StatusBadRequest, "INVALID_INPUT")
			t.Equal("pointers of "+given+" to "+path, slices.Compact(probe.Pointers(p)), []string{pointer})
		}
	}
}

// hookCalledBack also replaces the callback while a run waits, which keeps its own, and repeats the run.
func hookCalledBack(t *probe.Trial) {
	first, second := t.Receiver(secret), t.Receiver("")
	below := draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"})
	workflow := create(t, sketch([]object{use("start", "ON_WEBHOOK"), set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}), set("below", "RUN_WORKFLOW", object{"workflowId": below})},
		[]string{"start next wait", "wait next below"})).ID
	hook := makeHook(t, object{"workflowId": workflow, "verification": signing(), "callbackUrl": first.URL, "callbackSecret": secret, "callbackHeaders": object{"X-Order": "4711"}})
	body := []byte(`{"a":1}`)
	run := taken(t, delivering(hook.Path, "one", body)).RunID.String()
	t.Check(record(t, run).Callback != nil, "the run has no callback")
	replaceStarter(t, hooks+"/"+hook.ID.String(), `"callbackUrl":"`+second.URL+`","callbackSecret":null,"callbackHeaders":null`)
	later := taken(t, delivering(hook.Path, "two", []byte(`{"a":2}`))).RunID.String()
	signal(t, run, "go", object{})
	signal(t, later, "go", object{})
	for id, receiver := range map[string]*probe.Receiver{run: first, later: second} {
		d := receiver.Next()
		t.Equal("id", d.Run.ID.String(), id)
		t.Equal("a header", d.Header.Get("X-Order"), map[string]string{run: "4711"}[id])
		final := calledBackAsRecorded(t, d)
		t.Equal("signed", final.Callback.Signed, id == run)
		child := stagesOf(record(t, id), "below")[0].ChildRunID
		t.Check(child != nil && record(t, child.String()).Callback == nil, "the child run has a callback")
	}
	again := trigger(t, workflow, object{"rerunOf": object{"runId": run}}).RunID.String()
	t.Check(finished(t, again, "COMPLETED").Callback == nil, "the rerun has a callback")
	t.Equal("the run of a repeated delivery", taken(t, delivering(hook.Path, "one", body)).RunID.String(), run)
	t.Equal("deliveries", first.Received()+second.Received(), 2)
}

func scheduleCalledBack(t *probe.Trial) {
	receiver := t.Receiver(secret)
	workflow := create(t, sketch([]object{set("start", "ON_SCHEDULE", object{"cron": "* * * * *"}), use("answer", "RESPOND")}, []string{"start next answer"}, "start.scheduledAt answer.at")).ID
	body := callingBack(receiver, secret)
	body["workflowId"] = workflow
	id := probe.Decode[api.Schedule](t, t.Post(schedules, body)).ID.String()
	defer t.Do(deleted(schedulePath(id)))
	t.Until("a run starts", 90*time.Second, func() bool { return getSchedule(t, id).LastRunID != nil })
	d := receiver.Next()
	t.Check(d.Run.Trigger == "SCHEDULE" && d.Run.TriggerID != nil && d.Run.TriggerID.String() == id, "%s", d.Body)
	calledBackAsRecorded(t, d)
}
