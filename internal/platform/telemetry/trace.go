package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const instrumentation = "github.com/weft-automation/weft"

// propagator passes trace context over the wire and through stored rows. It also works without
// an exporter: in that case, a caller's trace passes through Weft.
var propagator = propagation.TraceContext{}

// tracing reports whether spans are exported.
var tracing atomic.Bool

// StartTracing sends spans to an OpenTelemetry collector over HTTP. Without an endpoint it does
// nothing. Spans are exported in the background, which never delays or fails the traced work.
// The returned function sends the remaining spans.
func StartTracing(ctx context.Context, endpoint, version string, log *slog.Logger) (func(context.Context) error, error) {
	if endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(strings.TrimSuffix(endpoint, "/")+"/v1/traces"))
	if err != nil {
		return nil, fmt.Errorf("trace exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "weft"), attribute.String("service.version", version),
		)),
	)
	otel.SetTracerProvider(provider)
	tracing.Store(true)
	otel.SetErrorHandler(&exportErrors{log: log})
	return provider.Shutdown, nil
}

// exportErrors logs failures of the exporter, at most one failure a minute, so that an
// unavailable collector doesn't fill the log.
type exportErrors struct {
	log  *slog.Logger
	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (e *exportErrors) Handle(err error) {
	e.mu.Lock()
	quiet := time.Since(e.last) < time.Minute
	if !quiet {
		e.last = time.Now()
	}
	e.mu.Unlock()
	if !quiet {
		e.log.Warn("could not export traces", "error", err)
	}
}

// StartSpan starts a child span of the span in ctx. If spans are not exported, it returns ctx and
// the span in ctx, which records nothing. Attributes must not contain secrets or payloads.
func StartSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if !tracing.Load() {
		return ctx, trace.SpanFromContext(ctx)
	}
	return otel.Tracer(instrumentation).Start(ctx, name, trace.WithAttributes(attrs...))
}

// EndSpan ends a span. code is the error code, or "" for success. Traces contain no messages,
// because they may quote the caller's input.
func EndSpan(span trace.Span, code string) {
	if code != "" {
		span.SetStatus(codes.Error, code)
	}
	span.End()
}

// FromHeader continues the trace of the caller's traceparent header, if there is one.
func FromHeader(ctx context.Context, header http.Header) context.Context {
	return propagator.Extract(ctx, propagation.HeaderCarrier(header))
}

// FromTraceparent continues a trace that was stored with a row.
func FromTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagator.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// Traceparent returns the trace of ctx in its wire form, or "".
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier["traceparent"]
}
