package telemetry

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weft-automation/weft/internal/kit/status"
)

// Labels are closed sets: route templates, module names, states, classes. They never contain an
// ID, an address or any other value that a caller chooses.
var (
	quick = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15}
	long  = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 900, 3600}
)

// Metrics are the metrics of a process. Methods are safe for concurrent use. On a nil Metrics they
// do nothing.
//
// Counters that are used for alerts start at 0 if their labels are known. Otherwise an alert on an
// increase would miss the first event.
type Metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	requestTime    *prometheus.HistogramVec
	authFailures   *prometheus.CounterVec
	auditLost      prometheus.Counter
	refusals       *prometheus.CounterVec
	connections    *prometheus.CounterVec
	limits         *prometheus.CounterVec
	submitted      *prometheus.CounterVec
	replayed       prometheus.Counter
	finished       *prometheus.CounterVec
	queueTime      *prometheus.HistogramVec
	attempts       *prometheus.CounterVec
	attemptTime    *prometheus.HistogramVec
	rescues        *prometheus.CounterVec
	postings       prometheus.Counter
	callbacks      *prometheus.CounterVec
	callbackTime   prometheus.Histogram
	sweeps         *prometheus.CounterVec
	repaired       *prometheus.CounterVec
	progress       *prometheus.GaugeVec
	ready          *prometheus.GaugeVec
	streams        *prometheus.GaugeVec
	waits          prometheus.Gauge
	backlog        *prometheus.GaugeVec
	backlogAge     *prometheus.GaugeVec
	drift          prometheus.Gauge
	audited        prometheus.Gauge
	listenFailures prometheus.Counter
	inDefault      prometheus.Gauge
}

// NewMetrics registers all metrics, including those of the Go runtime and of the process.
func NewMetrics(version string) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{registry: r}
	m.registerServing(r)
	m.registerExecutions(r)
	m.registerUpkeep(r)
	build := gaugeVec(r, "weft_build_info", "Always 1. The label is the version.", "version")
	build.WithLabelValues(version).Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) registerServing(r *prometheus.Registry) {
	m.requests = counterVec(r, "weft_http_requests_total", "Completed requests.", "method", "route", "status")
	m.requestTime = histogramVec(r, "weft_http_request_duration_seconds", "Time to the end of the response, except for streams.", quick, "method", "route")
	m.authFailures = counterVec(r, "weft_auth_failures_total", "Requests rejected by authentication.", "reason")
	m.auditLost = counter(r, "weft_audit_denials_lost_total", "Refusals (403) that were not written into the audit log, because there were too many or the database was unavailable.")
	m.refusals = counterVec(r, "weft_refusals_total", "Requests rejected by a limit.", "limit")
	m.connections = counterVec(r, "weft_connections_closed_total", "Connections closed because there are too many: evicted while waiting for their client (evicted), or not accepted because the limit of their address (address) or of the listener (full) was reached.", "reason")
	m.limits = counterVec(r, "weft_limit_decisions_total", "Decisions about limits of workspaces, by where they were made: store, memory (without asking the store), or degraded (the store was slow or down).", "by", "outcome")
	m.streams = gaugeVec(r, "weft_streams_open", "Open event streams.", "kind")
	m.waits = gauge(r, "weft_inline_waits_open", "Requests that wait for a result inline.")
	for _, reason := range []string{"evicted", "address", "full"} {
		m.connections.WithLabelValues(reason)
	}
	m.refusals.WithLabelValues("memory")
	for _, by := range []string{"store", "memory", "degraded"} {
		m.limits.WithLabelValues(by, "allowed")
		m.limits.WithLabelValues(by, "refused")
	}
	m.ready = gaugeVec(r, "weft_ready", "1 if a readiness check passes.", "check")
}

func (m *Metrics) registerExecutions(r *prometheus.Registry) {
	m.submitted = counterVec(r, "weft_executions_submitted_total", "Accepted executions.", "module")
	m.replayed = counter(r, "weft_idempotent_replays_total", "Submissions that repeated an idempotency key.")
	m.finished = counterVec(r, "weft_executions_finished_total", "Executions that became final.", "module", "state")
	m.queueTime = histogramVec(r, "weft_execution_queue_seconds", "Time from acceptance to the first start.", long, "module")
	m.attempts = counterVec(r, "weft_execution_attempts_total", "Finished attempts.", "module", "outcome")
	m.attemptTime = histogramVec(r, "weft_execution_attempt_duration_seconds", "Duration of attempts.", long, "module")
	m.rescues = counterVec(r, "weft_execution_rescues_total", "Executions rescued from lost workers.", "outcome")
	m.rescues.WithLabelValues("again")
	m.rescues.WithLabelValues("failed")
	m.postings = counter(r, "weft_usage_postings_total", "Usage postings written.")
	m.callbacks = counterVec(r, "weft_callback_attempts_total", "Callback attempts. The class is delivered or the kind of failure.", "class")
	m.callbackTime = histogram(r, "weft_callback_attempt_duration_seconds", "Duration of callback attempts.", quick)
}

