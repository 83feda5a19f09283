package execution

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weft-automation/weft/gen/db"
)

// stalledAfter is how long work may lie ready while this process begins and ends
// nothing and has slots free. Slots that are full of components within their
// deadlines are no stall. It is told within 30 s (reliability OP-02).
const stalledAfter = 25 * time.Second

// Moving returns nil while this worker is fit to work: it is alive to the
// others, and it is not idle beside work that waits. A process can be up while
// nothing in it runs; readiness looks at progress for that reason.
func (r *Runner) Moving(ctx context.Context) error {
	if _, alive := r.identity.Worker(); !alive {
		return errors.New("the worker holds no session with the database")
	}
	full := int(r.inside.Load()) >= cap(r.slots) && cap(r.slots) > 0
	if full || time.Since(time.Unix(0, r.moved.Load())) < stalledAfter {
		return nil
	}
	waits, err := db.New().RiverJobOldestDue(ctx, r.DB, Queue)
	if err != nil {
		return fmt.Errorf("look at the queue: %w", err)
	}
	if waits > stalledAfter.Seconds() {
		return fmt.Errorf("work has been ready for %.0f s and none has begun here", waits)
	}
	return nil
}
