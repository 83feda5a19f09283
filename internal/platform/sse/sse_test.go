package sse_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a ResponseRecorder that accepts write deadlines and records each flush.
type recorder struct {
	*httptest.ResponseRecorder
	flushed []flush
	start   time.Time
}

type flush struct {
	after time.Duration
	text  string
}

func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

func (r *recorder) FlushError() error {
	r.flushed = append(r.flushed, flush{time.Since(r.start), r.Body.String()})
	r.Body.Reset()
	return nil
}

func TestSS02HeartbeatEveryFifteenSecondsAndFramesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &recorder{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
		events := make(chan sse.Event)
		go func() {
			time.Sleep(20 * time.Second) // virtual
			events <- sse.Event{Name: "progress", Data: []byte(`{"status":"EXECUTING"}`)}
			time.Sleep(29 * time.Second) // virtual
			events <- sse.Event{ID: "7", Data: []byte(`{"status":"COMPLETED"}`)}
			close(events)
		}()
		if err := sse.Serve(t.Context(), w, events, sse.Options{}); err != nil {
			t.Fatal(err)
		}
		want := []flush{
			{0, ""},
			{15 * time.Second, ":ping\n\n"},
			{20 * time.Second, "event: progress\ndata: {\"status\":\"EXECUTING\"}\n\n"},
			{30 * time.Second, ":ping\n\n"},
			{45 * time.Second, ":ping\n\n"},
			{49 * time.Second, "id: 7\ndata: {\"status\":\"COMPLETED\"}\n\n"},
		}
		if len(w.flushed) != len(want) {
			t.Fatalf("%d flushes: %v", len(w.flushed), w.flushed)
		}
		for i := range want {
			if w.flushed[i] != want[i] {
				t.Errorf("flush %d: %v, want %v", i, w.flushed[i], want[i])
			}
		}
		for name, value := range map[string]string{
			"Content-Type":      "text/event-stream",
			"Cache-Control":     "no-store, no-transform",
			"X-Accel-Buffering": "no",
		} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %q", name, got)
			}
		}
	})
}

func TestStreamEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &recorder{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
		ctx, cancel := context.WithCancelCause(t.Context())
		revoked := errors.New("key revoked")
		time.AfterFunc(4*time.Second, func() { cancel(revoked) })
		if err := sse.Serve(ctx, w, make(chan sse.Event), sse.Options{}); !errors.Is(err, revoked) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// wrapped hides all methods of a writer except Unwrap, like some middleware.
type wrapped struct{ inner http.ResponseWriter }

func (w wrapped) Header() http.Header         { return w.inner.Header() }
func (w wrapped) Write(b []byte) (int, error) { return w.inner.Write(b) }
func (w wrapped) WriteHeader(status int)      { w.inner.WriteHeader(status) }
func (w wrapped) Unwrap() http.ResponseWriter { return w.inner }

func TestHeaderIsSentBeforeTheFirstEventAndTheConnectionCloses(t *testing.T) {
	events := make(chan sse.Event)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = sse.Serve(r.Context(), wrapped{w}, events, sse.Options{})
	}))
	defer server.Close()
	response, err := http.Get(server.URL) // returns with the header; no event was sent yet
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if !response.Close {
		t.Error("the connection would be reused")
	}
	events <- sse.Event{Data: []byte(`{"n":1}`)}
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || line != "data: {\"n\":1}\n" {
		t.Errorf("line %q, %v", line, err)
	}
	close(events)
	if rest, err := io.ReadAll(response.Body); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("after the end: %q, %v", rest, err)
	}
}

func TestSS05StalledReaderIsDisconnectedAtTheWriteTimeout(t *testing.T) {
	asItIs := func(event sse.Event) (sse.Event, error) { return event, nil }
	ways := map[string]func(context.Context, http.ResponseWriter, <-chan sse.Event, sse.Options, func(error)){
		"serve": func(ctx context.Context, w http.ResponseWriter, events <-chan sse.Event, opts sse.Options, ended func(error)) {
			ended(sse.Serve(ctx, w, events, opts))
		},
		"detach": func(_ context.Context, w http.ResponseWriter, events <-chan sse.Event, opts sse.Options, ended func(error)) {
			sse.Detach(context.Background(), w, sse.Source[sse.Event]{Events: events, EncodeFunc: asItIs}, opts, ended)
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) { stall(t, way) })
	}
}

