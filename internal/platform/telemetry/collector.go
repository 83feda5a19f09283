package telemetry

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

func counterVec(r *prometheus.Registry, name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

func counter(r *prometheus.Registry, name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.MustRegister(c)
	return c
}

func gaugeVec(r *prometheus.Registry, name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.MustRegister(g)
	return g
}

func gauge(r *prometheus.Registry, name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.MustRegister(g)
	return g
}

func histogramVec(r *prometheus.Registry, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	r.MustRegister(h)
	return h
}

func histogram(r *prometheus.Registry, name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	r.MustRegister(h)
	return h
}

// poolCollector reads a pool's counters at each scrape.
type poolCollector struct {
	pool                                                    *pgxpool.Pool
	limit, total, idle, acquired, acquires, waits, waitTime *prometheus.Desc
}

func newPoolCollector(name string, pool *pgxpool.Pool) *poolCollector {
	describe := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc("weft_pool_"+metric, help, nil, prometheus.Labels{"pool": name})
	}
	return &poolCollector{
		pool:     pool,
		limit:    describe("connections_max", "Connections that the pool may have."),
		total:    describe("connections", "Open connections of the pool."),
		idle:     describe("connections_idle", "Idle connections."),
		acquired: describe("connections_acquired", "Connections in use."),
		acquires: describe("acquires_total", "Connections acquired from the pool."),
		waits:    describe("acquire_waits_total", "Times that a caller waited because no connection was idle."),
		waitTime: describe("acquire_seconds_total", "Time spent acquiring connections."),
	}
}

// Describe implements prometheus.Collector.
func (c *poolCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.limit, c.total, c.idle, c.acquired, c.acquires, c.waits, c.waitTime} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *poolCollector) Collect(out chan<- prometheus.Metric) {
	s := c.pool.Stat()
	for _, v := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{c.limit, prometheus.GaugeValue, float64(s.MaxConns())},
		{c.total, prometheus.GaugeValue, float64(s.TotalConns())},
		{c.idle, prometheus.GaugeValue, float64(s.IdleConns())},
		{c.acquired, prometheus.GaugeValue, float64(s.AcquiredConns())},
		{c.acquires, prometheus.CounterValue, float64(s.AcquireCount())},
		{c.waits, prometheus.CounterValue, float64(s.EmptyAcquireCount())},
		{c.waitTime, prometheus.CounterValue, s.AcquireDuration().Seconds()},
	} {
		out <- prometheus.MustNewConstMetric(v.desc, v.kind, v.value)
	}
}

// databaseCollector queries the server at each scrape for the causes that slow down a busy queue
// before they make it fail.
type databaseCollector struct {
	pool  *pgxpool.Pool
	query string // returns one column for each element of all
	all   []*prometheus.Desc
}

const databaseQuery = `SELECT
	(SELECT COALESCE(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables),
	h.oldest_snapshot, h.oldest_transaction,
	pg_notification_queue_usage(),
	(SELECT numbackends::float8 FROM pg_stat_database WHERE datname = current_database())
	FROM session_health() AS h`

// auditQuery returns the age of the last complete audit of the credits, and of the oldest
// verification of a checkpoint.
const auditQuery = `SELECT
	COALESCE(EXTRACT(epoch FROM now() - (SELECT audited_at FROM installation WHERE one)), 0)::float8,
	COALESCE(EXTRACT(epoch FROM now() - (SELECT min(verified_at) FROM credit_checkpoints)), 0)::float8`

// WatchDatabase exports the health of the database behind pool.
func (m *Metrics) WatchDatabase(pool *pgxpool.Pool) {
	if m == nil {
		return
	}
	describe := func(metric, help string) *prometheus.Desc {
		return prometheus.NewDesc("weft_database_"+metric, help, nil, nil)
	}
	m.registry.MustRegister(&databaseCollector{pool: pool, query: databaseQuery, all: []*prometheus.Desc{
		describe("dead_rows", "Rows that wait for vacuum."),
		describe("oldest_snapshot_transactions", "Number of transactions since the oldest snapshot. Vacuum can't remove rows that died since."),
		describe("oldest_transaction_seconds", "Age of the oldest open transaction."),
		describe("notification_queue_usage", "Used part of the notification queue, 0 to 1."),
		describe("connections", "Sessions of all processes on the database."),
	}})
	m.registry.MustRegister(&databaseCollector{pool: pool, query: auditQuery, all: []*prometheus.Desc{
		prometheus.NewDesc("weft_credit_audit_age_seconds", "Time since the start of the last complete audit of all credits, by any process. Alert above 7200.", nil, nil),
		prometheus.NewDesc("weft_credit_audit_unverified_seconds", "Age of the oldest verification of a checkpoint of postings. Alert above 2592000.", nil, nil),
	}})
}

// Describe implements prometheus.Collector.
func (c *databaseCollector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range c.all {
		out <- desc
	}
}

// Collect implements prometheus.Collector. If the database is unavailable, it omits its metrics
// instead of failing the scrape.
func (c *databaseCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	values := make([]float64, len(c.all))
	into := make([]any, len(values))
	for i := range values {
		into[i] = &values[i]
	}
	if err := c.pool.QueryRow(ctx, c.query).Scan(into...); err != nil {
		return
	}
	for i, desc := range c.all {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, values[i])
	}
}
