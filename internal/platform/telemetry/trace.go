package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
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

// propagator carries trace context over the wire and through stored rows. It
// works without an exporter too: a caller's trace then passes through Weft.
var propagator = propagation.TraceContext{}

// StartTracing sends spans to an OpenTelemetry collector over HTTP; with no
// endpoint it does nothing. Export is in the background and never delays or
// fails what it observes. The returned function sends what is left.
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
	otel.SetErrorHandler(&exportErrors{log: log})
	return provider.Shutdown, nil
}

// exportErrors logs failures of the exporter, at most one a minute: a collector
// that is away must not fill the log.
type exportErrors struct {
	log  *slog.Logger
	mu   sync.Mutex
	last time.Time
}

// Handle is called by OpenTelemetry.
func (e *exportErrors) Handle(err error) {
	e.mu.Lock()
	quiet := time.Since(e.last) < time.Minute
	if !quiet {
		e.last = time.Now()
	}
	e.mu.Unlock()
	if !quiet {
		e.log.Warn("traces could not be exported", "error", err)
	}
}

// StartSpan begins a span below the one in ctx. Attributes hold no secret and no
// payload.
func StartSpan(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	return otel.Tracer(instrumentation).Start(ctx, name, trace.WithAttributes(attrs...))
}

// EndSpan ends a span; code names what went wrong, "" for nothing. Messages stay
// out of traces: they may quote what a caller sent.
func EndSpan(span trace.Span, code string) {
	if code != "" {
		span.SetStatus(codes.Error, code)
	}
	span.End()
}

// FromHeader continues the trace that the caller's traceparent names, if any.
func FromHeader(ctx context.Context, header http.Header) context.Context {
	return propagator.Extract(ctx, propagation.HeaderCarrier(header))
}

// FromTraceparent continues a trace that was stored with a row.
func FromTraceparent(ctx context.Context, traceparent string) context.Context {
	return propagator.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

// Traceparent is the trace of ctx in its wire form, "" if there is none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier["traceparent"]
}
