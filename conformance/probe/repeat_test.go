package probe

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a deployment that answers each request with the next step, and repeats the last one.
type scripted struct {
	steps []step
	sent  int
}

// step is a status with its Retry-After, or a broken connection.
type step struct {
	status int // 0 is a broken connection
	after  string
}

func (s *scripted) RoundTrip(*http.Request) (*http.Response, error) {
	now := s.steps[min(s.sent, len(s.steps)-1)]
	s.sent++
	if now.status == 0 {
		return nil, errors.New("connection reset")
	}
	header := http.Header{}
	if now.after != "" {
		header.Set("Retry-After", now.after)
	}
	return &http.Response{StatusCode: now.status, Header: header, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

func TestClientRepeatsWhatWasRefusedForTheMoment(t *testing.T) {
	post := Request{Method: http.MethodPost, Path: Components, Body: []byte("{}"), Unchecked: true}
	keyed := post
	keyed.Header = http.Header{"Idempotency-Key": {"order-4711"}}
	once := post
	once.Once = true
	get := Request{Path: Executions, Unchecked: true}
	for name, c := range map[string]struct {
		request Request
		steps   []step
		status  int // of the returned response; 0 is an error
		sent    int
		took    time.Duration
	}{
		"503 with Retry-After":                   {post, []step{{503, "2"}, {200, ""}}, 200, 2, 2 * time.Second},
		"429 with Retry-After":                   {post, []step{{429, "1"}, {429, "3"}, {200, ""}}, 200, 3, 4 * time.Second},
		"a case that provokes the refusal":       {once, []step{{429, "1"}, {200, ""}}, 429, 1, 0},
		"no Retry-After":                         {get, []step{{503, ""}, {200, ""}}, 503, 1, 0},
		"a Retry-After of 0":                     {get, []step{{429, "0"}, {200, ""}}, 429, 1, 0},
		"a Retry-After that is not a number":     {get, []step{{429, "re;typed"}, {200, ""}}, 429, 1, 0},
		"a Retry-After beyond the patience":      {get, []step{{429, "600"}, {200, ""}}, 429, 1, 0},
		"503 without end":                        {get, []step{{503, "20"}}, 503, 4, patience},
		"500 with Retry-After":                   {get, []step{{500, "1"}, {200, ""}}, 500, 1, 0},
		"a broken connection of a GET":           {get, []step{{}, {200, ""}}, 200, 2, 400 * time.Millisecond},
		"a broken connection of a keyed POST":    {keyed, []step{{}, {200, ""}}, 200, 2, 400 * time.Millisecond},
		"a broken connection of a POST":          {post, []step{{}, {200, ""}}, 0, 1, 0},
		"a connection that always breaks":        {get, []step{{}}, 0, attempts, 1200 * time.Millisecond},
		"a refusal and then a broken connection": {post, []step{{503, "1"}, {}}, 0, 2, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deployment := &scripted{steps: c.steps}
				target := scriptedTarget(t, deployment)
				started := time.Now()
				answer, err := (&Trial{ctx: t.Context(), target: target}).Try(t.Context(), c.request)
				if answer.Status != c.status || (err != nil) != (c.status == 0) {
					t.Errorf("status %d, error %v, want status %d", answer.Status, err, c.status)
				}
				if took := time.Since(started); deployment.sent != c.sent || took != c.took {
					t.Errorf("%d requests in %v, want %d in %v", deployment.sent, took, c.sent, c.took)
				}
				if answer.Took != 0 {
					t.Errorf("the answer took %v: the pauses are not part of its latency", answer.Took)
				}
			})
		})
	}
}

func TestClientJudgesWhatItRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deployment := &scripted{steps: []step{{503, "1"}, {200, ""}}} // not a problem document
		_, err := (&Trial{ctx: t.Context(), target: scriptedTarget(t, deployment)}).Try(t.Context(), Request{Path: Executions})
		if err == nil || !strings.Contains(err.Error(), "503") || deployment.sent != 1 {
			t.Errorf("%d requests, error %v, want the invalid 503 to be reported", deployment.sent, err)
		}
	})
}

// stalled is a deployment whose responses never end.
type stalled struct{}

func (stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	context.AfterFunc(r.Context(), func() { writer.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: reader}, nil
}

// A request that creates something outlives the end of its context, but not forever.
func TestResponseThatStallsIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := (&Trial{ctx: ctx, target: scriptedTarget(t, stalled{})}).Try(ctx, Request{Method: http.MethodPost, Path: "/v1/sdk/workflows", Body: []byte("{}"), Unchecked: true, Once: true})
		if took := time.Since(start); err == nil || took != 2*patience {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func scriptedTarget(t *testing.T, deployment http.RoundTripper) *Target {
	t.Helper()
	target, err := NewTarget(Credentials{BaseURL: "http://weft.example", APISecret: base64.StdEncoding.EncodeToString(make([]byte, 48))})
	if err != nil {
		t.Fatal(err)
	}
	target.HTTP = &http.Client{Transport: deployment}
	return target
}
