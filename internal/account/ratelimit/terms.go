package ratelimit

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
)

const (
	// termsLife is how long cached terms are used. Including the duration of a look-up, a change
	// takes effect everywhere within 3 s.
	termsLife = 2 * time.Second
	// termsRetry is the delay between a failed look-up and the next one.
	termsRetry = 250 * time.Millisecond
	// stalePatience is how long a decision waits for newer terms if it has cached terms.
	stalePatience = 5 * time.Millisecond
)

// unknownTerms are returned until the terms of a workspace can be read. They never cause a
// rejection; admitted requests are charged to the store later.
var unknownTerms = plan.Terms{RPS: 100}

// termsView holds the cached terms of a workspace.
type termsView struct {
	name    plan.Name
	terms   plan.Terms
	known   bool
	until   time.Time
	loading chan struct{} // closed when the look-up in progress ends; nil if none is in progress
}

// Terms returns the plan and the terms of a workspace, at most three seconds old. If the terms
// can't be read, it returns the cached plan and terms. If no terms are cached, known is false and
// the returned terms are high enough for any workspace.
func (l *Limiter) Terms(ctx context.Context, workspaceID uuid.UUID) (name plan.Name, terms plan.Terms, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &l.view(workspaceID).terms
	if time.Now().After(t.until) {
		if t.loading == nil { // concurrent callers share a look-up
			t.loading = make(chan struct{})
			l.background.Go(func() { l.readTerms(context.WithoutCancel(ctx), workspaceID) })
		}
		loading, patience := t.loading, l.patience
		if t.known {
			patience = stalePatience
		}
		l.mu.Unlock()
		timer := time.NewTimer(patience)
		select {
		case <-loading:
		case <-timer.C:
		}
		timer.Stop()
		l.mu.Lock()
		t = &l.view(workspaceID).terms
	}
	if !t.known {
		return "", unknownTerms, false
	}
	return t.name, t.terms, true
}

// readTerms reads the terms of a workspace. Their life starts before the query.
func (l *Limiter) readTerms(ctx context.Context, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(ctx, max(tripTimeout, l.patience))
	defer cancel()
	started := time.Now()
	name, terms, err := workspace.Terms(ctx, l.db, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.view(id)
	close(v.terms.loading)
	v.terms.loading = nil
	if err != nil {
		v.terms.until = time.Now().Add(termsRetry)
		return
	}
	v.terms = termsView{name: name, terms: terms, known: true, until: started.Add(termsLife)}
	if limitsOf(terms).none() {
		v.owed = nil // without limits, charges don't matter
	}
}

func limitsOf(terms plan.Terms) Limits { return Limits{RPS: terms.RPS, RPH: terms.RPH} }
