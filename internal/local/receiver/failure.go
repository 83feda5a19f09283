package receiver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FailureKind is a way to fail.
type FailureKind string

// The kinds of failures on purpose.
const (
	Slow   FailureKind = "slow"   // responds late
	Status FailureKind = "status" // responds with another status
	Drop   FailureKind = "drop"   // closes the connection without a response
)

// maxDelay is longer than any sender waits.
const maxDelay = 10 * time.Minute

// Failure says which deliveries fail on purpose, and how. The zero value fails no delivery.
type Failure struct {
	Kind   FailureKind
	Delay  time.Duration // for Slow
	Status int           // for Status

	First int     // number of deliveries of each execution that fail; 0: all
	Rate  float64 // probability of a failure; 0: always
}

// UnmarshalText parses slow:2s, drop, status:500, or 500.
func (f *Failure) UnmarshalText(text []byte) (err error) {
	kind, value, valued := strings.Cut(string(text), ":")
	if strings.Trim(kind, "0123456789") == "" && kind != "" && !valued {
		kind, value = string(Status), kind
	}
	*f = Failure{Kind: FailureKind(kind)}
	switch f.Kind {
	case Drop:
		if valued {
			return fmt.Errorf("drop takes no value, but got %q", value)
		}
	case Status:
		if f.Status, err = strconv.Atoi(value); err != nil || f.Status < 200 || f.Status > 599 {
			return fmt.Errorf("a status is a code from 200 to 599, such as 500, not %q", value)
		}
	case Slow:
		if f.Delay, err = time.ParseDuration(value); err != nil || f.Delay <= 0 || f.Delay > maxDelay {
			return fmt.Errorf("slow takes a time up to %v, such as slow:2s, not %q", maxDelay, value)
		}
	default:
		return fmt.Errorf("%q is not slow:2s, 500 or drop", text)
	}
	return nil
}

// String describes the failure, starting with the flag's value.
func (f Failure) String() string {
	text := string(f.Kind)
	switch f.Kind {
	case Slow:
		text += ":" + f.Delay.String()
	case Status:
		text = strconv.Itoa(f.Status)
	}
	switch {
	case f.First == 1:
		return text + ", the first delivery of each execution"
	case f.First > 1:
		return fmt.Sprintf("%s, the first %d deliveries of each execution", text, f.First)
	case f.Rate > 0:
		return fmt.Sprintf("%s, a delivery with the probability %v", text, f.Rate)
	}
	return text + ", every delivery"
}

// applies reports whether a delivery fails. random is uniform in [0, 1).
func (f Failure) applies(attempt int, random float64) bool {
	return f.Kind != "" && (f.First == 0 || attempt <= f.First) && (f.Rate == 0 || random < f.Rate)
}
