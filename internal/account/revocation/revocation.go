// Package revocation cancels the contexts of open streams when their caller loses access.
package revocation

import (
	"context"
	"sync"
	"time"
)

// every is the interval between checks of the callers with open streams. Even if one check fails,
// the next is within the 5 s of decisions 2.6 and 2.11.
const every = 2 * time.Second

// Watch cancels the contexts of streams whose caller has lost access. A Caller identifies the
// credentials of a stream. One query checks all callers with open streams. While no stream is open,
// no goroutine runs. Create it with New.
type Watch[Caller comparable] struct {
	cause error
	lost  func(context.Context, []Caller) ([]Caller, error)

	mu      sync.Mutex
	streams map[Caller]map[*stream]struct{}
	quit    chan struct{} // stops the goroutine; nil while no stream is open
}

type stream struct{ cancel context.CancelCauseFunc }

// New returns a Watch that cancels with cause. lost returns those of the callers that have lost
// access.
func New[Caller comparable](cause error, lost func(context.Context, []Caller) ([]Caller, error)) *Watch[Caller] {
	return &Watch[Caller]{cause: cause, lost: lost, streams: map[Caller]map[*stream]struct{}{}}
}

// Until returns a context for a stream of the caller. It is canceled with the cause of the Watch
// within 5 s after the caller has lost access. Call stop when the stream is closed.
func (w *Watch[Caller]) Until(ctx context.Context, caller Caller) (_ context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{cancel: cancel}
	w.add(caller, s)
	return ctx, func() {
		w.remove(caller, s)
		cancel(context.Canceled)
	}
}

func (w *Watch[Caller]) add(caller Caller, s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams[caller] == nil {
		w.streams[caller] = make(map[*stream]struct{})
	}
	w.streams[caller][s] = struct{}{}
	if w.quit == nil {
		w.quit = make(chan struct{})
		go w.run(w.quit)
	}
}

func (w *Watch[Caller]) remove(caller Caller, s *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.streams[caller], s)
	if len(w.streams[caller]) == 0 {
		delete(w.streams, caller)
	}
	if len(w.streams) == 0 && w.quit != nil {
		close(w.quit)
		w.quit = nil
	}
}

// run checks the callers until quit is closed.
func (w *Watch[Caller]) run(quit <-chan struct{}) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-quit:
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), every)
		lost, err := w.lost(ctx, w.callers())
		cancel()
		if err != nil {
			continue // a database that is down accepts no revocations either; try again
		}
		for _, caller := range lost {
			w.end(caller)
		}
	}
}

// callers returns the callers with open streams.
func (w *Watch[Caller]) callers() []Caller {
	w.mu.Lock()
	defer w.mu.Unlock()
	callers := make([]Caller, 0, len(w.streams))
	for caller := range w.streams {
		callers = append(callers, caller)
	}
	return callers
}

func (w *Watch[Caller]) end(caller Caller) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.streams[caller] {
		s.cancel(w.cause)
	}
}
