// Package upstream exchanges one HTTP request and one bounded response with an external server on
// behalf of a module.
//
// It also turns failures into errors for the caller. It doesn't depend on the content of
// requests. No error contains the URL, which may hold a key; errors name the host only.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

const (
	// MaxAnswer is the maximum size of a response, in bytes.
	MaxAnswer = 5 << 20
	// MaxRedirects is the maximum number of redirects to follow.
	MaxRedirects = 3

	maxExcerpt = 4 << 10 // bytes of a response in an error for the caller
)

// ReservedNames matches the names of headers that a caller can't set. It matches both cases of each
// letter, because JavaScript validators don't support (?i).
var ReservedNames = "^(" + regexp.MustCompile("[a-z]").ReplaceAllStringFunc(
	"host|content-length|transfer-encoding|accept-encoding|connection|keep-alive|upgrade|te|trailer|expect|proxy-.*",
	func(letter string) string { return "[" + strings.ToUpper(letter) + letter + "]" }) + ")$"

// Answer is a response with its complete body.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Details are the public details of a failed exchange.
type Details struct {
	Class           string `json:"class"`
	Status          int    `json:"status,omitempty"` // of a response that arrived but is unusable
	UpstreamCode    any    `json:"upstreamCode,omitempty"`
	UpstreamMessage string `json:"upstreamMessage,omitempty"`
	RetryAfter      string `json:"retryAfter,omitempty"`
}

// Do sends a request and reads the response. Errors are *component.Error (ADDRESS_BLOCKED, TIMEOUT,
// UPSTREAM_ERROR) or context.Canceled. If the response has arrived but its body can't be read, Do
// returns its status and headers together with the error.
func Do(client *http.Client, request *http.Request) (Answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, failure(request, 0, err)
	}
	defer response.Body.Close()
	answer := Answer{Status: response.StatusCode, Header: response.Header}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, failure(request, answer.Status, err)
	}
	answer.Body = body
	return answer, nil
}

// Temporary reports whether a request that failed with this status can be retried.
func Temporary(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// Refused returns the error for a response with a failure status. The note is an optional
// explanation.
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

// Excerpt returns the start of a response body, or "" if it isn't text.
func Excerpt(body []byte) string {
	body = body[:min(len(body), maxExcerpt)]
	for len(body) > 0 && !utf8.Valid(body[len(body)-min(len(body), utf8.UTFMax):]) && len(body) > maxExcerpt-utf8.UTFMax {
		body = body[:len(body)-1] // truncated in the middle of a character
	}
	if !utf8.Valid(body) {
		return ""
	}
	return strings.TrimSpace(component.Cut(string(body), maxExcerpt))
}

// failure returns the error of an exchange. The status is 0 if no response arrived.
func failure(request *http.Request, status int, err error) error {
	if errors.Is(err, context.Canceled) && request.Context().Err() != nil {
		return context.Canceled
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL
	}
	host, class := request.URL.Host, egress.Class(err)
	failed := errorFor(host, class, err)
	failed.Err = err
	return failed.With(Details{Class: class, Status: status})
}

func errorFor(host, class string, err error) *component.Error {
	switch class {
	case egress.ClassBlocked:
		reason := "the address is not allowed"
		if blocked, ok := errors.AsType[*egress.BlockedError](err); ok {
			reason = blocked.Reason
		}
		return component.Permanent(component.CodeAddressBlocked, "%s, or a redirect target, is not allowed: %s", host, reason)
	case egress.ClassTimeout:
		return component.Temporary(component.CodeTimeout, "%s did not respond in time", host)
	case egress.ClassTooLarge:
		if errors.Is(err, egress.ErrHeadersTooLarge) {
			return component.Permanent(component.CodeUpstream, "the response headers of %s have more than %d bytes", host, egress.MaxHeaderBytes)
		}
		return component.Permanent(component.CodeUpstream, "the response of %s has more than %d bytes", host, MaxAnswer)
	case egress.ClassMalformed:
		return component.Permanent(component.CodeUpstream, "the response of %s cannot be decoded: %s", host, err)
	case egress.ClassBusy:
		return component.Temporary(component.CodeUpstream, "the response of %s was not read: too many large responses are in flight", host)
	case egress.ClassRedirect:
		if foreign, ok := errors.AsType[*egress.ForeignError](err); ok {
			return component.Permanent(component.CodeUpstream, "%s redirects to another origin, %s. The request body is not sent to another origin; call that origin directly", host, foreign.Origin)
		}
		return component.Permanent(component.CodeUpstream, "%s redirects more than %d times", host, MaxRedirects)
	case egress.ClassTLS:
		return component.Permanent(component.CodeUpstream, "%s has no trusted TLS certificate, or does not support TLS 1.2", host)
	case egress.ClassDNS:
		return component.Temporary(component.CodeUpstream, "the name %s could not be resolved", host)
	case egress.ClassRefused:
		return component.Temporary(component.CodeUpstream, "%s refused the connection", host)
	}
	return component.Temporary(component.CodeUpstream, "the connection to %s failed (%s)", host, class)
}
