package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var streamCases = []Case{
	{
		Part: "4.3, 4.3.close, 4.3.single, 6.2.fields, 6.2.close, D4.5.fields, D4.5.connect, D4.5.order, D4.5.names",
		Name: "SS01 a stream from EXECUTING to COMPLETED", Run: streamProgress, Needs: near,
	},
	{Part: "3.1.completed, 4.3.close", Name: "SS01 a stream of what is COMPLETED already", Run: streamCompleted},
	{Part: "3.1.failed, 6.2.close", Name: "SS01 a stream of what is FAILED", Run: streamFailed, Needs: near},
	{Part: "D4.5.order", Name: "SS01 a stream opened at once", Run: streamAtOnce},
	{Part: "D4.5.id, D4.5.over", Name: "SS03 a client that has the final event is answered 204", Run: streamOver, Needs: near},
	{Part: "4.3, D1.2.404, D4.5.over", Name: "SS03 400 an invalid Last-Event-ID", Run: streamBadID},
	{Part: "D1.8.head", Name: "HEAD answers as GET, without a body", Run: headRequests},
	{Part: "4.3, D1.2.404", Name: "SS01 404 is JSON, not a stream", Run: streamUnknown},
	{Part: "D4.5.connect", Name: "SS01 the present state within 200 ms", Run: streamPrompt, Needs: near},
	{Part: "D4.5.order", Name: "SS04 readers of one execution see the same end", Run: streamMany, Needs: near},
	{Part: "6.2.fields", Name: "SS11 an output with line ends stays on one line", Run: streamHostileOutput, Needs: near},
	{Part: "8.6.heartbeat", Name: "SS02 the first heartbeat in real time", Run: heartbeats(1), Needs: near},
	{Part: "8.6.heartbeat", Name: "SS02 three heartbeats in real time", Run: heartbeats(3), Needs: near, Soak: true},
}