func (m *Metrics) registerUpkeep(r *prometheus.Registry) {
	m.sweeps = counterVec(r, "weft_sweeps_total", "Rounds of upkeep.", "kind", "result")
	m.repaired = counterVec(r, "weft_sweep_repairs_total", "Repairs by upkeep.", "kind")
	m.progress = gaugeVec(r, "weft_loop_progress_timestamp_seconds", "Time of the last round of a loop. Alert if it doesn't advance.", "loop")
	m.backlog = gaugeVec(r, "weft_backlog", "Unfinished work.", "kind")
	m.backlogAge = gaugeVec(r, "weft_backlog_oldest_age_seconds", "Age of the oldest unfinished or due work.", "kind")
	m.inDefault = gauge(r, "weft_default_partition_executions", "Executions and runs outside of all weekly partitions at the last check. Alert if it is not 0.")
	m.drift = gauge(r, "weft_credit_drift", "Wrong rows found by the last audit of the credits. Alert if it is not 0.")
	m.audited = gauge(r, "weft_credit_audit_timestamp_seconds", "Time of the last complete audit of the credits by this process, or 0.")
	m.listenFailures = counter(r, "weft_listen_failures_total", "Times that the wake-up connection was lost.")
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Registry returns the registry, for further collectors.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

// Request counts a completed request. Route is the ServeMux pattern, with or without its method;
// "" means that no pattern matched. If elapsed is 0, no duration is recorded: the duration of a
// stream says nothing about speed.
func (m *Metrics) Request(method, route string, code int, elapsed time.Duration) {
	if m == nil {
		return
	}
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	if route == "" {
		route = "unmatched"
	}
	if !slices.Contains(methods, method) {
		method = "other"
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(code)).Inc()
	if elapsed > 0 {
		m.requestTime.WithLabelValues(method, route).Observe(elapsed.Seconds())
	}
}

// AuthFailed counts a request that authentication rejected, by the reason of the 401.
func (m *Metrics) AuthFailed(reason string) {
	if m != nil {
		m.authFailures.WithLabelValues(reason).Inc()
	}
}

// Refused counts a 429, by the limit that was reached.
func (m *Metrics) Refused(limit string) {
	if m != nil {
		m.refusals.WithLabelValues(limit).Inc()
	}
}

// AuditLost counts a denial that could not be written to the audit log.
func (m *Metrics) AuditLost() {
	if m != nil {
		m.auditLost.Inc()
	}
}

// LimitDecided counts a decision about a limit of a workspace. decider is store, memory or
// degraded.
func (m *Metrics) LimitDecided(decider string, allowed bool) {
	if m == nil {
		return
	}
	outcome := "refused"
	if allowed {
		outcome = "allowed"
	}
	m.limits.WithLabelValues(decider, outcome).Inc()
}

// StreamOpened counts an open stream until the returned function is called.
func (m *Metrics) StreamOpened(kind string) (closed func()) {
	if m == nil {
		return func() {}
	}
	open := m.streams.WithLabelValues(kind)
	open.Inc()
	return open.Dec
}

// WaitOpened counts an inline wait until the returned function is called.
func (m *Metrics) WaitOpened() (closed func()) {
	if m == nil {
		return func() {}
	}
	m.waits.Inc()
	return m.waits.Dec
}

// Ready records the result of a readiness check.
func (m *Metrics) Ready(check string, ok bool) {
	if m == nil {
		return
	}
	value := 0.0
	if ok {
		value = 1
	}
	m.ready.WithLabelValues(check).Set(value)
}

// Submitted counts an accepted execution.
func (m *Metrics) Submitted(module string) {
	if m != nil {
		m.submitted.WithLabelValues(module).Inc()
	}
}

// Replayed counts a submission that repeated an idempotency key.
func (m *Metrics) Replayed() {
	if m != nil {
		m.replayed.Inc()
	}
}

// Started records how long an execution waited for its first start.
func (m *Metrics) Started(module string, waited time.Duration) {
	if m != nil {
		m.queueTime.WithLabelValues(module).Observe(waited.Seconds())
	}
}

// Attempted counts an attempt. outcome is completed, failed, retry, waiting or interrupted.
func (m *Metrics) Attempted(module, outcome string, elapsed time.Duration) {
	if m != nil {
		m.attempts.WithLabelValues(module, outcome).Inc()
		m.attemptTime.WithLabelValues(module).Observe(elapsed.Seconds())
	}
}

// Finished counts an execution that became final, after its commit.
func (m *Metrics) Finished(module string, state status.Execution) {
	if m != nil {
		m.finished.WithLabelValues(module, string(state)).Inc()
	}
}

// Rescued counts an execution that was rescued from a lost worker. outcome is again or failed.
func (m *Metrics) Rescued(outcome string) {
	if m != nil {
		m.rescues.WithLabelValues(outcome).Inc()
	}
}

// Posted counts committed usage postings.
func (m *Metrics) Posted(n int) {
	if m != nil {
		m.postings.Add(float64(n))
	}
}

// CallbackAttempted counts a callback attempt. class is the kind of failure, or "" if the callback
// was delivered.
func (m *Metrics) CallbackAttempted(class string, elapsed time.Duration) {
	if m != nil {
		if class == "" {
			class = "delivered"
		}
		m.callbacks.WithLabelValues(class).Inc()
		m.callbackTime.Observe(elapsed.Seconds())
	}
}

// Swept counts a round of upkeep and its repairs. Both results of a kind exist as metrics from
// the first round, so that the first error shows as an increase.
func (m *Metrics) Swept(kind string, repairs int, err error) {
	if m == nil {
		return
	}
	result, other := "ok", "error"
	if err != nil {
		result, other = other, result
	}
	m.sweeps.WithLabelValues(kind, result).Inc()
	m.sweeps.WithLabelValues(kind, other)
	m.repaired.WithLabelValues(kind).Add(float64(repairs))
	m.Progressed("sweep_" + kind)
}

// Progressed records the time of a loop's round.
func (m *Metrics) Progressed(loop string) {
	if m != nil {
		m.progress.WithLabelValues(loop).SetToCurrentTime()
	}
}

// Backlog records how much work of a kind is unfinished, and the age of the oldest.
func (m *Metrics) Backlog(kind string, pieces int64, oldest time.Duration) {
	if m != nil {
		m.backlog.WithLabelValues(kind).Set(float64(pieces))
		m.backlogAge.WithLabelValues(kind).Set(oldest.Seconds())
	}
}

// Audited records how many wrong rows an audit of the credits found. An audit that isn't whole only
// updates the metric if it found wrong rows, because rows that it didn't check may still be wrong.
func (m *Metrics) Audited(drift int, whole bool) {
	if m == nil {
		return
	}
	if whole || drift > 0 {
		m.drift.Set(float64(drift))
	}
	if whole {
		m.audited.SetToCurrentTime()
	}
}

// ListenLost counts a loss of the wake-up connection.
func (m *Metrics) ListenLost() {
	if m != nil {
		m.listenFailures.Inc()
	}
}

// InDefaultPartitions records how many executions and runs are outside of all weekly
// partitions.
func (m *Metrics) InDefaultPartitions(found int64) {
	if m != nil {
		m.inDefault.Set(float64(found))
	}
}

// watch exports a gauge whose value is read at each scrape.
func (m *Metrics) watch(name, help string, labels prometheus.Labels, valueFunc func() float64) {
	if m != nil {
		promauto.With(m.registry).NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, valueFunc)
	}
}

