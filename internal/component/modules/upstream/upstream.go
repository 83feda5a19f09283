// Package upstream exchanges one HTTP request and one bounded response with an external server on
// behalf of a module.
//
// It also turns failures into errors for the caller. It doesn't depend on the content of
// requests. No error contains the URL, which may hold a key; errors name the host only.
package upstream

import (
	"context"
	"encoding/json"
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

// Answer is a response with its complete body, and how far its request got.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	Sent   string // a Sent constant of egress
	Begun  bool   // at least one byte of a response arrived
	Turned bool   // a redirect changed the method of the request, so the first request was answered
}

// ErrCharset reports that the character set of a response is not supported. It doesn't name the character
// set, because a server can write anything there.
var ErrCharset = errors.New("the character set of the response is not supported. Use UTF-8")

// Details are the public details of a failed exchange.
type Details struct {
	Class           string `json:"class"`
	Reason          string `json:"reason,omitempty"` // a Reason constant of egress
	Sent            string `json:"sent"`
	RedirectsTo     string `json:"redirectsTo,omitempty"` // the origin to which a body isn't sent
	Status          int    `json:"status,omitempty"`      // of a response that arrived but is unusable
	UpstreamCode    any    `json:"upstreamCode,omitempty"`
	UpstreamMessage string `json:"upstreamMessage,omitempty"`
	RetryAfter      string `json:"retryAfter,omitempty"`
}

// Do sends a request and reads the response. Errors are *component.Error (ADDRESS_BLOCKED, TIMEOUT,
// UPSTREAM_ERROR, or CANCELED if the caller stopped it). Together with an error, Do returns how far the request got, and
// the status and headers if they have arrived but the body can't be read.
func Do(client *http.Client, request *http.Request) (Answer, error) {
	ctx, exchange := egress.Observe(request.Context())
	answer, err := read(client, request.WithContext(ctx))
	answer.Sent, answer.Begun, answer.Turned = exchange.Sent(), exchange.Begun(), exchange.Turned()
	if err != nil {
		return answer, failure(request, answer, err)
	}
	return answer, nil
}

func read(client *http.Client, request *http.Request) (Answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	answer := Answer{Status: response.StatusCode, Header: response.Header}
	body, err := io.ReadAll(response.Body)
	if err == nil {
		answer.Body = body
	}
	return answer, err
}

// Stopped reports whether an error of Do means that the caller stopped the request.
func Stopped(err error) bool {
	failed, ok := errors.AsType[*component.Error](err)
	return ok && failed.Code == component.CodeCanceled
}

// Temporary reports whether a request that failed with this status can be retried.
func Temporary(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status <= 599
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
		Class: egress.ClassStatus, Sent: answer.Sent, UpstreamCode: answer.Status, UpstreamMessage: excerpt, RetryAfter: answer.Header.Get("Retry-After"),
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

// Unreadable returns the error of a request that must not be sent again, because a response started to
// arrive that can't be read. It has the details of the original error.
func Unreadable(host string, failed *component.Error) *component.Error {
	var details Details
	if json.Unmarshal(failed.Details, &details) != nil {
		return failed
	}
	words := egress.Words(details.Reason)
	switch details.Class {
	case egress.ClassTimeout:
		words = "did not finish its answer in time"
	case egress.ClassReset:
		words = "reset the connection in the middle of its answer"
	case egress.ClassBusy:
		words = "sent a large answer, which was not read because too many are in flight"
	}
	if words == "" {
		words = "started an answer that cannot be read"
	}
	unreadable := component.Permanent(component.CodeUnreadable, "%s %s. Whether the call took effect is unknown", host, words)
	unreadable.Err, unreadable.Details = failed.Err, failed.Details
	return unreadable
}

// failure returns the error of an exchange.
func failure(request *http.Request, answer Answer, err error) error {
	if errors.Is(err, context.Canceled) && request.Context().Err() != nil {
		stopped := component.Temporary(component.CodeCanceled, "the component was stopped before it finished").
			With(map[string]string{"sent": answer.Sent})
		stopped.Err = context.Canceled
		return stopped
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL
	}
	details := Details{Class: egress.Class(err), Reason: egress.Reason(err, answer.Begun), Sent: answer.Sent, Status: answer.Status}
	if foreign, ok := errors.AsType[*egress.ForeignError](err); ok {
		details.RedirectsTo = foreign.Origin
	}
	failed := errorFor(request.URL.Host, details, err)
	failed.Err = err
	return failed.With(details)
}

func errorFor(host string, details Details, err error) *component.Error {
	words := egress.Words(details.Reason)
	switch details.Class {
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
		if details.Reason == egress.ReasonLocation {
			return component.Temporary(component.CodeUpstream, "%s %s", host, words)
		}
		return component.Permanent(component.CodeUpstream, "the response of %s cannot be decoded: it %s", host, words)
	case egress.ClassBusy:
		return component.Temporary(component.CodeUpstream, "the response of %s was not read: too many large responses are in flight", host)
	case egress.ClassRedirect:
		if details.RedirectsTo != "" {
			return component.Permanent(component.CodeUpstream, "%s redirects to another origin. The request body is not sent to another origin; call the origin in redirectsTo directly", host)
		}
		return component.Permanent(component.CodeUpstream, "%s redirects more than %d times", host, MaxRedirects)
	case egress.ClassTLS:
		failed := component.Permanent(component.CodeUpstream, "%s %s", host, words)
		failed.Retryable = egress.Connected(err) // like any other connection that was lost
		return failed
	case egress.ClassDNS:
		return component.Temporary(component.CodeUpstream, "the name %s could not be resolved", host)
	case egress.ClassRefused:
		return component.Temporary(component.CodeUpstream, "%s refused the connection", host)
	case egress.ClassReset:
		return component.Temporary(component.CodeUpstream, "%s reset the connection", host)
	case egress.ClassUnreachable:
		return component.Temporary(component.CodeUpstream, "%s cannot be reached: there is no route to its address", host)
	}
	return component.Temporary(component.CodeUpstream, "%s %s", host, words)
}
