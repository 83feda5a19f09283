package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// The classes of failures of an exchange. They are part of the API: callback attempts and
// component errors contain them.
const (
	ClassDNS         = "dns"
	ClassRefused     = "refused"
	ClassReset       = "reset"
	ClassUnreachable = "unreachable"
	ClassTimeout     = "timeout"
	ClassTLS         = "tls"
	ClassRedirect    = "redirect"
	ClassBlocked     = "blocked_address"
	ClassTooLarge    = "too_large"
	ClassStatus      = "status"
	ClassConnection  = "connection"
	ClassBusy        = "busy"
	ClassMalformed   = "malformed"
)

// ErrTooLarge means that a response was larger than the client's limit.
var ErrTooLarge = errors.New("response too large")

// ErrHeadersTooLarge means that the headers of a response had more than MaxHeaderBytes.
var ErrHeadersTooLarge = errors.New("response headers too large")

// RedirectError means that an upstream sent more redirects than the client follows.
type RedirectError struct{ Limit int }

func (e *RedirectError) Error() string { return fmt.Sprintf("more than %d redirects", e.Limit) }

// ForeignError means that a redirect would have sent the body of a request to another origin.
type ForeignError struct{ Origin string }

func (e *ForeignError) Error() string { return "a redirect would send the body to another origin" }

// StatusError means that a response had a status that the caller treats as a failure.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return fmt.Sprintf("status %d", e.Status) }

// handshakeError marks a failure between the TCP connection and the request.
type handshakeError struct {
	err      error
	demanded bool // the server requested a client certificate
}

func (e *handshakeError) Error() string { return "tls handshake: " + e.err.Error() }
func (e *handshakeError) Unwrap() error { return e.err }

// closed reports whether the server ended the connection, which may pass. close_notify is io.EOF.
func (e *handshakeError) closed() bool {
	switch alertOf(e.err) {
	case alertInternalError, alertUserCanceled:
		return true
	}
	return errors.Is(e.err, io.EOF) || errors.Is(e.err, io.ErrUnexpectedEOF)
}

// Class returns the kind of failure of an exchange: a Class constant, or "" for nil. Only the
// class of an error is stored, because the error's text may contain data that the other side
// sent.
func Class(err error) string {
	switch {
	case err == nil:
		return ""
	case is[*BlockedError](err):
		return ClassBlocked
	case is[*RedirectError](err), is[*ForeignError](err):
		return ClassRedirect
	case is[*StatusError](err):
		return ClassStatus
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrHeadersTooLarge):
		return ClassTooLarge
	case is[*CodingError](err), errors.Is(err, errLocation):
		return ClassMalformed
	case errors.Is(err, ErrBusy):
		return ClassBusy
	case is[*net.DNSError](err):
		return ClassDNS
	case timedOut(err):
		return ClassTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return ClassRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ClassReset
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return ClassUnreachable
	case tlsFailed(err):
		return ClassTLS
	}
	return ClassConnection
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// Connected reports whether a failure of the class tls happened after the handshake. With TLS 1.3, a
// server rejects a client only then, and the request may have been sent.
func Connected(err error) bool { return is[*alertError](err) }

// tlsFailed reports whether TLS failed, except if the server only closed the connection.
func tlsFailed(err error) bool {
	if e, ok := errors.AsType[*handshakeError](err); ok {
		return !e.closed()
	}
	return Connected(err)
}
