package sse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/platform/sse"
)

// detached serves events with Detach. It returns the server, and a channel with the result of the stream.
func detached(t *testing.T, ctx context.Context, events <-chan string, opts sse.Options) (*httptest.Server, <-chan error) {
	t.Helper()
	ended, returned := make(chan error, 1), make(chan struct{}, 1)
	encode := func(text string) (sse.Event, error) {
		if text == "bad" {
			return sse.Event{}, errors.New("bad event")
		}
		return sse.Event{Data: []byte(text)}, nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r-1")
		sse.Detach(ctx, wrapped{w}, sse.Source[string]{Events: events, EncodeFunc: encode}, opts, func(err error) { ended <- err })
		returned <- struct{}{}
	}))
	t.Cleanup(func() {
		<-returned // the handler must return before the stream ends
		server.Close()
	})
	return server, ended
}

func await(t *testing.T, ended <-chan error) error {
	t.Helper()
	return waittest.Receive(t, "the end of the stream", ended)
}

func TestDetachedStreamSendsWhatServeDoes(t *testing.T) {
	events := make(chan string, 1)
	events <- `{"n":1}`
	server, ended := detached(t, t.Context(), events, sse.Options{Heartbeat: 200 * time.Millisecond})
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no", "X-Request-Id": "r-1",
	} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, err := http.ParseTime(response.Header.Get("Date")); err != nil || !response.Close {
		t.Errorf("Date %q, close %v", response.Header.Get("Date"), response.Close)
	}
	lines := bufio.NewScanner(response.Body)
	for i, want := range []string{`data: {"n":1}`, "", ":ping", "", `data: {"n":2}`, ""} {
		came := lines.Scan()
		for i == 4 && lines.Text() == ":ping" { // there may be more on a busy machine
			lines.Scan() // the empty line after the event
			came = lines.Scan()
		}
		if !came || lines.Text() != want {
			t.Fatalf("line %q, want %q", lines.Text(), want)
		}
		if want == ":ping" {
			events <- `{"n":2}`
			close(events)
		}
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
	}
	if err := await(t, ended); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestDetachedStreamOfAClosedChannelEndsAtOnce(t *testing.T) {
	events := make(chan string, 2)
	events <- `{"n":1}`
	events <- `{"n":2}`
	close(events)
	server, ended := detached(t, t.Context(), events, sse.Options{})
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "data: {\"n\":1}\n\ndata: {\"n\":2}\n\n" {
		t.Errorf("%q, %v", body, err)
	}
	if err := await(t, ended); err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestDetachedStreamEnds(t *testing.T) {
	revoked := errors.New("revoked")
	cases := []struct {
		name string
		want error
		do   func(cancel context.CancelCauseFunc, drain chan struct{}, conn net.Conn)
	}{
		{"with its context", revoked, func(cancel context.CancelCauseFunc, _ chan struct{}, _ net.Conn) { cancel(revoked) }},
		{"with its process", sse.ErrDraining, func(_ context.CancelCauseFunc, drain chan struct{}, _ net.Conn) { close(drain) }},
		{"with its client", sse.ErrGone, func(_ context.CancelCauseFunc, _ chan struct{}, conn net.Conn) { conn.Close() }},
		{"when the client half-closes", sse.ErrGone, func(_ context.CancelCauseFunc, _ chan struct{}, conn net.Conn) {
			_ = conn.(*net.TCPConn).CloseWrite()
		}},
		{"when the client goes on sending", sse.ErrGone, func(_ context.CancelCauseFunc, _ chan struct{}, conn net.Conn) {
			_, _ = io.WriteString(conn, strings.Repeat("x", 1<<20))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			drain := make(chan struct{})
			server, ended := detached(t, ctx, make(chan string), sse.Options{Drain: drain, DrainSpread: 50 * time.Millisecond})
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			c.do(cancel, drain, conn)
			if err := await(t, ended); !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			_ = conn.SetReadDeadline(waittest.Deadline(t))
			if n, err := io.Copy(io.Discard, conn); isTimeout(err) || n > 0 {
				t.Errorf("afterwards the client reads %d bytes, %v", n, err)
			}
		})
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// A source that always has another event, such as a long log, must not delay the shutdown of the
// process, or the end of a stream whose key is revoked.
func TestDetachedStreamEndsDespiteEndlessEvents(t *testing.T) {
	revoked := errors.New("revoked")
	over := make(chan struct{})
	close(over)
	for name, c := range map[string]struct {
		cause error
		opts  sse.Options
		want  error
	}{
		"with its context": {revoked, sse.Options{}, revoked},
		"with its process": {nil, sse.Options{Drain: over}, sse.ErrDraining},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.cause != nil {
				cancel(c.cause)
			}
			events, sent := make(chan int, 1), 0
			events <- 1
			source := sse.Source[int]{Events: events, EncodeFunc: func(n int) (sse.Event, error) {
				if sent++; sent == 10_000 {
					return sse.Event{}, errors.New("the stream did not end")
				}
				events <- n
				return sse.Event{Data: []byte("{}")}, nil
			}}
			ended := make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				sse.Detach(ctx, w, source, c.opts, func(err error) { ended <- err })
			}))
			defer server.Close()
			response, err := http.Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			if err := await(t, ended); !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
		})
	}
}

func TestDetachedStreamEndsWhenAnEventCannotBeEncoded(t *testing.T) {
	events := make(chan string)
	server, ended := detached(t, t.Context(), events, sse.Options{})
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events <- "bad"
	if err := await(t, ended); err == nil || !strings.Contains(err.Error(), "bad event") {
		t.Errorf("ended with %v", err)
	}
}

func TestDetachBlocksIfTheConnectionCannotBeHijacked(t *testing.T) {
	w := &recorder{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
	events := make(chan string, 1)
	events <- "{}"
	close(events)
	encode := func(text string) (sse.Event, error) { return sse.Event{Data: []byte(text)}, nil }
	done := false
	sse.Detach(t.Context(), w, sse.Source[string]{Events: events, EncodeFunc: encode}, sse.Options{}, func(err error) { done = err == nil })
	if !done || len(w.flushed) != 2 || w.flushed[1].text != "data: {}\n\n" {
		t.Errorf("done %v, flushed %v", done, w.flushed)
	}
}

// put is a wrapped connection.
type put struct {
	*net.TCPConn
	writes atomic.Int64
}

func (p *put) Unwrap() net.Conn { return p.TCPConn }

func (p *put) Write(text []byte) (int, error) {
	p.writes.Add(1)
	return p.TCPConn.Write(text)
}

type putting struct {
	net.Listener
	puts chan *put
}

func (l putting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &put{TCPConn: conn.(*net.TCPConn)}
	l.puts <- p
	return p, nil
}

func TestDetachedStreamUsesTheUnwrappedConnection(t *testing.T) {
	events := make(chan sse.Event, 1)
	events <- sse.Event{Data: []byte("{}")}
	close(events)
	asItIs := func(event sse.Event) (sse.Event, error) { return event, nil }
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sse.Detach(t.Context(), w, sse.Source[sse.Event]{Events: events, EncodeFunc: asItIs}, sse.Options{}, func(error) {})
	}))
	puts := make(chan *put, 1)
	server.Listener = putting{server.Listener, puts}
	server.Start()
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "data: {}\n\n" {
		t.Errorf("%q, %v", body, err)
	}
	if n := (<-puts).writes.Load(); n != 0 {
		t.Errorf("%d writes went through the wrapper", n)
	}
}
