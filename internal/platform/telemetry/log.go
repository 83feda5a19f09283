// Package telemetry shows operators the state of Weft: JSON logs, Prometheus metrics, and traces if
// an endpoint is set.
//
// External input can't break a log line, fill the disk, or bring an ID, an address or a secret into
// a metric.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"
)

// The maximum lengths of values in log lines.
const (
	maxValue = 1 << 10
	maxStack = 8 << 10
)

// Stack is the goroutine stack of a panic. It may be longer than other values of the log.
type Stack string

// NewLogger returns a logger that writes one line of JSON per record. Times are in UTC, values are
// truncated and escaped, and the attributes of the context are added.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(&handler{next: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: sanitize})})
}

// handler adds the attributes of the context.
type handler struct{ next slog.Handler }

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler { return &handler{h.next.WithAttrs(attrs)} }

func (h *handler) WithGroup(name string) slog.Handler { return &handler{h.next.WithGroup(name)} }

func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	record.AddAttrs(contextAttrs(ctx)...)
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.next.Handle(ctx, record)
}

// secretNames are the attributes whose value is never logged, regardless of the value's type.
var secretNames = []string{
	"authorization", "cookie", "password", "secret", "token", "api_key", "api_secret", "private_key",
	"callback_secret", "callback_headers", "master_key", "database_url", "dsn",
}

// sanitize makes an attribute safe to print.
func sanitize(_ []string, attr slog.Attr) slog.Attr {
	if slices.Contains(secretNames, strings.ToLower(attr.Key)) {
		return slog.String(attr.Key, "***")
	}
	switch attr.Value.Kind() {
	case slog.KindString:
		return slog.String(attr.Key, clean(attr.Value.String(), maxValue))
	case slog.KindTime:
		return slog.String(attr.Key, attr.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	case slog.KindDuration:
		return slog.Float64(attr.Key, attr.Value.Duration().Seconds())
	case slog.KindAny:
		return slog.Attr{Key: attr.Key, Value: sanitizeAny(attr.Value.Any())}
	}
	return attr
}

// sanitizeAny prints values of known types. Of other values, it prints only the type, so that a
// struct that gains a secret field doesn't leak the field.
func sanitizeAny(value any) (shown slog.Value) {
	defer func() {
		if recover() != nil { // a method of a nil pointer
			shown = slog.StringValue(fmt.Sprintf("(%T)", value))
		}
	}()
	switch v := value.(type) {
	case nil:
		return slog.AnyValue(nil)
	case error:
		return slog.StringValue(clean(errorText(v), maxValue))
	case Stack:
		return slog.StringValue(clean(string(v), maxStack))
	case json.RawMessage:
		return slog.StringValue(strconv.Itoa(len(v)) + " bytes of JSON")
	case []byte:
		return slog.StringValue(strconv.Itoa(len(v)) + " bytes")
	case http.Header:
		return slog.StringValue(clean(strings.Join(headerNames(v), " "), maxValue))
	case *url.URL:
		return slog.StringValue(clean(origin(v), maxValue))
	case slog.Level:
		return slog.StringValue(v.String())
	case []string:
		return slog.StringValue(clean(strings.Join(v, " "), maxValue))
	case []int32:
		return slog.StringValue(clean(strings.Trim(fmt.Sprint(v), "[]"), maxValue))
	case time.Time:
		return slog.StringValue(v.UTC().Format(time.RFC3339Nano))
	case fmt.Stringer:
		return slog.StringValue(clean(v.String(), maxValue))
	}
	return slog.StringValue(fmt.Sprintf("(%T)", value))
}

func headerNames(header http.Header) []string {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// origin returns a URL without the parts that may be secret: user, path and query.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// errorText returns the text of an error without the URLs that net/http includes. The paths and
// queries of these URLs may contain keys.
func errorText(err error) string {
	text := err.Error()
	if failed, ok := errors.AsType[*url.Error](err); ok && failed.URL != "" {
		short := "(address)"
		if u, err := url.Parse(failed.URL); err == nil {
			short = origin(u)
		}
		text = strings.ReplaceAll(text, strconv.Quote(failed.URL), strconv.Quote(short))
		text = strings.ReplaceAll(text, failed.URL, short)
	}
	return text
}

// clean escapes characters that could affect a terminal or a log reader (control characters, line
// separators, direction marks, invalid UTF-8), and truncates the text at limit bytes.
func clean(text string, limit int) string {
	if len(text) <= limit && harmless(text) {
		return text
	}
	out := make([]byte, 0, min(len(text), limit)+16)
	for i, r := range text {
		size := len(out)
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			out = fmt.Appendf(out, `\x%02x`, text[i])
		case dangerous(r):
			quoted := strconv.QuoteRuneToASCII(r)
			out = append(out, quoted[1:len(quoted)-1]...)
		default:
			out = utf8.AppendRune(out, r)
		}
		if len(out) > limit {
			return string(out[:size]) + "…"
		}
	}
	return string(out)
}

func harmless(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c >= 0x7f {
			return utf8.ValidString(text) && !strings.ContainsFunc(text, dangerous)
		}
	}
	return true
}

func dangerous(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}
