package protocol

import (
	"context"
	"net/http"
	"time"
)

// partTime is how long a client may take to receive one part of a response, and how long its
// source may take to produce the next part.
const partTime = 15 * time.Second

// Sending is a response of unlimited length that is written in parts. Each part has its own
// deadline. The timeout of the handler doesn't apply.
type Sending struct {
	Context context.Context //nolint:containedctx // canceled when a part is late
	control *http.ResponseController
	late    *time.Timer
	cancel  context.CancelFunc
}

// Parts returns a Sending. Its context isn't canceled with ctx. If the client disconnects, the
// writes fail.
func Parts(ctx context.Context, w http.ResponseWriter) Sending {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return Sending{Context: ctx, control: http.NewResponseController(w), late: time.AfterFunc(2*partTime, cancel), cancel: cancel}
}

// Next starts the deadline of the next part.
func (s Sending) Next() {
	s.late.Reset(2 * partTime)
	_ = s.control.SetWriteDeadline(time.Now().Add(partTime))
}

// Finish cancels the context and releases the timer.
func (s Sending) Finish() {
	s.late.Stop()
	s.cancel()
}
