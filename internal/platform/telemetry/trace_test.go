package telemetry

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestACallersTracePassesThrough(t *testing.T) {
	ctx := FromHeader(t.Context(), http.Header{"Traceparent": {traceparent}})
	if got := Traceparent(ctx); got != traceparent {
		t.Errorf("from the header: %q", got)
	}
	if got := Traceparent(FromTraceparent(t.Context(), traceparent)); got != traceparent {
		t.Errorf("from a row: %q", got)
	}
	for _, broken := range []string{"", "00-zz", strings.Repeat("0", 55), "00-00000000000000000000000000000000-b7ad6b7169203331-01"} {
		if got := Traceparent(FromTraceparent(t.Context(), broken)); got != "" {
			t.Errorf("%q became %q", broken, got)
		}
	}
}

func TestSpansAreExportedToTheEndpoint(t *testing.T) {
	got := make(chan []byte, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		got <- body
	}))
	defer collector.Close()
	stop, err := StartTracing(t.Context(), collector.URL, "v0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	ctx, span := StartSpan(FromTraceparent(t.Context(), traceparent), "execution.attempt")
	if parent := Traceparent(ctx); !strings.HasPrefix(parent, traceparent[:35]) || parent == traceparent {
		t.Errorf("the span %q does not continue the trace", parent)
	}
	var out bytes.Buffer
	NewLogger(&out, slog.LevelInfo).InfoContext(ctx, "at work")
	if id := decoded(t, out.Bytes())["trace_id"]; id != traceparent[3:35] {
		t.Errorf("trace_id = %v", id)
	}
	EndSpan(span, "TIMEOUT")
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if body := <-got; !bytes.Contains(body, []byte("execution.attempt")) || !bytes.Contains(body, []byte("TIMEOUT")) {
		t.Errorf("the collector got %q", body)
	}
}

func TestTracingIsOffWithoutAnEndpoint(t *testing.T) {
	stop, err := StartTracing(t.Context(), "", "v0", slog.New(slog.DiscardHandler))
	if err != nil || stop(t.Context()) != nil {
		t.Errorf("%v", err)
	}
	if _, span := StartSpan(t.Context(), "x"); span.IsRecording() {
		t.Error("a span is recorded without an endpoint")
	}
}

func TestExportErrorsAreLoggedAtMostOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	handler := &exportErrors{log: NewLogger(&out, slog.LevelInfo)}
	for range 5 {
		handler.Handle(errors.New("down"))
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1 {
		t.Errorf("%d lines", lines)
	}
}
