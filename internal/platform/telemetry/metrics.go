package telemetry

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weft-automation/weft/internal/kit/status"
)

// Labels are closed sets: route templates, module names of the registry, states,
// classes. Never an id, an address or anything else that a caller chooses.
var (
	quick = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15}
	long  = []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 900, 3600}
)

// Metrics counts. Its methods may be called from everywhere at once, and on nil,
// where they do nothing.
//
// Counters to alert on start at 0 where their labels are known: an alert on an increase
// misses the first event of a series that starts at 1.
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

// NewMetrics makes the set, with Go's and the process's own beside it.
func NewMetrics(version string) *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{registry: r}
	m.registerServing(r)
	m.registerExecutions(r)
	m.registerUpkeep(r)
	build := gaugeVec(r, "weft_build_info", "Always 1; the version is the label.", "version")
	build.WithLabelValues(version).Set(1)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *Metrics) registerServing(r *prometheus.Registry) {
	m.requests = counterVec(r, "weft_http_requests_total", "Answered requests.", "method", "route", "status")
	m.requestTime = histogramVec(r, "weft_http_request_duration_seconds", "Time to the end of the answer, streams aside.", quick, "method", "route")
	m.authFailures = counterVec(r, "weft_auth_failures_total", "Requests refused by authentication.", "reason")
	m.auditLost = counter(r, "weft_audit_denials_lost_total", "Refusals (403) that were not written into the audit log: too many, or the database was away.")
	m.refusals = counterVec(r, "weft_refusals_total", "Requests refused by a limit.", "limit")
	m.connections = counterVec(r, "weft_connections_closed_total", "Connections closed because there are too many: evicted while they waited for a request, or not accepted because their address (address) or the listener (full) has as many as it may.", "reason")
	m.limits = counterVec(r, "weft_limit_decisions_total", "Decisions on limits of workspaces, by where they were made: store, memory (what the store need not be asked for), or degraded, because the store was slow or down.", "by", "outcome")
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
	m.ready = gaugeVec(r, "weft_ready", "1 when a readiness check passes.", "check")
}

func (m *Metrics) registerExecutions(r *prometheus.Registry) {
	m.submitted = counterVec(r, "weft_executions_submitted_total", "Accepted executions.", "module")
	m.replayed = counter(r, "weft_idempotent_replays_total", "Submissions answered from an idempotency key.")
	m.finished = counterVec(r, "weft_executions_finished_total", "Executions that became final.", "module", "state")
	m.queueTime = histogramVec(r, "weft_execution_queue_seconds", "From acceptance to the first start.", long, "module")
	m.attempts = counterVec(r, "weft_execution_attempts_total", "Ended attempts.", "module", "outcome")
	m.attemptTime = histogramVec(r, "weft_execution_attempt_duration_seconds", "Length of attempts.", long, "module")
	m.rescues = counterVec(r, "weft_execution_rescues_total", "Executions taken from a worker that was lost.", "outcome")
	m.rescues.WithLabelValues("again")
	m.rescues.WithLabelValues("failed")
	m.postings = counter(r, "weft_usage_postings_total", "Usage postings written.")
	m.callbacks = counterVec(r, "weft_callback_attempts_total", "Callback attempts; class is delivered or the kind of failure.", "class")
	m.callbackTime = histogram(r, "weft_callback_attempt_duration_seconds", "Length of callback attempts.", quick)
}

