package weft

// This file stands alone: copy it, and rename the package as you like.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"
)

// Stream reads event streams. Only Client is required.
type Stream struct {
	Client   *http.Client  // signs requests, and must have no timeout
	Idle     time.Duration // silence after which a connection is considered lost; 0 for three heartbeats
	Attempts int           // connections in a row that may be lost without an event; 0 for 8
}

// StreamRefused means that the service rejects the stream: 401, 404, ...
type StreamRefused struct{ Status int }

func (r *StreamRefused) Error() string { return fmt.Sprintf("the stream is refused with %d", r.Status) }

var (
	errEnded    = errors.New("the stream ended before the last event")
	errHasFinal = errors.New("lastEventID is the final event")
)

// Events returns the events of an execution or a run, up to the one with a final status. It
// reconnects lost or silent connections with Last-Event-ID, so that no event is missed or
// repeated. The events after lastEventID are returned: "" starts with the current state, "0"
// with the first event of a run. After an error the sequence ends.
func Events[Event any](ctx context.Context, stream Stream, url, lastEventID string) iter.Seq2[Event, error] {
	if stream.Idle == 0 {
		stream.Idle = 45 * time.Second
	}
	if stream.Attempts == 0 {
		stream.Attempts = 8
	}
	return func(yield func(Event, error) bool) {
		var none Event
		for lost := 0; ; {
			pause := min(250*time.Millisecond<<lost, 10*time.Second)
			over := false
			err := stream.connect(ctx, url, lastEventID, func(id, data string) error {
				var event Event
				var state struct{ Status string }
				if err := errors.Join(json.Unmarshal([]byte(data), &state), json.Unmarshal([]byte(data), &event)); err != nil {
					return err
				}
				final := state.Status == "COMPLETED" || state.Status == "FAILED" || state.Status == "CANCELED"
				again := !final && id != "" && id == lastEventID
				if id != "" {
					lastEventID = id
				}
				if !again {
					lost, pause = 0, 250*time.Millisecond
					over = !yield(event, nil) || final
				}
				if over {
					return io.EOF
				}
				return nil
			})
			if over || errors.Is(err, errHasFinal) {
				return
			}
			lost++
			var refused *StreamRefused
			var syntax *json.SyntaxError
			var unlike *json.UnmarshalTypeError
			if ctx.Err() != nil || lost >= stream.Attempts || errors.As(err, &refused) || errors.As(err, &syntax) || errors.As(err, &unlike) {
				yield(none, err)
				return
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// connect reads one connection until it ends or take stops it. It always returns an error.
func (s Stream) connect(ctx context.Context, url, lastEventID string, take func(id, data string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(s.Idle, cancel)
	defer silence.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/event-stream")
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	answer, err := s.Client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		return errHasFinal
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("the service answered %d", answer.StatusCode)
	default:
		return &StreamRefused{answer.StatusCode}
	}
	reader := bufio.NewReader(answer.Body)
	var id string
	var data []string
	for {
		line, err := reader.ReadString('\n') // a line without an end was cut off
		if err != nil {
			return errors.Join(errEnded, err)
		}
		silence.Reset(s.Idle)
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":") // a comment has an empty field name
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if text := strings.Join(data, "\n"); strings.Trim(text, "\n") != "" {
				if err := take(id, text); err != nil {
					return err
				}
			}
			data = nil
		case field == "data":
			data = append(data, value)
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		}
	}
}
