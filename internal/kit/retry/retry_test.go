package retry_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/retry"
)

func parse(t *testing.T, text string) retry.Policy {
	t.Helper()
	p, details := retry.Parse("/retry", json.RawMessage(text))
	if len(details) > 0 {
		t.Fatalf("%s: %+v", text, details)
	}
	return p
}

func TestPoliciesHaveDefaultsAndBounds(t *testing.T) {
	t.Parallel()
	if p := parse(t, `{}`); p.MaxElapsed != 24*time.Hour || p.InitialDelay != time.Second || p.Factor != 2 || p.MaxDelay != 5*time.Minute || p.MaxAttempts != 0 || p.On != nil {
		t.Errorf("defaults: %+v", p)
	}
	if p := parse(t, `{"initialDelayMs":600000}`); p.MaxDelay != 10*time.Minute {
		t.Errorf("maxDelayMs follows initialDelayMs: %+v", p)
	}
	for text, want := range map[string]string{
		`7`: "/retry", `{"maxElapsedMs":999}`: "/retry/maxElapsedMs", `{"maxElapsedMs":604800001}`: "/retry/maxElapsedMs", `{"maxElapsedMs":1000.5}`: "/retry/maxElapsedMs",
		`{"initialDelayMs":99}`: "/retry/initialDelayMs", `{"backoffFactor":0.5}`: "/retry/backoffFactor", `{"backoffFactor":11}`: "/retry/backoffFactor",
		`{"maxDelayMs":999}`: "/retry/maxDelayMs", `{"initialDelayMs":5000,"maxDelayMs":2000}`: "/retry/maxDelayMs", `{"maxAttempts":0}`: "/retry/maxAttempts", `{"maxAttempts":5001}`: "/retry/maxAttempts",
		`{"on":[]}`: "/retry/on", `{"on":["INVALID_INPUT"]}`: "/retry/on/0", `{"on":["TIMEOUT",399]}`: "/retry/on/1", `{"on":["timeout"]}`: "/retry/on/0",
		`{"initialDelayMs":1000,"backoffFactor":1,"maxDelayMs":1000}`: "/retry",
	} {
		if _, details := retry.Parse("/retry", json.RawMessage(text)); len(details) != 1 || details[0].Pointer != want {
			t.Errorf("%s: %+v, want a fault at %s", text, details, want)
		}
	}
	parse(t, `{"initialDelayMs":1000,"backoffFactor":1,"maxDelayMs":1000,"maxAttempts":100}`)
}

func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy  string
		failure retry.Failure
		again   bool
	}{
		"a retryable failure":                         {`{}`, retry.Failure{Code: "UPSTREAM_ERROR", Status: 503, Retryable: true, Sent: "answered"}, true},
		"a final failure":                             {`{}`, retry.Failure{Code: "UPSTREAM_ERROR", Status: 404, Sent: "answered"}, false},
		"an internal error":                           {`{}`, retry.Failure{Code: "INTERNAL_ERROR", Retryable: true}, false},
		"the timeout of a module that waits":          {`{}`, retry.Failure{Code: "TIMEOUT", Retryable: true, Waits: true}, false},
		"a status that is named":                      {`{"on":[404]}`, retry.Failure{Code: "UPSTREAM_ERROR", Status: 404, Sent: "answered"}, true},
		"a status that is not named":                  {`{"on":[404]}`, retry.Failure{Code: "UPSTREAM_ERROR", Status: 503, Retryable: true, Sent: "answered"}, false},
		"a code that is named":                        {`{"on":["TIMEOUT"]}`, retry.Failure{Code: "TIMEOUT", Retryable: true, Sent: "unknown"}, true},
		"a named code that is final and not answered": {`{"on":["UPSTREAM_UNREADABLE"]}`, retry.Failure{Code: "UPSTREAM_UNREADABLE", Sent: "unknown"}, false},
		"an unsafe call that was not sent":            {`{}`, retry.Failure{Code: "UPSTREAM_ERROR", Retryable: true, Sent: "no", Unsafe: true}, true},
		"an unsafe call with a retryable answer":      {`{}`, retry.Failure{Code: "UPSTREAM_ERROR", Status: 503, Retryable: true, Sent: "answered", Unsafe: true}, true},
		"an unsafe call that may have been received":  {`{}`, retry.Failure{Code: "TIMEOUT", Retryable: true, Sent: "unknown", Unsafe: true}, false},
		"a keyed call within a day":                   {`{"maxElapsedMs":604800000,"maxAttempts":100}`, retry.Failure{Code: "TIMEOUT", Retryable: true, Sent: "unknown", Keyed: true, Elapsed: 23 * time.Hour}, true},
		"a keyed call after a day":                    {`{"maxElapsedMs":604800000,"maxAttempts":100}`, retry.Failure{Code: "TIMEOUT", Retryable: true, Sent: "unknown", Keyed: true, Elapsed: 25 * time.Hour}, false},
		"the last attempt":                            {`{"maxAttempts":3}`, retry.Failure{Code: "TIMEOUT", Retryable: true, Sent: "no", Number: 3}, false},
		"after the time":                              {`{"maxElapsedMs":60000}`, retry.Failure{Code: "TIMEOUT", Retryable: true, Sent: "no", Elapsed: time.Minute}, false},
	} {
		c.failure.Number = max(c.failure.Number, 1)
		if _, again := parse(t, c.policy).Next(c.failure); again != c.again {
			t.Errorf("%s: %t, want %t", name, again, c.again)
		}
	}
}

// Whatever the policy and the failures are: attempts never exceed the maximum, delays lie within their
// bounds, Retry-After holds up to an hour, and the last attempt starts when the time is over.
func TestAttemptsKeepToThePolicy(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := retry.Policy{
			MaxElapsed: time.Duration(1+r.IntN(600_000)) * time.Second, InitialDelay: time.Duration(100+r.IntN(3_000_000)) * time.Millisecond,
			Factor: 1 + 9*r.Float64(), MaxAttempts: r.IntN(40),
		}
		p.MaxDelay = p.InitialDelay + time.Duration(r.IntN(3_600_000))*time.Millisecond
		at, n := time.Duration(0), 1
		for ; ; n++ {
			f := retry.Failure{Number: n, Elapsed: at, Code: "TIMEOUT", Retryable: true, Sent: "no", Random: r.Float64()}
			if r.IntN(3) == 0 {
				f.RetryAfter = time.Duration(r.IntN(10_000)) * time.Second
			}
			delay, again := p.Next(f)
			if !again {
				break
			}
			last := at+delay == p.MaxElapsed
			asked := min(f.RetryAfter, time.Hour)
			if delay < asked && !last || delay > max(p.MaxDelay*6/5, asked)+1 || at+delay > p.MaxElapsed || delay < min(p.InitialDelay*4/5, p.MaxElapsed-at)-1 {
				t.Fatalf("seed %d, attempt %d at %v: a delay of %v: %+v", seed, n, at, delay, p)
			}
			at += delay
		}
		if n > p.Most() || at > p.MaxElapsed || n < p.Most() && at != p.MaxElapsed {
			t.Fatalf("seed %d: %d attempts, the last at %v: %+v", seed, n, at, p)
		}
	}
}

func TestFaultsSayWhatToWrite(t *testing.T) {
	t.Parallel()
	_, details := retry.Parse("/retry", json.RawMessage(`{"maxElapsedMs":1}`))
	if len(details) != 1 || !strings.Contains(details[0].Message, "must be 1000 to 604800000") {
		t.Errorf("%+v", details)
	}
}
