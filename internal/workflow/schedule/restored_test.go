package schedule_test

import (
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/workflow/schedule"
)

// The run of a time that is due in a restored database may have started after the backup.
func TestTimesBeforeTheReleaseAreSkipped(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	n := b.start(t)
	workflowID := n.save(t, waits, edge)
	due, queued, later := n.schedule(t, workflowID, schedule.Draft{}), n.schedule(t, workflowID, schedule.Draft{Overlap: "queue"}), n.schedule(t, workflowID, schedule.Draft{})
	b.due(t, due, time.Second)
	b.exec(t, "UPDATE schedules SET waiting = ARRAY[now() - interval '1 minute'] WHERE id = $1", queued.ID)
	before := n.show(t, later)
	if skipped, err := schedule.SkipDue(b.ctx, b.pool); err != nil || skipped != 2 {
		t.Fatalf("%d schedules skipped times (%v), want 2", skipped, err)
	}
	for name, key := range map[string]notify.Key{"due": due, "queued": queued} {
		shown := n.show(t, key)
		if shown.LastSkippedAt == nil || *shown.LastSkipReason != "restored" || len(shown.Waiting) != 0 || shown.NextAt == nil || !shown.NextAt.Std().After(time.Now()) || shown.LastRunID != nil {
			t.Errorf("%s: %+v", name, shown)
		}
	}
	if after := n.show(t, later); after.LastSkippedAt != nil || !after.NextAt.Std().Equal(before.NextAt.Std()) {
		t.Errorf("a schedule that was not due changed: %+v", after)
	}
}
