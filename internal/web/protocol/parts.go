package protocol

import (
	"context"
	"net/http"
	"time"
)

// partTime is how long a client may take to receive one part of an answer, and its
// source to give the next one.
const partTime = 15 * time.Second

// Sending is an answer that is written a part at a time and whose length has no
// bound: each part has a time of its own, and that of the handler does not end it.
type Sending struct {
	Context context.Context //nolint:containedctx // what the parts are made under
	control *http.ResponseController
	late    *time.Timer
	cancel  context.CancelFunc
}

// Parts begins such an answer. Its context does not end with ctx: who has gone away
// is noticed by the writes.
func Parts(ctx context.Context, w http.ResponseWriter) Sending {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return Sending{Context: ctx, control: http.NewResponseController(w), late: time.AfterFunc(2*partTime, cancel), cancel: cancel}
}

// Next begins the next part.
func (s Sending) Next() {
	s.late.Reset(2 * partTime)
	_ = s.control.SetWriteDeadline(time.Now().Add(partTime))
}

// End gives free what the answer held.
func (s Sending) End() {
	s.late.Stop()
	s.cancel()
}
