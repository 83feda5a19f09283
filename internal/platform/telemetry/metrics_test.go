package telemetry

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/local/pgtest"
)

// touch calls all methods that count.
func touch(m *Metrics) {
	m.Request("GET", "GET /v1/sdk/components/{module}", 200, time.Millisecond)
	m.Request("BREW", "", 404, time.Millisecond)
	m.AuthFailed("missing_signature")
	m.Refused("requests_per_second")
	m.StreamOpened("component")()
	m.WaitOpened()()
	m.Ready("database", true)
	m.Ready("workers", false)
	m.Submitted("HASH")
	m.Replayed()
	m.Started("HASH", time.Second)
	m.Attempted("HASH", "completed", time.Second)
	m.Finished("HASH", status.ExecutionCompleted)
	m.Rescued("again")
	m.Posted(2)
	m.CallbackAttempted("delivered", time.Second)
	m.Swept("liveness", 3, nil)
	m.Progressed("fetch")
	m.Backlog("executions", 4, time.Minute)
	m.ListenLost()
	m.InDefaultPartitions(7)
}

func TestMetricsAreServed(t *testing.T) {
	m := NewMetrics("v1.2.3")
	m.WatchPool("api", pgtest.DB(t))
	m.WatchDatabase(pgtest.DB(t))
	touch(m)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`weft_http_requests_total{method="GET",route="/v1/sdk/components/{module}",status="200"} 1`,
		`weft_http_requests_total{method="other",route="unmatched",status="404"} 1`,
		`weft_executions_finished_total{module="HASH",state="COMPLETED"} 1`,
		`weft_usage_postings_total 2`,
		`weft_sweep_repairs_total{kind="liveness"} 3`,
		`weft_streams_open{kind="component"} 0`,
		`weft_ready{check="workers"} 0`,
		`weft_backlog_oldest_age_seconds{kind="executions"} 60`,
		`weft_pool_connections_max{pool="api"} 4`,
		`weft_default_partition_executions 7`,
		`weft_database_notification_queue_usage `,
		`weft_credit_audit_age_seconds 0`,
		`weft_credit_audit_unverified_seconds 0`,
		`weft_build_info{version="v1.2.3"} 1`,
		`go_goroutines`,
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// An alert on an increase would miss the first event of a series that starts at 1.
func TestCountersToAlertOnStartAtZero(t *testing.T) {
	m := NewMetrics("v0")
	m.Swept("liveness", 0, nil)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`weft_connections_closed_total{reason="address"} 0`,
		`weft_connections_closed_total{reason="evicted"} 0`,
		`weft_connections_closed_total{reason="full"} 0`,
		`weft_limit_decisions_total{by="degraded",outcome="allowed"} 0`,
		`weft_limit_decisions_total{by="degraded",outcome="refused"} 0`,
		`weft_execution_rescues_total{outcome="failed"} 0`,
		`weft_refusals_total{limit="memory"} 0`,
		`weft_sweeps_total{kind="liveness",result="error"} 0`,
		`weft_audit_denials_lost_total 0`,
		`weft_listen_failures_total 0`,
	} {
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s is missing", want)
		}
	}
}

// A label with an ID or an address would create a series for each caller.
func TestLabelsAreClosedSets(t *testing.T) {
	allowed := []string{
		"method", "route", "status", "reason", "limit", "kind", "check", "module", "state", "outcome",
		"class", "result", "rule", "loop", "pool", "version", "by",
	}
	m := NewMetrics("v0")
	touch(m)
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.HasPrefix(family.GetName(), "weft_") && !slices.Contains(allowed, label.GetName()) {
					t.Errorf("%s has the label %s", family.GetName(), label.GetName())
				}
			}
		}
	}
}

func TestNilMetricsDoNothing(t *testing.T) {
	var m *Metrics
	touch(m)
	m.WatchPool("api", (*pgxpool.Pool)(nil))
	m.WatchDatabase(nil)
}

func TestOtherMetricsAreServedWhileTheDatabaseIsDown(t *testing.T) {
	m := NewMetrics("v0")
	pool := pgtest.DB(t)
	m.WatchDatabase(pool)
	pool.Close()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) == 0 {
		t.Error("no metrics at all")
	}
}
