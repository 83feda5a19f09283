// Package retry decides when a failed call is tried again (decisions 8.18). It is pure: it has no clock and
// no randomness.
package retry

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// Limits of a policy.
const (
	MaxAttempts = 5000
	maxElapsed  = 7 * 24 * time.Hour
	maxAsked    = time.Hour      // of the upstream's Retry-After
	keyLasts    = 24 * time.Hour // upstreams forget Idempotency-Keys
	jitter      = 0.2            // of a delay, both ways
)

// Policy says which failures are tried again, and when. The time decides: it counts from the start of the
// first attempt.
type Policy struct {
	MaxElapsed   time.Duration
	InitialDelay time.Duration
	Factor       float64
	MaxDelay     time.Duration
	MaxAttempts  int      // 0: only the time limits them
	On           []string // codes and statuses; nil: all failures that are retryable
}

// written is a policy as its author wrote it.
type written struct {
	MaxElapsedMs   *float64          `json:"maxElapsedMs"`
	InitialDelayMs *float64          `json:"initialDelayMs"`
	BackoffFactor  *float64          `json:"backoffFactor"`
	MaxDelayMs     *float64          `json:"maxDelayMs"`
	MaxAttempts    *float64          `json:"maxAttempts"`
	On             []json.RawMessage `json:"on"`
}

// never are the codes of failures that no policy tries again.
var never = []string{"INVALID_INPUT", "MISSING_VALUE", "INVALID_ADDRESS", "ORIGIN_NOT_ALLOWED", "REFERENCE_TOO_LARGE", "CANCELED", "OUTPUT_TOO_LARGE", "INTERNAL_ERROR", "WORKER_LOST", "QUARANTINED", "RESTORE_UNCERTAIN"}

// Parse reads a policy. pointer is its JSON pointer. It returns all faults, each with a pointer.
func Parse(pointer string, raw json.RawMessage) (p Policy, details []fault.Detail) {
	var w written
	if err := json.Unmarshal(raw, &w); err != nil {
		return p, []fault.Detail{fault.NewDetail(pointer, "must be an object such as {\"maxElapsedMs\": 86400000}; {} has the defaults")}
	}
	number := func(name string, value *float64, least, most, otherwise float64) float64 {
		switch {
		case value == nil:
			return otherwise
		case *value < least || *value > most || name != "backoffFactor" && *value != math.Trunc(*value):
			details = append(details, fault.NewDetail(pointer+"/"+name, "must be "+shown(least)+" to "+shown(most)))
			return otherwise
		}
		return *value
	}
	ms := func(value float64) time.Duration { return time.Duration(value) * time.Millisecond }
	p.MaxElapsed = ms(number("maxElapsedMs", w.MaxElapsedMs, 1000, float64(maxElapsed/time.Millisecond), 86_400_000))
	p.InitialDelay = ms(number("initialDelayMs", w.InitialDelayMs, 100, 3_600_000, 1000))
	p.Factor = number("backoffFactor", w.BackoffFactor, 1, 10, 2)
	p.MaxDelay = ms(number("maxDelayMs", w.MaxDelayMs, 1000, 86_400_000, max(300_000, float64(p.InitialDelay/time.Millisecond))))
	p.MaxAttempts = int(number("maxAttempts", w.MaxAttempts, 1, MaxAttempts, 0))
	if p.MaxDelay < p.InitialDelay {
		details = append(details, fault.NewDetail(pointer+"/maxDelayMs", "must not be less than initialDelayMs"))
	}
	if w.On != nil && len(w.On) == 0 {
		details = append(details, fault.NewDetail(pointer+"/on", "must name a code or a status; leave it out to retry all failures that are retryable"))
	}
	for i, one := range w.On {
		text := strings.Trim(string(one), `"`)
		status, err := strconv.Atoi(text)
		if slices.Contains(never, text) || text == "" || text != strings.ToUpper(text) || err == nil && (status < 400 || status > 599) {
			details = append(details, fault.NewDetail(pointer+"/on/"+strconv.Itoa(i), "must be the code of a failure that can pass, such as UPSTREAM_ERROR or TIMEOUT, or a status from 400 to 599"))
		}
		p.On = append(p.On, text)
	}
	if len(details) == 0 && (p.MaxAttempts == 0 || p.MaxAttempts >= MaxAttempts) && p.permits() > MaxAttempts {
		details = append(details, fault.NewDetail(pointer, "permits more than 5000 attempts: set longer delays, a shorter maxElapsedMs, or maxAttempts"))
	}
	return p, details
}

func shown(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }

// permits returns the number of attempts that the delays alone permit, or a number above MaxAttempts.
func (p Policy) permits() int {
	count := 1
	for at := time.Duration(0); at < p.MaxElapsed && count <= MaxAttempts; count++ {
		at += p.backoff(count)
	}
	return count
}

// backoff returns the delay after attempt n, without jitter.
func (p Policy) backoff(n int) time.Duration {
	return min(time.Duration(min(float64(p.InitialDelay)*math.Pow(p.Factor, float64(n-1)), float64(p.MaxDelay))), p.MaxDelay)
}

// Most returns the largest number of attempts.
func (p Policy) Most() int {
	if p.MaxAttempts > 0 {
		return p.MaxAttempts
	}
	return MaxAttempts
}

// Values of Failure.Sent, as in error.details.
const (
	sentNo       = "no"
	sentAnswered = "answered"
)

// Failure is a failed attempt.
type Failure struct {
	Number     int           // of the attempt, from 1
	Elapsed    time.Duration // since the start of the first attempt
	Code       string
	Status     int           // of the upstream's answer; 0: none
	Retryable  bool          // the failure may pass
	Sent       string        // no, unknown or answered; empty: the component makes no call
	RetryAfter time.Duration // as the upstream asked
	Unsafe     bool          // the call is not safe to repeat
	Keyed      bool          // the call is safe to repeat only while the upstream remembers its Idempotency-Key
	Waits      bool          // the component waits for something, for as long as its timeout says
	Random     float64       // from 0 up to 1, for the jitter
}

// Next returns the delay before the next attempt, and reports whether there is one. The last attempt starts
// when MaxElapsed is over.
func (p Policy) Next(f Failure) (delay time.Duration, again bool) {
	if !p.wants(f) || !f.repeatable() || f.Number >= p.Most() || f.Elapsed >= p.MaxElapsed {
		return 0, false
	}
	delay = time.Duration(float64(p.backoff(f.Number)) * (1 - jitter + 2*jitter*f.Random))
	delay = max(delay, min(f.RetryAfter, maxAsked))
	return min(delay, p.MaxElapsed-f.Elapsed), true
}

// wants reports whether the policy tries again after failures of this kind.
func (p Policy) wants(f Failure) bool {
	if p.On == nil {
		return f.Retryable && f.Code != "INTERNAL_ERROR" && !(f.Code == "TIMEOUT" && f.Waits)
	}
	named := slices.Contains(p.On, f.Code) || f.Status != 0 && slices.Contains(p.On, strconv.Itoa(f.Status))
	return named && (f.Retryable || f.Sent == sentAnswered)
}

// repeatable reports whether the call may be sent again.
func (f Failure) repeatable() bool {
	switch {
	case f.Unsafe:
		return f.Sent == sentNo || f.Sent == sentAnswered && f.Status != 0
	case f.Keyed:
		return f.Elapsed < keyLasts || f.Sent == sentNo && f.Number == 1
	}
	return true
}