func streamProgress(t *probe.Trial) {
	url, letGo, asked := held(t)
	id := t.Execute(probe.Fetch(url)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	stream := t.Stream(id)
	t.Equal("Cache-Control", stream.Header.Get("Cache-Control"), "no-store, no-transform")
	t.Equal("X-Accel-Buffering", stream.Header.Get("X-Accel-Buffering"), "no")
	first, ok := stream.Next()
	t.Check(ok, "the stream ended before the execution")
	progress(t, id, first)
	letGo()
	over := time.Now()
	events := append([]probe.Event{first}, stream.Rest()...)
	t.Soon(time.Since(over), prompt, "the stream ended %v after the execution", time.Since(over))
	last := ordered(t, id, events)
	t.Equal("status", string(last.Status), "COMPLETED")
	t.Equal("onmessage events", count(events, func(e probe.Event) bool { return e.Name == "" }), 1)
	agrees(t, last, t.Record(id))
}

// tardiness measures how late the timers of this machine fire, until the trial ends. The returned
// function returns the longest delay that this causes for an event that was sent in time.
func tardiness(t *probe.Trial) func() time.Duration {
	const every = 20 * time.Millisecond
	var worst atomic.Int64
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	go func() {
		for ctx.Err() == nil {
			began := time.Now()
			select {
			case <-time.After(every):
				worst.Store(max(worst.Load(), int64(time.Since(began)-every)))
			case <-ctx.Done():
			}
		}
	}()
	return func() time.Duration { return 2 * time.Duration(worst.Load()) }
}

// progress checks an event that is not terminal.
func progress(t *probe.Trial, id string, e probe.Event) {
	t.Decided("D4.5.names", e.Name == "progress", "event: got %q, want progress", e.Name)
	t.Equal("id", e.ID.String(), id)
	t.Decided("D4.5.id", e.LastID != "", "an event without id: %s", e.Data)
	t.Check(!e.Status.Terminal() && isNull(e.Output) && isNull(e.Error), "a progress event: %s", e.Data)
	t.Equal("totalUsage", string(t.JSON(e.TotalUsage)), "0")
}

// ordered checks all events of a stream and returns the terminal one.
func ordered(t *probe.Trial, id string, events []probe.Event) probe.Event {
	t.Check(len(events) > 0, "a stream without events")
	last := events[len(events)-1]
	seen, ids := map[string]bool{}, map[string]bool{}
	for _, e := range events[:len(events)-1] {
		progress(t, id, e)
		t.Decided("D4.5.id", !ids[e.LastID], "the id %q twice", e.LastID)
		ids[e.LastID] = true
		t.Decided("D4.5.order", !seen[string(e.Status)], "%s twice", e.Status)
		t.Decided("D4.5.order", e.Status != "CREATED" || !seen["EXECUTING"], "CREATED after EXECUTING")
		seen[string(e.Status)] = true
	}
	t.Check(last.Status.Terminal(), "the last event is %s", last.Status)
	t.Equal("event of the terminal one", last.Name, "")
	t.Decided("D4.5.id", last.LastID != "" && !ids[last.LastID], "the id of the terminal event: %q", last.LastID)
	t.Equal("id", last.ID.String(), id)
	return last
}

// agrees compares a terminal event with the record.
func agrees(t *probe.Trial, e probe.Event, record api.ComponentExecution) {
	t.Equal("module", e.Module, record.Module)
	t.Equal("status", e.Status, record.Status)
	t.Equal("output", string(e.Output), string(record.Output))
	t.Equal("error", string(e.Error), string(record.Error))
	t.Equal("totalUsage", e.TotalUsage, record.TotalUsage)
	t.Equal("timestamp", e.Timestamp, record.UpdatedAt)
}

func count(events []probe.Event, yes func(probe.Event) bool) int {
	n := 0
	for _, e := range events {
		if yes(e) {
			n++
		}
	}
	return n
}

func streamCompleted(t *probe.Trial) {
	e := t.Execute(probe.RandomUUID().Waiting(15000))
	events := t.Stream(e.ID.String()).Rest()
	t.Equal("events", len(events), 1)
	last := ordered(t, e.ID.String(), events)
	randomUUID(t, last.Output)
	agrees(t, last, t.Record(e.ID.String()))
}

// streamOver reconnects with each ID that it has seen, before and after the terminal event.
func streamOver(t *probe.Trial) {
	url, letGo, asked := held(t)
	id := t.Execute(probe.Fetch(url)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	again := func(last string) probe.Request {
		return probe.Request{Path: probe.Execution(id) + "/stream", Header: http.Header{"Last-Event-Id": {last}}}
	}
	stream := t.Stream(id)
	first, ok := stream.Next()
	t.Check(ok, "the stream ended before the execution")
	resumed := t.StreamOf(again(first.LastID))
	same, ok := resumed.Next()
	t.Check(ok && same.Status == first.Status, "a client that comes again with %q hears %s", first.LastID, same.Data)
	resumed.Close()
	letGo()
	last := ordered(t, id, append([]probe.Event{first}, stream.Rest()...))
	ended := t.Do(again(last.LastID))
	t.Equal("status", ended.Status, http.StatusNoContent)
	t.Equal("body", string(ended.Body), "")
	events := t.StreamOf(again(first.LastID)).Rest()
	t.Check(len(events) == 1 && events[0].LastID == last.LastID && events[0].Status == last.Status, "after %q come %d events", first.LastID, len(events))
}

func streamBadID(t *probe.Trial) {
	id := t.Execute(probe.RandomUUID().Waiting(15000)).ID.String()
	p := t.Problem(t.Do(probe.Request{Path: probe.Execution(id) + "/stream", Header: http.Header{"Last-Event-Id": {"x"}}}), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p), []string{"/header/Last-Event-ID"})
	empty := t.Do(probe.Request{Path: probe.Execution(id) + "/stream", Header: http.Header{"Last-Event-Id": {""}}})
	t.Equal("status with an empty Last-Event-ID", empty.Status, http.StatusOK)
}

// headRequests sends HEAD requests for records, lists, streams and unknown resources.
func headRequests(t *probe.Trial) {
	id := t.Execute(probe.RandomUUID().Waiting(15000)).ID.String()
	for _, c := range []struct {
		path, kind string
		status     int
	}{
		{"/healthz", "application/json", 200},
		{probe.Execution(id), "application/json", 200},
		{probe.Executions, "application/json", 200},
		{probe.Execution(id) + "/stream", "text/event-stream", 200},
		{probe.Execution("0193f1c0-0000-7000-8000-000000000000"), "application/problem+json", 404},
		{probe.Execution("0193f1c0-0000-7000-8000-000000000000") + "/stream", "application/problem+json", 404},
	} {
		answer := t.Do(probe.Request{Method: http.MethodHead, Path: c.path})
		t.Equal("status of HEAD "+c.path, answer.Status, c.status)
		t.Equal("Content-Type of HEAD "+c.path, strings.Split(answer.Header.Get("Content-Type"), ";")[0], c.kind)
		t.Equal("body of HEAD "+c.path, string(answer.Body), "")
	}
	unsigned := t.Do(probe.Request{Method: http.MethodHead, Path: probe.Execution(id), Unsigned: true})
	t.Equal("status without a signature", unsigned.Status, http.StatusUnauthorized)
	refused := t.Do(probe.Request{Method: http.MethodPut, Path: probe.Execution(id)})
	t.Equal("Allow", refused.Header.Get("Allow"), "GET, HEAD")
}

func streamFailed(t *probe.Trial) {
	e := t.Execute(probe.Fetch(t.Upstream(answering(503))).Waiting(15000))
	events := t.Stream(e.ID.String()).Rest()
	t.Equal("events", len(events), 1)
	last := ordered(t, e.ID.String(), events)
	t.Equal("status", string(last.Status), "FAILED")
	agrees(t, last, t.Record(e.ID.String()))
	record := e
	record.Status, record.Error = last.Status, last.Error
	upstreamFailure(t, record, 1)
}

func streamAtOnce(t *probe.Trial) {
	t.Parallel(8, func(int) {
		e := t.Execute(probe.RandomUUID())
		last := ordered(t, e.ID.String(), t.Stream(e.ID.String()).Rest())
		t.Equal("status", string(last.Status), "COMPLETED")
	})
}

func streamUnknown(t *probe.Trial) {
	answer := t.Do(probe.Request{
		Path:   probe.Execution("0193f1c0-0000-7000-8000-000000000000") + "/stream",
		Header: http.Header{"Accept": {"text/event-stream"}},
	})
	t.Problem(answer, http.StatusNotFound, "NOT_FOUND")
	t.Equal("Content-Type", answer.Header.Get("Content-Type"), "application/problem+json")
}

func streamPrompt(t *probe.Trial) {
	url, _, asked := held(t)
	id := t.Execute(probe.Fetch(url)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	best := time.Minute
	for range 10 {
		start := time.Now()
		stream := t.Stream(id)
		_, ok := stream.Next()
		t.Check(ok, "the stream ended before the execution")
		best = min(best, time.Since(start))
		stream.Close()
	}
	t.Soon(best, 200*time.Millisecond, "the first event took %v at best", best)
}

func streamMany(t *probe.Trial) {
	url, letGo, asked := held(t)
	id := t.Execute(probe.Fetch(url)).ID.String()
	t.Until("the upstream is asked", 20*time.Second, asked)
	opened := make(chan struct{}, 20)
	t.Parallel(21, func(i int) {
		if i == 20 {
			defer letGo()
			for range 20 {
				select {
				case <-opened:
				case <-t.Context().Done():
					t.Fatalf("not every stream opened")
				}
			}
			return
		}
		stream := t.Stream(id)
		first, ok := stream.Next()
		t.Check(ok, "the stream ended before the execution")
		opened <- struct{}{}
		last := ordered(t, id, append([]probe.Event{first}, stream.Rest()...))
		t.Equal("status", string(last.Status), "COMPLETED")
	})
}

func streamHostileOutput(t *probe.Trial) {
	hostile := "a\nb\r\nc\rd\u2028e\u2029f\ndata: x\n\nevent: y\n\n" + strings.Repeat("\n\r", 1000)
	body, err := json.Marshal(map[string]string{"text": hostile})
	t.NoError("encode", err)
	upstream := t.Upstream(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
	e := t.Execute(probe.Fetch(upstream).Waiting(15000))
	t.Equal("status", string(e.Status), "COMPLETED")
	events := t.Stream(e.ID.String()).Rest() // refuses an event of two data lines and a bare CR
	t.Equal("events", len(events), 1)
	var output struct{ Body struct{ Text string } }
	t.NoError("output", json.Unmarshal(events[0].Output, &output))
	t.Equal("text", output.Body.Text, hostile)
}

// heartbeats keeps an idle stream open until it has received a number of heartbeats.
func heartbeats(n int) func(*probe.Trial) {
	return func(t *probe.Trial) {
		url, letGo, asked := held(t)
		call := probe.Fetch(url)
		call.Config["timeoutMs"] = 60000
		id := t.Execute(call).ID.String()
		t.Until("the upstream is asked", 20*time.Second, asked)
		tardy := tardiness(t)
		start := time.Now()
		stream := t.Stream(id)
		_, ok := stream.Next()
		t.Check(ok, "the stream ended before the execution")
		open := time.Now()
		stream.Pinged = func() {
			if len(stream.Pings) == n {
				letGo()
			}
		}
		timer := time.AfterFunc(t.Limit(time.Duration(n)*15*time.Second+2*time.Second), letGo)
		defer timer.Stop()
		stream.Rest()
		t.Equal("pings", len(stream.Pings), n)
		for i, ping := range stream.Pings {
			due := time.Duration(i+1) * 15 * time.Second
			early, late := due-ping.Sub(start), ping.Sub(open)-due
			t.Check(early <= 0, "ping %d came %v early", i+1, early)
			t.Soon(late, time.Second+tardy(), "ping %d came %v late", i+1, late)
		}
	}
}
