// Package sse writes server-sent events: frames, heartbeats, and the end of a stream.
//
// A stream gets only whole frames, each in one write and flush. No payload can start a second frame
// or a second field.
package sse

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Event is one message. Data is JSON; Name and ID may be empty.
type Event struct {
	Name, ID string
	Data     []byte
}

// Source is the source of a stream's events: a channel of values, and the function that encodes
// each value. An error of EncodeFunc ends the stream.
type Source[T any] struct {
	Events     <-chan T
	EncodeFunc func(T) (Event, error)

	// HoldFunc counts the bytes of an event until release is called. If it returns an error, the
	// stream ends. It may be nil.
	HoldFunc func(bytes int) (release func(), err error)
}

// Options of a stream. Zero times mean the defaults.
type Options struct {
	Heartbeat    time.Duration // between two :ping comments; 15 s (contract 8.6)
	WriteTimeout time.Duration // for writing one frame; 10 s

	// Drain, when closed, ends the stream with ErrDraining after a random time of at most
	// DrainSpread, so that the clients don't all reconnect at once.
	Drain       <-chan struct{}
	DrainSpread time.Duration
}

// ErrDraining is the error of a stream that ended because of Options.Drain.
var ErrDraining = errors.New("the process is stopping")

func (o Options) heartbeat() time.Duration    { return cmp.Or(o.Heartbeat, 15*time.Second) }
func (o Options) writeTimeout() time.Duration { return cmp.Or(o.WriteTimeout, 10*time.Second) }

// heartbeat is the comment of contract 6.1.
var heartbeat = []byte(":ping\n\n")

// Serve responds with status 200 and the events of a channel. It returns nil when the channel is
// closed, the cause when ctx is done, or the error of a write that failed or timed out. The
// header is sent at once. A heartbeat is sent at every interval, even if events are sent. After
// an error the connection is unusable, and nothing may be written to w. The connection always
// closes with the stream.
//
// Serve uses http.ResponseController, so a ResponseWriter that wraps another one needs the method
// Unwrap.
func Serve(ctx context.Context, w http.ResponseWriter, events <-chan Event, opts Options) error {
	unchanged := func(event Event) (Event, error) { return event, nil }
	SetHeader(w.Header())
	return serve(ctx, w, Source[Event]{Events: events, EncodeFunc: unchanged}, opts)
}

func serve[T any](ctx context.Context, w http.ResponseWriter, source Source[T], opts Options) error {
	to := &attached{w: w, control: http.NewResponseController(w), timeout: opts.writeTimeout()}
	out := &stream{sink: to, failed: make(chan struct{})}
	w.WriteHeader(http.StatusOK)
	if err := out.write(nil); err != nil {
		return err
	}
	out.startHeartbeat(opts.heartbeat())
	err := loop(ctx, out, source, opts)
	out.stopHeartbeat()
	if errors.Is(err, errFinished) {
		return nil
	}
	return err
}

// errFinished means that all events of the stream were sent.
var errFinished = errors.New("finished")

// loop writes events until the stream ends for one of the reasons of Serve, or until the stream
// fails.
//
// Its frame and its select are small: with a timer among the channels, the stack of the goroutine
// would be twice as large, which is kilobytes for each stream.
func loop[T any](ctx context.Context, out *stream, source Source[T], opts Options) error {
	drain, drained := opts.Drain, false
	for {
		var err error
		select {
		case item, open := <-source.Events:
			err = forward(out, source, item, open)
		case <-drain:
			if drained {
				return ErrDraining
			}
			drain, drained = soon(opts.DrainSpread), true
		case <-out.failed:
			err = out.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// soon returns a channel that is closed after a random time of at most spread.
func soon(spread time.Duration) <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(rand.N(spread+1), func() { close(over) }) //nolint:gosec // only spreads load
	return over
}

// forward writes the event that was received from the channel, or returns errFinished if the channel is closed.
func forward[T any](out *stream, source Source[T], item T, open bool) error {
	if !open {
		return errFinished
	}
	event, err := source.EncodeFunc(item)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	if source.HoldFunc != nil {
		release, err := source.HoldFunc(len(event.Data))
		if err != nil {
			return err
		}
		defer release()
	}
	return send(out, event)
}

// SetHeader sets the headers of an event stream. It sets Connection: close because the contract
// says "the connection then closes", even if the client would keep the connection.
func SetHeader(header http.Header) {
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no")
	header.Set("Connection", "close")
}

// frames is a pool of buffers for building frames, so that an idle stream holds none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// keepFrame is the largest buffer that is returned to the pool.
const keepFrame = 16 << 10

func send(out *stream, event Event) error {
	frame, _ := frames.Get().(*[]byte)
	*frame = AppendFrame((*frame)[:0], event)
	err := out.write(*frame)
	if cap(*frame) <= keepFrame {
		frames.Put(frame)
	}
	return err
}

// attached is a response that the HTTP server still manages.
type attached struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// writeFrame writes and flushes text, both within the timeout.
func (a *attached) writeFrame(text []byte) error {
	if err := a.control.SetWriteDeadline(time.Now().Add(a.timeout)); err != nil {
		return fmt.Errorf("set write deadline of event stream: %w", err)
	}
	if len(text) > 0 {
		if _, err := a.w.Write(text); err != nil {
			return fmt.Errorf("write event stream: %w", err)
		}
	}
	if err := a.control.Flush(); err != nil {
		return fmt.Errorf("flush event stream: %w", err)
	}
	return nil
}

// AppendFrame appends the frame of an event to dst: each field on its own line, and an empty
// line. In JSON, a line break can only occur between two tokens, where it is equivalent to a
// blank.
func AppendFrame(dst []byte, event Event) []byte {
	if event.Name != "" {
		dst = appendField(dst, "event: ", event.Name)
	}
	if event.ID != "" {
		dst = appendField(dst, "id: ", event.ID)
	}
	dst = append(dst, "data: "...)
	start := len(dst)
	dst = append(dst, event.Data...)
	oneLine(dst[start:])
	return append(dst, "\n\n"...)
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	start := len(dst)
	dst = append(dst, value...)
	oneLine(dst[start:])
	return append(dst, '\n')
}

// oneLine replaces LF and CR with blanks. They are the only line breaks of an event stream.
func oneLine(text []byte) {
	for {
		at := bytes.IndexAny(text, "\r\n")
		if at < 0 {
			return
		}
		text[at] = ' '
		text = text[at+1:]
	}
}
