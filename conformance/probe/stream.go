package probe

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
)

// Stream is an open event stream.
type Stream struct {
	t         *Trial
	operation *Operation
	body      io.Closer
	lines     *bufio.Reader
	Header    http.Header
	Pings     []time.Time // the time of each `:ping`
	Pinged    func()      // called after each `:ping`, if it is set
}

// Event is one event of a stream.
type Event struct {
	Name   string // of the `event:` field; "" is an unnamed event
	LastID string // of the `id:` field, which the client sends when it reconnects
	Data   []byte
	api.ComponentExecutionEvent
}

// Stream opens the stream of an execution. It is closed at the end of the trial.
func (t *Trial) Stream(executionID string) *Stream {
	return t.StreamOf(Request{Path: Execution(executionID) + "/stream"})
}

// StreamOf opens any stream. Another response fails the case.
func (t *Trial) StreamOf(r Request) *Stream {
	r = r.identified()
	x, err := t.send(t.ctx, r)
	t.NoError(r.name(), err)
	operation, response := x.operation, x.response
	t.Cleanup(func() { response.Body.Close() })
	t.target.Spec.note(operation, answered(operation, response, nil))
	if response.StatusCode != http.StatusOK {
		t.busy(x.refused)
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: got %d, want a stream: %s", r.name(), response.StatusCode, body)
	}
	t.NoError(r.name(), t.judge(operation, r, answered(operation, response, nil)))
	return &Stream{t: t, operation: operation, body: response.Body, lines: bufio.NewReader(response.Body), Header: response.Header}
}

// Close closes the connection.
func (s *Stream) Close() { s.body.Close() }

// Next waits for the next event, and returns false after the stream was closed properly.
// An event that does not match the document, a malformed line, or a stream that ends
// inside an event fails the case.
func (s *Stream) Next() (Event, bool) {
	var event Event
	var data []string
	for fields := 0; ; {
		line, err := s.lines.ReadString('\n')
		if err == io.EOF && line == "" && fields == 0 {
			return Event{}, false
		}
		s.t.NoError("read the stream", err)
		line = strings.TrimSuffix(line, "\n")
		s.t.Check(!strings.Contains(line, "\r"), "a carriage return in the stream: %q", line)
		name, value, colon := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != nil:
			event.Data = []byte(strings.Join(data, "\n"))
			s.t.Check(len(data) == 1, "an event of %d data lines", len(data))
			s.t.NoError("event", s.t.target.Spec.checkEvent(s.operation, event.Data))
			s.t.NoError("event", json.Unmarshal(event.Data, &event.ComponentExecutionEvent))
			return event, true
		case line == "":
			fields = 0
		case name == "":
			s.t.Equal("comment", line, ":ping")
			s.Pings = append(s.Pings, time.Now())
			if s.Pinged != nil {
				s.Pinged()
			}
		case !colon:
			s.t.Fatalf("a line without a colon: %q", line)
		case name == "data":
			fields, data = fields+1, append(data, value)
		case name == "event":
			fields, event.Name = fields+1, value
		case name == "id":
			fields, event.LastID = fields+1, value
		case name == "retry":
			fields++
		default:
			s.t.Fatalf("an unknown field: %q", line)
		}
	}
}

// Rest reads the stream to its end.
func (s *Stream) Rest() []Event {
	var all []Event
	for {
		event, ok := s.Next()
		if !ok {
			return all
		}
		all = append(all, event)
	}
}
