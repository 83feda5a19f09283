package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// patience is how long a request is repeated in total, and how long each attempt waits for the
// headers of a response. The longest inline wait of the contract is 15 s.
const patience = time.Minute

// attempts is how often a request is sent if the connection breaks.
const attempts = 3

// exchange is a request with its response. The caller reads and closes the body.
type exchange struct {
	operation *Operation
	response  *http.Response
	started   time.Time // of the last attempt
	refused   error     // set if the deployment was too busy until the patience was exhausted
}

// send signs and sends the request. Like any client, it repeats the request after the Retry-After
// of a 429 or 503, and after a broken connection if the repetition is safe. After the patience it
// returns the last response or error. Each response that it drops is validated, so that a repetition
// hides no violation.
func (t *Trial) send(ctx context.Context, r Request) (exchange, error) {
	deadline := time.Now().Add(patience)
	for attempt := 1; ; attempt++ {
		x, err := t.sendOnce(ctx, r)
		var pause time.Duration
		switch {
		case r.Once || ctx.Err() != nil:
			return x, err
		case err != nil:
			pause = 200 * time.Millisecond << attempt
			if !r.repeatable() || attempt == attempts {
				t.busy(fmt.Errorf("the connection broke: %w", err))
				return x, err
			}
		default:
			if pause = requestedPause(x.response); pause == 0 {
				return x, nil
			}
			x.refused = fmt.Errorf("%s: the deployment is busy: %d with Retry-After %v", r.name(), x.response.StatusCode, pause)
			if time.Now().Add(pause).After(deadline) {
				return x, nil
			}
			if _, err := t.read(x, r); err != nil {
				return x, err
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			t.busy(x.refused)
			return x, fmt.Errorf("wait to repeat the request: %w", ctx.Err())
		}
	}
}

// sendOnce sends the request. The end of ctx does not abort a request that creates something: its
// response says what to remove. Such a request may take twice the patience.
func (t *Trial) sendOnce(ctx context.Context, r Request) (exchange, error) {
	if err := ctx.Err(); err != nil {
		return exchange{}, err
	}
	request, err := t.sign(ctx, r)
	if err != nil {
		return exchange{}, err
	}
	operation := t.target.Spec.Find(request.Method, request.URL.RequestURI())
	cancel := func() {}
	if creates(operation) {
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 2*patience)
		request = request.WithContext(ctx)
	}
	started := time.Now()
	response, err := t.target.HTTP.Do(request)
	if err != nil {
		cancel()
		return exchange{}, err
	}
	response.Body = &limitedBody{response.Body, cancel}
	return exchange{operation: operation, response: response, started: started}, nil
}

// limitedBody is the body of a response to a request with its own time limit, which Close releases.
type limitedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close closes the body.
func (b *limitedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// repeatable reports whether the request may be repeated although the first attempt may have taken
// effect.
func (r Request) repeatable() bool {
	return r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header.Get("Idempotency-Key") != ""
}

// requestedPause returns the Retry-After of a 429 or 503, or 0 if the response has no usable one.
func requestedPause(response *http.Response) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// read reads the response to its end, and validates it unless the request is Unchecked.
func (t *Trial) read(x exchange, r Request) (Answer, error) {
	defer x.response.Body.Close()
	body, err := io.ReadAll(x.response.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	answer := answered(x.operation, x.response, body)
	answer.Took = time.Since(x.started)
	t.target.Spec.note(x.operation, answer)
	t.target.made.note(x.operation, r, answer)
	if r.Unchecked {
		return answer, nil
	}
	return answer, t.judge(x.operation, r, answer)
}