func stall(t *testing.T, way func(context.Context, http.ResponseWriter, <-chan sse.Event, sse.Options, func(error))) {
	const timeout = 300 * time.Millisecond
	type outcome struct {
		err   error
		after time.Duration
	}
	ended := make(chan outcome, 1)
	data, _ := json.Marshal(strings.Repeat("x", 16<<10))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events, stop := make(chan sse.Event), make(chan struct{})
		var taken atomic.Pointer[time.Time]
		go func() {
			for {
				select {
				case events <- sse.Event{Data: data}:
					taken.Store(new(time.Now()))
				case <-stop:
					return
				}
			}
		}()
		way(r.Context(), w, events, sse.Options{WriteTimeout: timeout}, func(err error) {
			close(stop)
			ended <- outcome{err, time.Since(*taken.Load())}
		})
	}))
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
		return ctx
	}
	server.Start()
	defer server.Close()

	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(2 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got := waittest.Receive(t, "the end of the stalled stream", ended)
	if !errors.Is(got.err, os.ErrDeadlineExceeded) {
		t.Errorf("ended with %v, want a deadline", got.err)
	}
	// A stream holds only the current frame, so the blocked write started right after the last
	// event was received. If the stream held more frames, each write would restart the timeout.
	if waittest.Timed() && got.after > 30*timeout {
		t.Errorf("disconnected %v after the last event was taken", got.after)
	}
}

func TestSS11NoPayloadStartsAnotherFrame(t *testing.T) {
	long, _ := json.Marshal(strings.Repeat("é\u2028\n", 200_000))
	cases := []struct{ name, data string }{
		{"escaped line breaks", `{"a":"1\n\ndata: {}\r\n\r\n"}`},
		{"line and paragraph separator", "{\"a\":\"\u2028\u2029\"}"},
		{"pretty-printed", "{\n  \"a\": 1,\r\n  \"b\": [\r1\n]\n}"},
		{"a megabyte", string(long)},
		{"colon first", `":ping"`},
		{"blank first", ` {"a":1}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			frames := parse(t, sse.AppendFrame(nil, sse.Event{Name: "progress", ID: "1", Data: []byte(c.data)}))
			if len(frames) != 1 || frames[0].Name != "progress" || frames[0].ID != "1" {
				t.Fatalf("%d frames: %.200q", len(frames), frames)
			}
			var got, want any
			if err := json.Unmarshal(frames[0].Data, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.data), &want); err != nil {
				t.Fatal(err)
			}
			gotText, _ := json.Marshal(got)
			wantText, _ := json.Marshal(want)
			if !bytes.Equal(gotText, wantText) {
				t.Errorf("%.100s, want %.100s", gotText, wantText)
			}
		})
	}
}

func FuzzSS11Frames(f *testing.F) {
	f.Add("progress", "1", []byte(`{"a":1}`))
	f.Add("a\ndata: x", "1\r\n\r\n", []byte("\n\ndata: {}\n\n"))
	f.Fuzz(func(t *testing.T, name, id string, data []byte) {
		frame := sse.AppendFrame(nil, sse.Event{Name: name, ID: id, Data: data})
		lines := 1
		if name != "" {
			lines++
		}
		if id != "" {
			lines++
		}
		if got := bytes.Count(frame, []byte("\n")); got != lines+1 || bytes.Contains(frame, []byte("\r")) {
			t.Fatalf("%d line breaks in %q", got, frame)
		}
		if frames := parse(t, frame); len(frames) != 1 || len(frames[0].Data) != len(data) {
			t.Errorf("%q reads as %q", frame, frames)
		}
	})
}

// parse parses an event stream according to the HTML standard. It fails on fields that the
// service doesn't send.
func parse(t *testing.T, text []byte) []sse.Event {
	t.Helper()
	var events []sse.Event
	var event sse.Event
	some := false
	normal := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text))
	for line := range strings.SplitSeq(normal, "\n") {
		if line == "" {
			if some {
				events = append(events, event)
			}
			event, some = sse.Event{}, false
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
		case "event":
			event.Name = value
		case "id":
			event.ID = value
		case "data":
			if some {
				t.Fatalf("two data lines in one frame: %q", text)
			}
			event.Data, some = []byte(value), true
		default:
			t.Fatalf("unknown field %q", field)
		}
	}
	return events
}
