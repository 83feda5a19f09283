package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// NotFound reports whether a query that must return a row returned no row.
func NotFound(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// Taken reports whether err is a violation of a unique key.
func Taken(err error) bool { return Raised(err, "23505") }

// Raised reports whether err is a PostgreSQL error with this code.
func Raised(err error, code string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == code
}

// Unavailable reports whether err means that the database can't serve at present: it is
// down, starting, stopping, read-only, full, out of connections or too slow, behind a
// pooler that Weft can't work through, or refused by a Gate. The same call may succeed later. If err
// is a DoubtError, the call may also have succeeded already.
func Unavailable(err error) bool {
	if _, ok := errors.AsType[*DoubtError](err); ok {
		return true
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, errGate) {
		return true
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(e.Code, "08"), strings.HasPrefix(e.Code, "53"), strings.HasPrefix(e.Code, "57P"):
			return true // connection, resources, operator intervention
		case e.Code == "25006", e.Code == "25P03", e.Code == "55P03", e.Code == "57014", e.Code == "58030", e.Code == "40001", e.Code == "40P01", e.Code == "0A000":
			// read-only, a transaction idle for too long, lock or statement timeout, I/O,
			// serialization, deadlock, and a cached plan that a migration has invalidated
			return true
		}
		return false
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*SessionError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, errRefused) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) ||
		strings.Contains(err.Error(), "conn closed")
}

// Recoverable reports whether a process that starts should wait for the database: Unavailable
// returns true for err, and the cause is not one that an operator has to fix first, namely a pooler
// that shares sessions or a certificate that is not trusted.
func Recoverable(err error) bool {
	if _, ok := errors.AsType[*SessionError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	return Unavailable(err)
}

// Refused reports whether PostgreSQL refused a statement for a reason that may be temporary. An
// error in the data itself (class 22) is permanent.
func Refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !strings.HasPrefix(e.Code, "22")
}
