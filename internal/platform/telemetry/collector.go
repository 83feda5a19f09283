package telemetry

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

func counterVec(r *prometheus.Registry, name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(r).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func counter(r *prometheus.Registry, name, help string) prometheus.Counter {
	return promauto.With(r).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func gaugeVec(r *prometheus.Registry, name, help string, labels ...string) *prometheus.GaugeVec {
	return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func gauge(r *prometheus.Registry, name, help string) prometheus.Gauge {
	return promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func histogramVec(r *prometheus.Registry, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return promauto.With(r).NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func histogram(r *prometheus.Registry, name, help string, buckets []float64) prometheus.Histogram {
	return promauto.With(r).NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// sampled is a collector that reads all of its values together at each scrape.
type sampled struct {
	descs    []*prometheus.Desc
	kinds    []prometheus.ValueType
	readFunc func() ([]float64, error) // an error omits the metrics, instead of failing the scrape
}

// sample exports metrics by name and help. The names of counters end with _total.
func (m *Metrics) sample(readFunc func() ([]float64, error), prefix string, labels prometheus.Labels, metrics ...[2]string) {
	c := &sampled{readFunc: readFunc}
	for _, metric := range metrics {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(metric[0], "_total") {
			kind = prometheus.CounterValue
		}
		c.descs, c.kinds = append(c.descs, prometheus.NewDesc(prefix+metric[0], metric[1], nil, labels)), append(c.kinds, kind)
	}
	m.registry.MustRegister(c)
}

// Describe implements prometheus.Collector.
func (c *sampled) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range c.descs {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *sampled) Collect(out chan<- prometheus.Metric) {
	values, err := c.readFunc()
	if err != nil {
		return
	}
	for i, desc := range c.descs {
		out <- prometheus.MustNewConstMetric(desc, c.kinds[i], values[i])
	}
}

// WatchPool exports the connections of a pool.
func (m *Metrics) WatchPool(name string, pool *pgxpool.Pool) {
	if m == nil {
		return
	}
	m.sample(func() ([]float64, error) {
		s := pool.Stat()
		return []float64{
			float64(s.MaxConns()), float64(s.TotalConns()), float64(s.IdleConns()), float64(s.AcquiredConns()),
			float64(s.AcquireCount()), float64(s.EmptyAcquireCount()), s.AcquireDuration().Seconds(),
		}, nil
	}, "weft_pool_", prometheus.Labels{"pool": name}, [][2]string{
		{"connections_max", "Connections that the pool may have."},
		{"connections", "Open connections of the pool."},
		{"connections_idle", "Idle connections."},
		{"connections_acquired", "Connections in use."},
		{"acquires_total", "Connections acquired from the pool."},
		{"acquire_waits_total", "Times that a caller waited because no connection was idle."},
		{"acquire_seconds_total", "Time spent acquiring connections."},
	}...)
}

// databaseQuery returns what slows down a busy queue before it makes the queue fail.
const databaseQuery = `SELECT ARRAY[
	(SELECT COALESCE(sum(n_dead_tup), 0) FROM pg_stat_user_tables),
	h.oldest_snapshot,
	GREATEST(h.oldest_transaction, (SELECT extract(epoch FROM now() - min(prepared)) FROM pg_prepared_xacts WHERE database = current_database())),
	pg_notification_queue_usage(),
	(SELECT numbackends FROM pg_stat_database WHERE datname = current_database())
	]::float8[] FROM session_health() AS h`

// auditQuery returns the age of the last complete audit of the credits, and of the oldest
// verification of a checkpoint.
const auditQuery = `SELECT ARRAY[
	COALESCE(EXTRACT(epoch FROM now() - (SELECT audited_at FROM installation WHERE one)), 0),
	COALESCE(EXTRACT(epoch FROM now() - (SELECT min(verified_at) FROM credit_checkpoints)), 0)]::float8[]`

// WatchDatabase exports the health of the database behind pool.
func (m *Metrics) WatchDatabase(pool *pgxpool.Pool) {
	if m == nil {
		return
	}
	m.sample(withOldest(pool, querying(pool, databaseQuery)), "weft_database_", nil, [][2]string{
		{"dead_rows", "Rows that wait for vacuum."},
		{"oldest_snapshot_transactions", "Number of transactions since the oldest snapshot. Vacuum can't remove rows that died since."},
		{"oldest_transaction_seconds", "Age of the oldest open transaction."},
		{"notification_queue_usage", "Used part of the notification queue, 0 to 1."},
		{"connections", "Sessions of all processes on the database."},
	}...)
	m.sample(querying(pool, auditQuery), "weft_credit_audit_", nil, [][2]string{
		{"age_seconds", "Time since the start of the last complete audit of all credits, by any process. Alert above 7200."},
		{"unverified_seconds", "Age of the oldest verification of a checkpoint of postings. Alert above 2592000."},
	}...)
}

// transactionsQuery returns the transactions that hold a lock on a relation of the database, by their
// virtual IDs, which are never used twice. Every user sees them all, but not when they started:
// pg_stat_activity shows that only for the user's own sessions. Vacuum workers have no user.
const transactionsQuery = `SELECT COALESCE(array_agg(DISTINCT l.virtualtransaction), '{}')
	FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
	WHERE l.locktype = 'relation' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND a.usesysid IS NOT NULL`

// firstSeen remembers when transactions were first seen.
type firstSeen struct {
	mu sync.Mutex
	at map[string]time.Time
}

// oldest returns since when the oldest of the open transactions has been seen.
func (f *firstSeen) oldest(open []string, now time.Time) (age time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.at
	f.at = make(map[string]time.Time, len(open))
	for _, id := range open {
		since, known := before[id]
		if !known {
			since = now
		}
		f.at[id], age = since, max(age, now.Sub(since))
	}
	return age
}

// oldestAt is the place of the oldest transaction in the result of databaseQuery.
const oldestAt = 2

// withOldest adds the transactions of other users to the result of databaseQuery. Their age counts from
// the first sample that saw them.
func withOldest(pool *pgxpool.Pool, read func() ([]float64, error)) func() ([]float64, error) {
	var seen firstSeen
	return func() ([]float64, error) {
		values, err := read()
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		var open []string
		if err := pool.QueryRow(ctx, transactionsQuery).Scan(&open); err != nil {
			return nil, err
		}
		values[oldestAt] = max(values[oldestAt], seen.oldest(open, time.Now()).Seconds())
		return values, nil
	}
}

// querying returns a function that reads the array that a query returns.
func querying(pool *pgxpool.Pool, query string) func() ([]float64, error) {
	return func() (values []float64, err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		err = pool.QueryRow(ctx, query).Scan(&values)
		return values, err
	}
}
