// Package sse writes server-sent events: frames, heartbeats, and the end of a stream.
//
// Reading them is the client's business. It knows nothing of what events say. The one invariant: a
// stream gets whole frames only, each in one write and flush, and no payload can start a second
// frame or a second field.
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

// Event is one message. Data is JSON text; Name and ID may be empty.
type Event struct {
	Name, ID string
	Data     []byte
}

// Source is where a stream's events come from: values over a channel, and how
// each is written. An error of EncodeFunc ends the stream.
type Source[T any] struct {
	Events     <-chan T
	EncodeFunc func(T) (Event, error)

	// HoldFunc counts the bytes of an event until release is called. Its error ends the
	// stream. nil counts nothing.
	HoldFunc func(bytes int) (release func(), err error)
}

// Options of a stream; a zero time means the default.
type Options struct {
	Heartbeat    time.Duration // between two :ping comments; 15 s (contract 8.6)
	WriteTimeout time.Duration // for one frame to a client that does not read; 10 s

	// Drain, when closed, ends the stream with ErrDraining, at a random moment
	// within DrainSpread, so that the clients do not all come back at once.
	Drain       <-chan struct{}
	DrainSpread time.Duration
}

// ErrDraining is why a stream ends because of Options.Drain.
var ErrDraining = errors.New("the process is stopping")

func (o Options) heartbeat() time.Duration    { return cmp.Or(o.Heartbeat, 15*time.Second) }
func (o Options) writeTimeout() time.Duration { return cmp.Or(o.WriteTimeout, 10*time.Second) }

// heartbeat is the comment of contract 6.1.
var heartbeat = []byte(":ping\n\n")

// Serve answers 200 with the events of a channel until the channel is closed
// (nil), ctx ends (its cause), or a write fails or takes too long (that error).
// The header leaves at once. A heartbeat leaves at every interval, whether events
// do or not. After an error the connection is of no use any more, so that
// nothing may be written to w; the connection closes with the stream in any case.
//
// w is reached through http.ResponseController: a wrapping writer needs Unwrap.
func Serve(ctx context.Context, w http.ResponseWriter, events <-chan Event, opts Options) error {
	asItIs := func(event Event) (Event, error) { return event, nil }
	SetHeader(w.Header())
	return serve(ctx, w, Source[Event]{Events: events, EncodeFunc: asItIs}, opts)
}

func serve[T any](ctx context.Context, w http.ResponseWriter, source Source[T], opts Options) error {
	out := &attached{w: w, control: http.NewResponseController(w), timeout: opts.writeTimeout()}
	w.WriteHeader(http.StatusOK)
	if err := out.write(nil); err != nil {
		return err
	}
	err := loop(ctx, out, source, opts, nil)
	if errors.Is(err, errFinished) {
		return nil
	}
	return err
}

// sink takes whole frames.
type sink interface {
	write(text []byte) error
}

// errFinished is the end of a stream whose events are all sent.
var errFinished = errors.New("finished")

// loop writes events and heartbeats until one of the ends that Serve names, or
// until gone is closed.
func loop[T any](ctx context.Context, out sink, source Source[T], opts Options, gone <-chan struct{}) error {
	// A ticker is some 200 bytes, of the thousands that an open connection takes:
	// sharing one among the streams would save little.
	beat := time.NewTicker(opts.heartbeat())
	defer beat.Stop()
	drain, drained := opts.Drain, (<-chan time.Time)(nil)
	for {
		var err error
		select {
		case item, open := <-source.Events:
			err = forward(out, source, item, open)
		case <-beat.C:
			err = out.write(heartbeat)
		case <-drain:
			drain, drained = nil, time.After(rand.N(opts.DrainSpread+1)) //nolint:gosec // it spreads load
		case <-drained:
			err = ErrDraining
		case <-gone:
			err = ErrGone
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// forward writes what came over the channel: an event, or its end.
func forward[T any](out sink, source Source[T], item T, open bool) error {
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

// SetHeader sets the fields of an event stream. Connection: close makes the
// contract's "the connection then closes" true also where a client would keep
// the connection.
func SetHeader(header http.Header) {
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no")
	header.Set("Connection", "close")
}

// frames lends the buffer in which a frame is put together, so that an idle
// stream holds none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// keepFrame is the largest buffer that is kept for the next frame.
const keepFrame = 16 << 10

func send(out sink, event Event) error {
	frame, _ := frames.Get().(*[]byte)
	*frame = AppendFrame((*frame)[:0], event)
	err := out.write(*frame)
	if cap(*frame) <= keepFrame {
		frames.Put(frame)
	}
	return err
}

// attached is an answer that the HTTP server still looks after.
type attached struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// write sends text and flushes it, both within the time for one write.
func (a *attached) write(text []byte) error {
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

// AppendFrame appends the frame of event to dst: its fields, each one line, and
// the blank line that ends it. A line break in the data can, JSON being what it
// is, only stand between two tokens, where a blank means the same.
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

// oneLine puts a blank for each line break, LF and CR: the only two that an
// event stream knows.
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
