// Package upstream exchanges one HTTP request and one bounded response with an external server on
// behalf of a module.
//
// It also turns failures into errors for the caller. It knows nothing of what is requested. The
// one invariant: no error contains the URL, which may hold a key; errors name the host only.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	// MaxAnswer is how much of an answer is ever read (components: 5 MiB).
	MaxAnswer = 5 << 20
	// MaxRedirects is how many redirects are ever followed.
	MaxRedirects = 3

	maxExcerpt = 4 << 10 // bytes of an answer shown to the caller, before the error itself is cut
)

// Answer is what came back, read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Details are the public details of a failed exchange.
type Details struct {
	Class           string `json:"class"`
	UpstreamCode    any    `json:"upstreamCode,omitempty"`
	UpstreamMessage string `json:"upstreamMessage,omitempty"`
	RetryAfter      string `json:"retryAfter,omitempty"`
}

// Do sends a request and reads the answer. The error is a *component.Error
// (ADDRESS_BLOCKED, TIMEOUT, UPSTREAM_ERROR), or that of a canceled context.
func Do(client *http.Client, request *http.Request) (Answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, failure(request, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, failure(request, err)
	}
	return Answer{Status: response.StatusCode, Header: response.Header, Body: body}, nil
}

// Temporary reports whether a later attempt may get another answer than this
// status.
func Temporary(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// Refused is the error for an answer whose status is a failure. The note says
// why, where that is not plain.
func Refused(host string, answer Answer, note string) *component.Error {
	excerpt := Excerpt(answer.Body)
	message := fmt.Sprintf("%s answered %d %s", host, answer.Status, http.StatusText(answer.Status))
	if note != "" {
		message += " (" + note + ")"
	}
	if excerpt != "" {
		message += ": " + excerpt
	}
	failed := component.Permanent(component.CodeUpstream, "%s", message).With(Details{
		Class: egress.ClassStatus, UpstreamCode: answer.Status, UpstreamMessage: excerpt, RetryAfter: answer.Header.Get("Retry-After"),
	})
	failed.Retryable, failed.RetryAfter = Temporary(answer.Status), egress.RetryAfter(answer.Header, time.Now())
	return failed
}

// Excerpt is the beginning of an answer as text; "" when it is not text.
func Excerpt(body []byte) string {
	body = body[:min(len(body), maxExcerpt)]
	for len(body) > 0 && !utf8.Valid(body[len(body)-min(len(body), utf8.UTFMax):]) && len(body) > maxExcerpt-utf8.UTFMax {
		body = body[:len(body)-1] // the cut went through a character
	}
	if !utf8.Valid(body) {
		return ""
	}
	return strings.TrimSpace(component.Cut(string(body), maxExcerpt))
}

func failure(request *http.Request, err error) error {
	if errors.Is(err, context.Canceled) && request.Context().Err() != nil {
		return context.Canceled
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL
	}
	host, class := request.URL.Host, egress.Class(err)
	failed := word(host, class, err)
	failed.Err = err
	return failed.With(Details{Class: class})
}

func word(host, class string, err error) *component.Error {
	switch class {
	case egress.ClassBlocked:
		reason := "it is not an allowed target"
		if blocked, ok := errors.AsType[*egress.BlockedError](err); ok {
			reason = blocked.Reason
		}
		return component.Permanent(component.CodeAddressBlocked, "%s, or what it redirects to, may not be called: %s", host, reason)
	case egress.ClassTimeout:
		return component.Temporary(component.CodeTimeout, "%s did not answer in time", host)
	case egress.ClassTooLarge:
		return component.Permanent(component.CodeUpstream, "the answer of %s is too large: at most %d bytes are read", host, MaxAnswer)
	case egress.ClassBusy:
		return component.Temporary(component.CodeUpstream, "the answer of %s was not read: too many large answers are in flight", host)
	case egress.ClassRedirect:
		if foreign, ok := errors.AsType[*egress.ForeignError](err); ok {
			return component.Permanent(component.CodeUpstream, "%s redirects to another origin, %s, to which the request's body is not sent. Call that origin directly", host, foreign.Origin)
		}
		return component.Permanent(component.CodeUpstream, "%s redirects more than %d times", host, MaxRedirects)
	case egress.ClassTLS:
		return component.Permanent(component.CodeUpstream, "%s has no TLS certificate that is trusted for it, or no TLS 1.2", host)
	case egress.ClassDNS:
		return component.Temporary(component.CodeUpstream, "the name %s could not be resolved", host)
	case egress.ClassRefused:
		return component.Temporary(component.CodeUpstream, "%s refused the connection", host)
	}
	return component.Temporary(component.CodeUpstream, "the connection to %s failed (%s)", host, class)
}
