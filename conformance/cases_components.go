package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var componentCases = []Case{
	{Part: "C.API_CALL, C.API_CALL.mapping", Name: "components/200 API_CALL sends the configured request, and outputs the response", Run: apiCallExchange, Needs: near},
	{Part: "C.API_CALL.statuses", Name: "components/200 API_CALL takes a status for a value or for a failure", Run: apiCallStatuses, Needs: near},
	{Part: "C.API_CALL.bounds", Name: "components/200 API_CALL keeps to its time, its size and its redirects", Run: apiCallBounds, Needs: near},
}

// mirror responds with the request that it received.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"method": r.Method, "target": r.RequestURI, "type": r.Header.Get("Content-Type"), "own": r.Header.Get("X-Own"), "key": r.Header.Get("Idempotency-Key"),
		"text": string(body), "list": []any{map[string]string{"odd.name": "here"}}, "big": json.Number("12345678901234567890.10"),
	})
}

func apiCallExchange(t *probe.Trial) {
	upstream := t.Upstream(mirror)
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		call := probe.Fetch(upstream + "/a?x=1").Waiting(15000)
		call.Config["method"] = method
		call.Input = object{"headers": object{"X-Own": "mine"}, "query": object{"q": "a b", "n": 2, "list": []any{"1", true}, "none": nil}}
		text := ""
		if method != "GET" && method != "DELETE" {
			call.Input["body"], text = object{"amount": "1"}, `{"amount":"1"}`
		}
		call.Config["outputMapping"] = object{"odd": `list[0]["odd.name"]`, "exact": "big", "code": "status", "nothing": "list.7.deeper", "type": "headers.content-type"}
		e := t.Execute(call)
		t.Equal(method, string(e.Status), "COMPLETED")
		var got struct {
			Status       int
			Headers      map[string]string
			BodyEncoding string
			Body         struct{ Method, Target, Own, Key, Text string }
			Odd, Type    string
			Exact        json.Number
			Code         int
			Nothing      json.RawMessage
		}
		t.NoError(method, json.Unmarshal(e.Output, &got))
		t.Check(got.Status == http.StatusOK && got.BodyEncoding == "json" && got.Headers["content-type"] == "application/json", "%s: %s", method, e.Output)
		t.Equal(method+" as it came", got.Body.Method, method)
		t.Equal(method+" target", got.Body.Target, "/a?x=1&list=1&list=true&n=2&q=a+b")
		t.Check(got.Body.Own == "mine" && got.Body.Text == text, "%s: %s", method, e.Output)
		t.Equal(method+" carries a key of the execution", got.Body.Key, map[bool]string{true: e.ID.String()}[method == "POST" || method == "PATCH"])
		t.Check(got.Odd == "here" && got.Exact == "12345678901234567890.10" && got.Code == http.StatusOK && got.Type == "application/json" && string(got.Nothing) == "null",
			"%s: what was mapped: %s", method, e.Output)
	}
	own := probe.Fetch(upstream).Waiting(15000)
	own.Config["method"], own.Input["headers"] = "POST", object{"Idempotency-Key": "order-7"}
	t.Check(strings.Contains(string(t.Execute(own).Output), `"order-7"`), "a key of the caller's own is not sent")
}

func apiCallStatuses(t *probe.Trial) {
	upstream := t.Upstream(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.WriteHeader(status)
	})
	all := []struct {
		status           int
		expect           any
		fails, retryable bool
	}{
		{200, nil, false, false}, {204, nil, false, false}, {302, nil, false, false}, {400, nil, true, false}, {401, nil, true, false}, {404, nil, true, false}, {409, nil, true, false},
		{408, nil, true, true}, {425, nil, true, true}, {429, nil, true, true}, {500, nil, true, true}, {503, nil, true, true},
		{200, 201, true, false}, {404, []int{200, 404}, false, false}, {404, 200, true, false}, {503, 503, false, false}, {500, []int{200, 503}, true, true},
		{404, []any{"2xx", 404}, false, false}, {409, "4xx", false, false}, {503, "any", false, false}, {302, "2xx", true, false},
	}
	t.Parallel(len(all), func(i int) {
		c := all[i]
		call := probe.Fetch(fmt.Sprint(upstream, "/", c.status)).Waiting(15000)
		if c.expect != nil {
			call.Config["expectStatus"] = c.expect
		}
		e := t.Execute(call)
		what := fmt.Sprintf("%d, expected %v", c.status, c.expect)
		if !c.fails {
			t.Check(string(e.Status) == "COMPLETED" && strings.Contains(string(e.Output), fmt.Sprintf(`"status":%d`, c.status)), "%s: %s", what, t.JSON(e))
			return
		}
		fault := failureOf(t, what, e)
		t.Check(fault.Code == "UPSTREAM_ERROR" && fault.Retryable == c.retryable && strings.Contains(string(fault.Details), fmt.Sprintf(`"upstreamCode":%d`, c.status)), "%s: %s", what, e.Error)
	})
}

// failureOf returns the error of an execution that must have failed.
func failureOf(t *probe.Trial, what string, e api.ComponentExecution) api.ExecutionError {
	t.Equal(what, string(e.Status), "FAILED")
	return executionError(t, e.Error)
}

func apiCallBounds(t *probe.Trial) {
	upstream := t.Upstream(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			<-r.Context().Done()
		case "/large":
			part := strings.Repeat("a", 64<<10)
			for range 6 << 20 / len(part) {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
			}
		default:
			left, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
			if left > 0 {
				w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
				http.Redirect(w, r, fmt.Sprint("/", left-1), http.StatusFound)
			}
		}
	})
	run := func(path string) api.ComponentExecution {
		call := probe.Fetch(upstream + path).Waiting(15000)
		call.Config["timeoutMs"] = 500
		if path == "/large" {
			call.Config["timeoutMs"] = 10_000
		}
		return t.Execute(call)
	}
	fault := failureOf(t, "a slow upstream", run("/slow"))
	t.Check(fault.Code == "TIMEOUT" && fault.Retryable, "a slow upstream: %+v", fault)
	fault = failureOf(t, "an answer of 6 MiB", run("/large"))
	t.Check(fault.Code == "UPSTREAM_ERROR" && !fault.Retryable && strings.Contains(string(fault.Details), `"too_large"`), "an answer of 6 MiB: %+v", fault)
	t.Equal("three redirects", string(run("/3").Status), "COMPLETED")
	fault = failureOf(t, "four redirects", run("/4"))
	t.Check(fault.Code == "UPSTREAM_ERROR" && strings.Contains(string(fault.Details), `"redirect"`), "four redirects: %+v", fault)
	stopped := probe.Fetch(upstream + "/1").Waiting(15000)
	stopped.Config["followRedirects"], stopped.Config["expectStatus"] = false, http.StatusFound
	var got struct {
		Status     int
		Headers    map[string]string
		SetCookies []string
	}
	t.NoError("a redirect that is not followed", json.Unmarshal(t.Execute(stopped).Output, &got))
	t.Check(got.Status == http.StatusFound && got.Headers["location"] == "/0" && slices.Equal(got.SetCookies, []string{"a=1", "b=2"}), "a redirect that is not followed: %+v", got)
}