func (m *Metrics) registerUpkeep(r *prometheus.Registry) {
	m.sweeps = counterVec(r, "weft_sweeps_total", "Runs of upkeep.", "kind", "result")
	m.repaired = counterVec(r, "weft_sweep_repairs_total", "What upkeep found and put right.", "kind")
	m.progress = gaugeVec(r, "weft_loop_progress_timestamp_seconds", "When a loop last went round. Alert when it stands still.", "loop")
	m.backlog = gaugeVec(r, "weft_backlog", "Unfinished work.", "kind")
	m.backlogAge = gaugeVec(r, "weft_backlog_oldest_age_seconds", "Age of the oldest unfinished or due piece of work.", "kind")
	m.inDefault = gauge(r, "weft_default_partition_executions", "Executions and runs found in no week's partition by the last look. Alert when it is not 0.")
	m.drift = gauge(r, "weft_credit_drift", "Rows that the last audit of the credits found wrong. Alert on anything but 0.")
	m.audited = gauge(r, "weft_credit_audit_timestamp_seconds", "When the credits were last audited to the end, on the process that did it; 0 where none was.")
	m.listenFailures = counter(r, "weft_listen_failures_total", "Times that the wake-up connection was lost.")
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Registry takes further collectors.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

// Request counts an answered request. Route is the ServeMux pattern, with or
// without its method; "" means that none matched. A stream's length says nothing
// about speed: give elapsed 0 to leave it out.
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

// AuthFailed counts a refused signature, by the reason of the 401.
func (m *Metrics) AuthFailed(reason string) {
	if m != nil {
		m.authFailures.WithLabelValues(reason).Inc()
	}
}

// Refused counts a 429, by the limit that was hit.
func (m *Metrics) Refused(limit string) {
	if m != nil {
		m.refusals.WithLabelValues(limit).Inc()
	}
}

// AuditLost counts a denial that the audit log does not hold.
func (m *Metrics) AuditLost() {
	if m != nil {
		m.auditLost.Inc()
	}
}

// LimitDecided counts a decision on a limit of a workspace: by is store, memory or
// degraded.
func (m *Metrics) LimitDecided(by string, allowed bool) {
	if m == nil {
		return
	}
	outcome := "refused"
	if allowed {
		outcome = "allowed"
	}
	m.limits.WithLabelValues(by, outcome).Inc()
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

// Ready notes the outcome of a readiness check.
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

// Replayed counts a submission that an idempotency key answered.
func (m *Metrics) Replayed() {
	if m != nil {
		m.replayed.Inc()
	}
}

// Started notes how long an execution waited for its first start.
func (m *Metrics) Started(module string, waited time.Duration) {
	if m != nil {
		m.queueTime.WithLabelValues(module).Observe(waited.Seconds())
	}
}

// Attempted counts an attempt: outcome is completed, failed, retry, waiting or
// fenced.
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

// Rescued counts an execution taken from a lost worker: outcome is again or
// failed.
func (m *Metrics) Rescued(outcome string) {
	if m != nil {
		m.rescues.WithLabelValues(outcome).Inc()
	}
}

// Posted counts usage postings, after their commit.
func (m *Metrics) Posted(n int) {
	if m != nil {
		m.postings.Add(float64(n))
	}
}

// CallbackAttempted counts an attempt: class is the kind of failure, "" when it
// delivered.
func (m *Metrics) CallbackAttempted(class string, elapsed time.Duration) {
	if m != nil {
		if class == "" {
			class = "delivered"
		}
		m.callbacks.WithLabelValues(class).Inc()
		m.callbackTime.Observe(elapsed.Seconds())
	}
}

// Swept counts a run of upkeep and what it put right. Both results of a kind exist from
// its first run, so that the first error is seen as an increase.
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

// Progressed notes that a loop went round.
func (m *Metrics) Progressed(loop string) {
	if m != nil {
		m.progress.WithLabelValues(loop).SetToCurrentTime()
	}
}

// Backlog notes how much work of a kind is unfinished and how old the oldest
// piece is.
func (m *Metrics) Backlog(kind string, pieces int64, oldest time.Duration) {
	if m != nil {
		m.backlog.WithLabelValues(kind).Set(float64(pieces))
		m.backlogAge.WithLabelValues(kind).Set(oldest.Seconds())
	}
}

// Audited notes how many rows an audit of the credits found wrong, and whether it
// looked at the whole of them: what it did not see is as it was before.
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

// InDefaultPartitions notes how many executions and runs were found in no week's
// partition.
func (m *Metrics) InDefaultPartitions(found int64) {
	if m != nil {
		m.inDefault.Set(float64(found))
	}
}

// WatchStuck shows how many calls were given up and still run.
func (m *Metrics) WatchStuck(stuck func() int) {
	if m != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_stuck_calls", Help: "Component calls that were given up at their deadline and still run.",
		}, func() float64 { return float64(stuck()) }))
	}
}

// WatchClock shows how far PostgreSQL's clock is ahead of this process's.
func (m *Metrics) WatchClock(ahead func() time.Duration) {
	if m != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_clock_offset_seconds", Help: "How far PostgreSQL's clock is ahead of this process's. Beyond WEFT_CLOCK_TOLERANCE either way the process starts no work.",
		}, func() float64 { return ahead().Seconds() }))
	}
}

// WatchPool shows the connections of a pool.
func (m *Metrics) WatchPool(name string, pool *pgxpool.Pool) {
	if m != nil {
		m.registry.MustRegister(newPoolCollector(name, pool))
	}
}
