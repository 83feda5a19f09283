package hook

import (
	"errors"
	"time"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/status"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// respondWithin is how long a delivery waits for the response of its run.
const respondWithin = 15 * time.Second

// answered returns what the sender of a delivery gets from a hook that responds. It returns
// RUN_FAILED for a run that failed or was canceled before its RESPOND, with the ID of the run alone:
// details are for the owner of the hook.
func answered(t run.Triggered) (Received, error) {
	received := Received{Triggered: t}
	switch {
	case t.Run == nil: // not waited for, or no longer stored
		received.Finished = new(t.Replayed && t.JobID == 0)
	case t.Run.OutputProblem != nil:
		return received, errors.New("decrypt the response of a run for the sender of a delivery")
	case t.Run.Output != nil:
		received.Output = t.Run.Output
	case t.Run.Status.Terminal() && t.Run.Status != status.RunCompleted:
		return received, &fault.Error{
			Code: fault.RunFailed, Message: "The run of this delivery failed or was cancelled.", Extra: map[string]any{"runId": t.RunID},
		}
	default:
		received.Finished = new(t.Run.Status.Terminal())
	}
	return received, nil
}
