package server

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/ratelimit"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/contract"
)

// The fields that say what a workspace may ask, and what is left of it.
const (
	headerPolicy = "RateLimit-Policy"
	headerLimit  = "RateLimit"
)

// overLimit says which limit was hit.
var overLimit = map[ratelimit.Policy]string{
	ratelimit.Second: "This workspace makes more requests in a second than its plan allows. Wait as long as Retry-After says.",
	ratelimit.Hour:   "This workspace has made as many requests in the last hour as its plan allows. Wait as long as Retry-After says.",
}

// take charges the workspace for the request, or refuses it.
func (f *front) take(w http.ResponseWriter, r *http.Request, operation *contract.Operation, call *call) error {
	d := f.limiter.Take(r.Context(), call.workspaceID(), operation.Cost)
	call.taken = d
	if policy := d.PolicyField(); policy != "" {
		w.Header().Set(headerPolicy, policy)
		w.Header().Set(headerLimit, d.Field(0))
	}
	return refusalOf(d)
}

// refusalOf is the refusal that a decision is, if it is one.
func refusalOf(d ratelimit.Decision) error {
	if d.Allowed {
		return nil
	}
	refusal := fault.New(fault.RateLimited, "%s", overLimit[d.Violated])
	refusal.Reason, refusal.RetryAfter = string(d.Violated), d.Wait
	return refusal
}

// giveBack makes a request that is refused by a limit after all cost nothing
// (decisions 6), and has the fields agree with Retry-After.
func (f *front) giveBack(header http.Header, call *call, retryAfter int) {
	if header.Get(headerPolicy) == "" {
		return
	}
	call.taken = f.limiter.Refund(call.workspaceID(), call.taken)
	header.Set(headerLimit, call.taken.Field(retryAfter))
}

// mayWait returns how long a call may wait for its result: wanted, or 0 if the workspace has as
// many calls waiting as its plan allows. Such a call is accepted all the same, and answered at
// once. The caller must call done when the wait is over.
func (s *Server) mayWait(ctx context.Context, workspaceID uuid.UUID, wanted time.Duration) (granted time.Duration, done func()) {
	if wanted <= 0 {
		return 0, func() {}
	}
	closed, allowed := s.limiter.Open(ctx, workspaceID, ratelimit.Wait)
	if !allowed {
		return 0, func() {}
	}
	counted := s.streams.metrics.WaitOpened()
	return wanted, func() { counted(); closed() }
}

// GetLimits is what the workspace of the key may ask, and what is left of it.
func (s *Server) GetLimits(ctx context.Context, _ api.GetLimitsRequestObject) (api.GetLimitsResponseObject, error) {
	call := callOf(ctx)
	name, terms, known := s.limiter.Terms(ctx, call.principal.WorkspaceID)
	if !known {
		return nil, fault.New(fault.Unavailable, "%s", unavailableMessage)
	}
	waits, streams := s.limiter.OpenCalls(ctx, call.principal.WorkspaceID)
	limits := call.taken.Limits()
	return api.GetLimits200JSONResponse{
		Plan:              api.Plan(name),
		RequestsPerSecond: requestLimit(limits.RPS, call.taken.Second),
		RequestsPerHour:   requestLimit(limits.RPH, call.taken.Hour),
		InlineWaits:       openLimit(terms.Waits, waits),
		Streams:           openLimit(terms.Streams, streams),
	}, nil
}

// requestLimit is a limit and what is left of it; null where there is none.
func requestLimit(limit int, left ratelimit.Quota) api.RequestLimit {
	if limit == 0 {
		return api.RequestLimit{}
	}
	return api.RequestLimit{Limit: new(int32(limit)), Remaining: new(int32(left.Remaining))}
}

func openLimit(limit, open int) api.OpenLimit {
	if limit == 0 {
		return api.OpenLimit{Open: int32(open)}
	}
	return api.OpenLimit{Limit: new(int32(limit)), Open: int32(open)}
}
