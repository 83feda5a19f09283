package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

var runStreamCases = []Case{
	{
		Part: "2.5.id, 2.5.status, 2.5.output, 2.5.nonTerminalStages, 2.5.timestamp, 4.7, 4.7.close, 6.1.data, 6.1.stages, 6.1.output, 6.1.close, D8.11.id",
		Name: "SS01 runs/a stream from the start to COMPLETED", Run: runStreamed, Needs: near,
	},
	{Part: "6.1.completed, 3.2.close", Name: "SS01 runs/a stream of what is COMPLETED already", Run: runStreamCompleted},
	{Part: "6.1.failed, D8.11.error", Name: "SS01 runs/a stream of what is FAILED already", Run: runStreamFailed, Needs: near},
	{Part: "6.1.disconnect, D8.11.again", Name: "SS03 runs/a client that comes again hears the present state", Run: runStreamAgain, Needs: near},
	{Part: "D8.11.resume, D8.11.log", Name: "SS03 runs/a client cut off 100 times misses and repeats nothing", Run: runStreamCut},
	{Part: "D4.5.over, D8.11.over, D1.8.head", Name: "SS03 runs/a client that has the final event is answered 204", Run: runStreamOver},
	{Part: "D8.11.log, D1.5.cursor", Name: "runs/200 the log of a run, by pages and after an event", Run: runEvents},
	{Part: "D8.11.frame", Name: "SS11 runs/frames of an id and one line of data", Run: runStreamFrames},
	{Part: "D1.2.404, 4.7", Name: "runs/404, 400 a stream that is refused is JSON", Run: runStreamRefused},
	{Part: "6.1.ping, 6.1.idle, 8.6.heartbeat", Name: "SS02 runs/the first heartbeat in real time", Run: runHeartbeat},
}

// runEvent is an event of the stream of a run.
type runEvent struct {
	api.RunEvent

	SSE  string // the `id:` of its message
	Data string
	out  api.RunEventOutput
}

// runStream is the open stream of a run.
type runStream struct {
	*probe.Stream
	t  *probe.Trial
	id string
}

// openRun opens the stream of a run, with an optional header to resume after an event.
func openRun(t *probe.Trial, id string, header http.Header) *runStream {
	return openAt(t, id, "", header)
}

func openAt(t *probe.Trial, id, query string, header http.Header) *runStream {
	return &runStream{t.StreamOf(probe.Request{Path: runPath(id) + "/stream" + query, Header: header}), t, id}
}

func after(seq int64) http.Header { return http.Header{"Last-Event-Id": {strconv.FormatInt(seq, 10)}} }

// more waits for the next event, and returns false at the end of the stream.
func (s *runStream) more() (e runEvent, ok bool) {
	got, ok := s.Next()
	if !ok {
		return e, false
	}
	s.t.NoError("event", json.Unmarshal(got.Data, &e.RunEvent))
	s.t.NoError("output", json.Unmarshal(e.Output, &e.out))
	e.SSE, e.Data = got.LastID, string(got.Data)
	s.t.Decided("D8.11.id", e.SSE == strconv.FormatInt(e.Seq, 10), "id: got %q, want %d", e.SSE, e.Seq)
	s.t.Equal("event:", got.Name, "")
	s.t.Equal("id", e.ID.String(), s.id)
	s.t.Check((e.Status == "FAILED") != isNull(e.Error), "%s with error %s", e.Status, e.Error)
	return e, true
}

func (s *runStream) next() runEvent {
	e, ok := s.more()
	s.t.Check(ok, "the stream ended before the run")
	return e
}