// WatchStuck exports the number of calls that still run after their deadline.
func (m *Metrics) WatchStuck(stuck func() int) {
	m.watch("weft_stuck_calls", "Component calls that still run after they were abandoned at their deadline.", nil, func() float64 { return float64(stuck()) })
}

// WatchComputing exports the number of calls that are computing.
func (m *Metrics) WatchComputing(computing func() int) {
	m.watch("weft_computing_calls", "Calls of components without effect that are running. Their number is limited to the processors of the process.", nil, func() float64 { return float64(computing()) })
}

// WatchClock exports how far PostgreSQL's clock is ahead of this process's.
func (m *Metrics) WatchClock(ahead func() time.Duration) {
	m.watch("weft_clock_offset_seconds", "How far PostgreSQL's clock is ahead of this process's. If the difference exceeds WEFT_CLOCK_TOLERANCE in either direction, the process starts no work.",
		nil, func() float64 { return ahead().Seconds() })
}

// WatchMemory exports the bytes that requests and responses in flight hold.
func (m *Metrics) WatchMemory(held func() (unknown, known int64)) {
	const name, help = "weft_buffered_bytes", "Bytes that large requests and responses in flight hold: of callers that are not authenticated (unknown), and of workspaces (known)."
	m.watch(name, help, prometheus.Labels{"kind": "unknown"}, func() float64 { unknown, _ := held(); return float64(unknown) })
	m.watch(name, help, prometheus.Labels{"kind": "known"}, func() float64 { _, known := held(); return float64(known) })
}

// WatchConnections exports the number of open connections of the API.
func (m *Metrics) WatchConnections(open func() int) {
	m.watch("weft_connections_open", "Open connections of the API.", nil, func() float64 { return float64(open()) })
}

// ConnectionClosed counts a connection that was closed because there are too many.
func (m *Metrics) ConnectionClosed(reason string) {
	if m != nil {
		m.connections.WithLabelValues(reason).Inc()
	}
}
