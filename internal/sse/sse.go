// Package sse writes server-sent events: frames, heartbeats, and the end of a
// stream. Reading them is the client's business.
//
// It knows nothing of what the events say. The invariant: a stream gets whole
// frames only, each in one write and flush, and no payload, however it is made,
// can begin a second frame or a second field.
package sse

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Event is one message. Data is JSON text; Name and ID may be empty.
type Event struct {
	Name, ID string
	Data     []byte
}

// Options are the times of a stream; a zero means the default.
type Options struct {
	Heartbeat    time.Duration // between two :ping comments; 15 s (contract 8.6)
	WriteTimeout time.Duration // for one frame to a client that does not read; 10 s
}

const (
	defaultHeartbeat    = 15 * time.Second
	defaultWriteTimeout = 10 * time.Second
)

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
	out := stream{w: w, control: http.NewResponseController(w), timeout: opts.WriteTimeout}
	if out.timeout == 0 {
		out.timeout = defaultWriteTimeout
	}
	if opts.Heartbeat == 0 {
		opts.Heartbeat = defaultHeartbeat
	}
	if err := out.begin(); err != nil {
		return err
	}
	// A ticker is some 200 bytes, of the tens of thousands that net/http keeps
	// for an open request: sharing one among the streams would save nothing.
	beat := time.NewTicker(opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case event, open := <-events:
			if !open {
				return nil
			}
			if err := out.send(event); err != nil {
				return err
			}
		case <-beat.C:
			if err := out.write(heartbeat); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stream is the answer being written.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// begin sends the header. Connection: close makes the contract's "the connection
// then closes" true also where a client would keep the connection.
func (s *stream) begin() error {
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no")
	header.Set("Connection", "close")
	s.w.WriteHeader(http.StatusOK)
	return s.write(nil)
}

// frames lends the buffer in which a frame is put together, so that an idle
// stream holds none.
var frames = sync.Pool{New: func() any { return new([]byte) }}

// keepFrame is the largest buffer that is kept for the next frame.
const keepFrame = 16 << 10

func (s *stream) send(event Event) error {
	frame := frames.Get().(*[]byte)
	*frame = AppendFrame((*frame)[:0], event)
	err := s.write(*frame)
	if cap(*frame) <= keepFrame {
		frames.Put(frame)
	}
	return err
}

// write sends text and flushes it, both within the time for one write.
func (s *stream) write(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return fmt.Errorf("set write deadline of event stream: %w", err)
	}
	if len(text) > 0 {
		if _, err := s.w.Write(text); err != nil {
			return fmt.Errorf("write event stream: %w", err)
		}
	}
	if err := s.control.Flush(); err != nil {
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