func (s *runStream) rest() (all []runEvent) {
	for {
		e, ok := s.more()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

func (s *runStream) until(what string, yes func(runEvent) bool) runEvent {
	for {
		e, ok := s.more()
		s.t.Check(ok, "the stream ended before %s", what)
		if yes(e) {
			return e
		}
	}
}

// logOf returns the listed events of a run.
func logOf(t *probe.Trial, id string) (all []api.RunEvent) {
	for query := "?limit=100"; ; {
		page := probe.Decode[api.RunEventPage](t, t.Get(runPath(id)+"/events"+query))
		t.Equal("hasMore", page.HasMore, page.NextCursor != nil)
		all = append(all, page.Data...)
		if page.NextCursor == nil {
			break
		}
		query = "?limit=100&cursor=" + *page.NextCursor
	}
	for i, e := range all {
		t.Equal("seq", e.Seq, int64(i+1))
	}
	return all
}

func plain(events []runEvent) (all []api.RunEvent) {
	for _, e := range events {
		all = append(all, e.RunEvent)
	}
	return all
}

func runStreamed(t *probe.Trial) {
	g := newGates(t)
	id := draw(t, []object{g.at("a"), g.at("b"), set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000}), use("after", "RANDOM_UUID")},
		[]string{"start next a", "a next b", "start next wait", "b next after", "wait next after"})
	run := begin(t, id, nil)
	g.waitFor("a")
	stream := openRun(t, run, nil)
	t.Equal("Cache-Control", stream.Header.Get("Cache-Control"), "no-store, no-transform")
	first := stream.next()
	t.Check(first.Status == "EXECUTING" && first.out.PendingStageCount == 2 && first.out.FailedStageCount == 0 && first.out.TotalUsage == 0, "%s", first.Data)
	t.Check(strings.Contains(first.Data, `"cancelRequestedAt":null`) && strings.Contains(first.Data, `"cancelReason":null`), "%s", first.Data)
	under := record(t, run)
	byModule := map[string]api.NonTerminalStage{}
	for _, stage := range first.out.NonTerminalStages {
		byModule[stage.Module] = stage
	}
	a, waits := stageOf(t, under, "a"), stageOf(t, under, "wait")
	t.Check(len(byModule) == 2 && byModule["API_CALL"].ID == a.ID && *byModule["API_CALL"].ExecutionEventID == *a.ExecutionEventID, "%s", first.Data)
	t.Check(byModule["WAIT_FOR_SIGNAL"].ID == waits.ID && byModule["WAIT_FOR_SIGNAL"].ExecutionEventID == nil, "%s", first.Data)
	g.open("a")
	completes := time.Now()
	second := stream.next() // as the stage completes
	t.Soon(time.Since(completes), prompt, "the event of a stage came %v after its end", time.Since(completes))
	t.Check(second.Seq == first.Seq+1 && second.out.TotalUsage == 2_000_000 && second.out.PendingStageCount == 2, "%s", second.Data)
	t.Check(strings.Contains(second.Data, stageOf(t, record(t, run), "b").ID.String()), "%s", second.Data)
	g.open("b")
	signal(t, run, "go", nil)
	over := time.Now()
	events := append([]runEvent{first, second}, stream.rest()...)
	t.Soon(time.Since(over), prompt, "the stream ended %v after the run", time.Since(over))
	last := events[len(events)-1]
	end := finished(t, run, "COMPLETED")
	t.Check(last.Status == "COMPLETED" && last.out.TotalUsage == end.TotalUsage && last.out.PendingStageCount == 0 && len(last.out.NonTerminalStages) == 0, "%s", last.Data)
	t.Equal("timestamp", last.Timestamp, end.UpdatedAt)
	for i, e := range events[1:] {
		t.Check(e.Seq == events[i].Seq+1 && notBefore(e.Timestamp, events[i].Timestamp) && !events[i].Status.Terminal(), "%s after %s", e.Data, events[i].Data)
	}
	log := logOf(t, run)
	same(t, "the log", log[len(log)-len(events):], plain(events))
}

