package ratelimit

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
)

const (
	// termsLife is how long terms hold. With the look-up itself a change is in
	// force everywhere within 3 s.
	termsLife = 2 * time.Second
	// termsPause is the time between two look-ups while they fail.
	termsPause = 250 * time.Millisecond
	// termsPatience is how long a decision waits for terms when it has old ones.
	termsPatience = 5 * time.Millisecond
)

// termsView is what is known of the terms of a workspace.
type termsView struct {
	name    plan.Name
	terms   plan.Terms
	known   bool
	until   time.Time
	loading chan struct{} // closed when the look-up under way ends; nil when there is none
}

// loadTerms gives the terms of a workspace and looks them up when they are too
// old. Many that ask at once share one look-up.
func (l *Limiter) loadTerms(ctx context.Context, id uuid.UUID) termsView {
	l.mu.Lock()
	v := l.view(id)
	view := v.terms
	if time.Now().Before(view.until) {
		l.mu.Unlock()
		return view
	}
	if view.loading == nil {
		view.loading = make(chan struct{})
		v.terms.loading = view.loading
		l.later.Go(func() { l.lookUp(context.WithoutCancel(ctx), id, view.loading) })
	}
	l.mu.Unlock()
	wait := l.patience
	if view.known {
		wait = termsPatience
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-view.loading:
	case <-timer.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.view(id).terms
}

// lookUp reads the terms. Their life is counted from before the query.
func (l *Limiter) lookUp(ctx context.Context, id uuid.UUID, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, l.tripLimit)
	defer cancel()
	began := time.Now()
	name, terms, err := workspace.Terms(ctx, l.db, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(done)
	v := l.view(id)
	v.terms.loading = nil
	if err != nil {
		v.terms.until = time.Now().Add(termsPause)
		return
	}
	if (Limits{RPS: terms.RPS, RPH: terms.RPH}).none() {
		v.owed = nil // the store counts nothing of it
	}
	v.terms = termsView{name: name, terms: terms, known: true, until: began.Add(termsLife)}
}

// awaitTerms waits as long as a trip to the store may take for the first terms of a workspace and reports whether
// they are known.
func (l *Limiter) awaitTerms(ctx context.Context, id uuid.UUID) bool {
	ctx, cancel := context.WithTimeout(ctx, l.tripLimit)
	defer cancel()
	for {
		if l.loadTerms(ctx, id).known {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(termsPatience):
		}
	}
}
