package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/platform/sse"
)

// Stream iterates over the events of an execution up to the final one. It yields an error if the
// stream breaks off before the final event.
func (c *Client) Stream(ctx context.Context, executionID uuid.UUID) iter.Seq2[api.ComponentExecutionEvent, error] {
	return events(ctx, c, executionPath(executionID)+"/stream", nil, func(e api.ComponentExecutionEvent) bool { return e.Status.Terminal() })
}

// StreamRun iterates over the events of a run like Stream. It starts after the event with the given
// number, or with the current state if the number is negative.
func (c *Client) StreamRun(ctx context.Context, runID uuid.UUID, after int64) iter.Seq2[api.RunEvent, error] {
	header := http.Header{}
	if after >= 0 {
		header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	return events(ctx, c, runPath(runID)+"/stream", header, func(e api.RunEvent) bool { return e.Status.Terminal() })
}

// events iterates over the stream at target up to its final event.
func events[E any](ctx context.Context, c *Client, target string, header http.Header, final func(E) bool) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		var none E
		asked := http.Header{"Accept": {"text/event-stream"}}
		maps.Copy(asked, header)
		answer, err := c.do(ctx, http.MethodGet, target, nil, asked)
		if err != nil {
			yield(none, err)
			return
		}
		defer answer.Body.Close()
		for frame, err := range ReadEvents(answer.Body) {
			if err == nil && len(frame.Data) == 0 {
				continue // contract 6.1: events without data are ignored
			}
			var event E
			if err == nil {
				err = json.Unmarshal(frame.Data, &event)
			}
			if !yield(event, err) || err != nil || final(event) {
				return
			}
		}
		yield(none, io.ErrUnexpectedEOF)
	}
}

// maxLine bounds a line of an event stream.
const maxLine = maxAnswer

// ReadEvents parses an event stream by the HTML standard: it skips comments and frames without
// data, and drops an incomplete last frame. It stops after an error, or when the stream ends.
func ReadEvents(r io.Reader) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		// Each frame gets new buffers, because an event may outlive the next one.
		var event sse.Event
		var some bool
		lines := bufio.NewReaderSize(r, 4<<10)
		for {
			line, err := readLine(lines)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(sse.Event{}, fmt.Errorf("read the event stream: %w", err))
				return
			}
			if len(line) > 0 {
				some = takeField(&event, line, some)
				continue
			}
			if some && !yield(event, nil) {
				return
			}
			event, some = sse.Event{ID: event.ID}, false
		}
	}
}

// takeField parses one line into event and reports whether the event has data now.
func takeField(event *sse.Event, line []byte, some bool) bool {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		event.Name = string(value)
	case "id":
		if !bytes.ContainsRune(value, 0) {
			event.ID = string(value)
		}
	case "data":
		if some {
			event.Data = append(event.Data, '\n')
		}
		event.Data = append(event.Data, value...)
		return true
	}
	return some
}

// readLine returns a line without its LF or CR LF.
func readLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("a line of the event stream is longer than %d bytes", maxLine)
		}
		if err == nil {
			return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}