func runStreamCompleted(t *probe.Trial) {
	run := ran(t, draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"}), "COMPLETED", nil)
	began := time.Now()
	events := openRun(t, run.ID.String(), nil).rest()
	t.Soon(time.Since(began), 5*time.Second, "it took %v", time.Since(began))
	t.Check(len(events) == 1 && events[0].Status == "COMPLETED" && events[0].out.TotalUsage == run.TotalUsage && run.TotalUsage > 0, "%+v", events)
	t.Check(strings.Contains(events[0].Data, `"totalUsage":1`), "%s", events[0].Data)
}

func runStreamFailed(t *probe.Trial) {
	run := finished(t, begin(t, rich(t), object{"items": []int{1}}), "FAILED")
	for _, header := range []http.Header{nil, after(1 << 40)} {
		events := openRun(t, run.ID.String(), header).rest()
		t.Check(len(events) == 1 && events[0].Status == "FAILED" && events[0].out.FailedStageCount == run.FailedStageCount, "%+v", events)
		same(t, "error", events[0].Error, run.Error)
		t.Check(strings.Contains(events[0].Data, `"failedStageCount":2`), "%s", events[0].Data)
	}
	log := logOf(t, run.ID.String())
	same(t, "error in the log", log[len(log)-1].Error, run.Error)
}

func runStreamOver(t *probe.Trial) {
	run := ran(t, draw(t, []object{use("id", "RANDOM_UUID")}, []string{"start next id"}), "COMPLETED", nil).ID.String()
	log := logOf(t, run)
	last := log[len(log)-1].Seq
	stream := probe.Request{Path: runPath(run) + "/stream", Header: after(last)}
	ended := t.Do(stream)
	t.Equal("status", ended.Status, http.StatusNoContent)
	t.Equal("body", string(ended.Body), "")
	stream.Path += "?after=0" // the header counts
	t.Equal("status", t.Do(stream).Status, http.StatusNoContent)
	t.Equal("events after the one before", len(openRun(t, run, after(last-1)).rest()), 1)
	head := probe.Request{Method: http.MethodHead, Path: runPath(run) + "/stream"}
	t.Equal("status of HEAD", t.Do(head).Status, http.StatusOK)
	head.Header = after(last)
	t.Equal("status of HEAD", t.Do(head).Status, http.StatusNoContent)
	head.Path = runPath(run)
	t.Equal("status of HEAD", t.Do(head).Status, http.StatusOK)
}

// runStreamAgain reconnects while no event occurs.
func runStreamAgain(t *probe.Trial) {
	id := begin(t, draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"}), nil)
	eventually(t, id, "waiting", func(run api.WorkflowRun) bool { return run.PendingStageCount == 1 })
	stream := openRun(t, id, nil)
	first := stream.next()
	stream.Close() // in the middle
	tardy := tardiness(t)
	for _, again := range []*runStream{openRun(t, id, nil), openRun(t, id, after(first.Seq)), openAt(t, id, "?after="+first.SSE, nil), openAt(t, id, "?after=0", after(first.Seq)), openRun(t, id, after(first.Seq+5))} {
		began := time.Now()
		e := again.next()
		t.Check(e.Data == first.Data && time.Since(began) < t.Limit(2*time.Second+tardy()), "the present state is %s, %v later", e.Data, time.Since(began))
		again.Close()
	}
	listening := openRun(t, id, after(first.Seq))
	listening.next()
	signal(t, id, "go", nil)
	events := listening.rest()
	t.Check(len(events) == 1 && events[0].Seq == first.Seq+1 && events[0].Status == "COMPLETED", "%+v", events)
	for query, want := range map[string]int{"?after=0": int(first.Seq) + 1, "?after=" + first.SSE: 1, "?after=" + events[0].SSE: 1} {
		t.Equal("events of a run that is over, "+query, len(openAt(t, id, query, nil).rest()), want)
	}
}

// runStreamCut opens a hundred connections one after the other. On each connection it reads one
// event and disconnects. The next connection resumes after that event.
func runStreamCut(t *probe.Trial) {
	id := begin(t, draw(t, []object{set("loop", "FOR_EACH", object{"concurrency": 1}), set("pause", "DELAY", object{"durationMs": 5})}, []string{"start next loop", "loop each pause"},
		"start.items loop.items"), object{"items": make([]int, 130)})
	var got []api.RunEvent
	var last int64
	take := func(e runEvent) {
		switch {
		case e.Seq == last: // nothing has happened since: the present state, under the same id
			same(t, "the same event", e.RunEvent, got[len(got)-1])
		default:
			t.Equal("the next event", e.Seq, last+1)
			got, last = append(got, e.RunEvent), e.Seq
		}
	}
	for cut := 0; cut < 100 || last < 90; cut++ {
		stream := openAt(t, id, fmt.Sprintf("?after=%d", last), nil)
		if cut%2 == 0 {
			stream.Close()
			stream = openRun(t, id, after(last))
		}
		e, ok := stream.more()
		t.Check(ok, "the stream ended without an event")
		if e.Seq == 0 {
			stream.Close()
			continue
		}
		take(e)
		stream.Close()
	}
	for _, e := range openRun(t, id, after(last)).rest() {
		take(e)
	}
	t.Equal("status", string(got[len(got)-1].Status), "COMPLETED")
	same(t, "what was heard, against the log", got, logOf(t, id))
	t.Check(len(got) > 100, "%d events", len(got))
}

func runEvents(t *probe.Trial) {
	run := finished(t, begin(t, rich(t), object{"items": []int{1}}), "FAILED").ID.String()
	all := logOf(t, run)
	t.Check(len(all) >= 2 && all[0].Status == "EXECUTING" && all[len(all)-1].Status == "FAILED", "%s", t.JSON(all))
	for _, e := range all {
		var out map[string]json.RawMessage
		t.NoError("output", json.Unmarshal(e.Output, &out))
		for _, member := range []string{"totalUsage", "pendingStageCount", "failedStageCount", "cancelRequestedAt", "cancelReason", "nonTerminalStages"} {
			t.Check(out[member] != nil, "no %s in %s", member, e.Output)
		}
	}
	page := func(query string) api.RunEventPage {
		return probe.Decode[api.RunEventPage](t, t.Get(runPath(run)+"/events"+query))
	}
	same(t, "after the first", page("?after=1").Data, all[1:])
	same(t, "after the last", page(fmt.Sprintf("?after=%d", len(all))).Data, []int{})
	first := page("?limit=1")
	t.Check(first.HasMore && len(first.Data) == 1, "%+v", first)
	same(t, "the next page", page("?limit=100&cursor="+*first.NextCursor).Data, all[1:])
}

func runStreamFrames(t *probe.Trial) {
	hostile := "a\nb\r\nc\u2028data: x\n\nid: 9\n\n"
	run := ran(t, draw(t, []object{set("end", "FAIL", object{"message": hostile})}, []string{"start next end"}), "FAILED", nil)
	conn := t.Dial()
	t.NoError("deadline", conn.SetDeadline(time.Now().Add(t.Limit(20*time.Second))))
	_, err := conn.Write([]byte(t.Head(http.MethodGet, runPath(run.ID.String())+"/stream", nil) + "\r\n"))
	t.NoError("write", err)
	answer, err := probe.ReadAnswer(conn)
	t.NoError("read", err)
	t.Equal("Content-Type", strings.Split(answer.Header.Get("Content-Type"), ";")[0], "text/event-stream")
	lines := strings.Split(string(answer.Body), "\n")
	t.Check(len(lines) == 4 && lines[2] == "" && lines[3] == "", "a frame of these lines: %q", lines)
	id, isID := strings.CutPrefix(lines[0], "id: ")
	data, isData := strings.CutPrefix(lines[1], "data: ")
	t.Check(isID && isData && strings.HasPrefix(data, "{") && strings.HasSuffix(data, "}"), "%q", lines)
	var event api.RunEvent
	t.NoError("data", json.Unmarshal([]byte(data), &event))
	t.Equal("id:", id, strconv.FormatInt(event.Seq, 10))
	t.Equal("message", runError(t, event.Error).Message, hostile)
}

func runStreamRefused(t *probe.Trial) {
	const nobodys = "0193f1c0-0000-7000-8000-000000000006"
	accept := http.Header{"Accept": {"text/event-stream"}}
	t.Problem(t.Do(probe.Request{Path: runPath(nobodys) + "/stream", Header: accept}), http.StatusNotFound, "NOT_FOUND")
	run := ran(t, draw(t, nil, nil), "COMPLETED", nil).ID.String()
	for _, query := range []string{"?after=x", "?after=-1"} {
		p := t.Problem(t.Get(runPath(run)+"/stream"+query), http.StatusBadRequest, "INVALID_INPUT")
		t.Equal("pointers", probe.Pointers(p)[0], "/query/after")
	}
	p := t.Problem(t.Do(probe.Request{Path: runPath(run) + "/stream", Header: http.Header{"Last-Event-Id": {"x"}}}), http.StatusBadRequest, "INVALID_INPUT")
	t.Equal("pointers", probe.Pointers(p)[0], "/header/Last-Event-ID")
	t.Problem(t.Do(probe.Request{Path: runPath(run) + "/stream", Unsigned: true}), http.StatusUnauthorized, "UNAUTHORIZED")
}

func runHeartbeat(t *probe.Trial) {
	id := begin(t, draw(t, []object{set("wait", "WAIT_FOR_SIGNAL", object{"name": "go", "timeoutMs": 60_000})}, []string{"start next wait"}), nil)
	eventually(t, id, "waiting", func(run api.WorkflowRun) bool { return run.PendingStageCount == 1 })
	tardy := tardiness(t)
	start := time.Now()
	stream := openRun(t, id, nil)
	stream.next()
	opened := time.Now()
	end := sync.OnceFunc(func() { _ = probe.Caught(func() { signal(t, id, "go", nil) }) })
	stream.Pinged = end
	timer := time.AfterFunc(t.Limit(15*time.Second+1500*time.Millisecond), end)
	defer timer.Stop()
	stream.rest()
	t.Equal("pings", len(stream.Pings), 1)
	ping := stream.Pings[0]
	t.Check(ping.Sub(start) >= 15*time.Second && ping.Sub(opened) <= t.Limit(16*time.Second+tardy()), "the ping came after %v", ping.Sub(opened))
}
