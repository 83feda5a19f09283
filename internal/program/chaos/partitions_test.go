package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// With a full load on the API and no partition for the current week, the partition exists within 30 s, and
// the log says so. Nothing that was acknowledged meanwhile is lost.
func TestThePartitionOfThisWeekIsCreatedUnderAFullLoad(t *testing.T) {
	if waittest.LeftToSoak(t, "internal/platform/retention.TestThePartitionOfThisWeekIsCreatedUnderLoad") {
		return
	}
	t.Parallel()
	s := newScene(t, ownServer(t, nil))
	s.exec(`DO $$ DECLARE week text := to_char(now() AT TIME ZONE 'UTC', 'IYYY"w"IW'); part regclass; BEGIN
		FOR part IN SELECT i.inhrelid::regclass FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
			WHERE c.relname LIKE '%\_' || week AND c.relkind = 'r' ORDER BY c.relname DESC LOOP
			EXECUTE 'DROP TABLE ' || part || ' CASCADE';
		END LOOP;
	END $$`)
	s.exec("DELETE FROM partition_weeks WHERE week <= now() AND week > now() - interval '7 days'")
	const ofThisWeek = `SELECT count(*) FROM pg_class WHERE relname = 'component_executions_' || to_char(now() AT TIME ZONE 'UTC', 'IYYY"w"IW')`
	if n := s.number(ofThisWeek); n != 0 {
		t.Fatalf("%d partitions are left", n)
	}

	s.start("serve")
	var loads []*backgroundLoad
	for range 12 {
		loads = append(loads, s.startLoad(time.Millisecond, func(i int) order { return order{tenant: i % 2, millis: i % 50, callback: i%4 == 0} }))
	}
	eventually(t, 30*time.Second, "rows of this week in the default partition", func() (bool, string) {
		return s.number("SELECT count(*) FROM component_executions_default") > 500, ""
	})
	worker := s.start("work") // its upkeep creates the partition
	took := eventually(t, 30*time.Second, "the partition of this week", func() (bool, string) {
		return s.number(ofThisWeek) == 1, worker.logged()
	})
	eventually(t, 10*time.Second, "the log to say so", func() (bool, string) {
		text := worker.logged()
		return strings.Contains(text, "created the partitions of a week"), text
	})
	for _, load := range loads {
		if err := load.stop(); err != nil {
			t.Errorf("a submission got neither 200 nor 503: %v", err)
		}
	}
	all := s.finish(time.Minute)
	figures.note(t, "the partition existed %.1f s after the worker started; all final %.1f s after the load; %s", took.Seconds(), all.Seconds(), s.summary())
}
