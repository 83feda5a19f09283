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

// The headers with the rate limits of a workspace and the remaining quota.
const (
	headerPolicy = "RateLimit-Policy"
	headerLimit  = "RateLimit"
)

// overLimit maps each limit to the message for a request that exceeds it.
var overLimit = map[ratelimit.Policy]string{
	ratelimit.Second: "This workspace has exceeded the requests per second of its plan. Retry after the time in Retry-After.",
	ratelimit.Hour:   "This workspace has exceeded the requests per hour of its plan. Retry after the time in Retry-After.",
}

// charge counts the request against the rate limits of the workspace and sets their headers. It
// returns RATE_LIMITED if a limit is exceeded.
func (f *front) charge(w http.ResponseWriter, r *http.Request, operation *contract.Operation, call *call) error {
	d := f.limiter.Take(r.Context(), call.workspaceID(), operation.Cost)
	call.taken = d
	if policy := d.PolicyField(); policy != "" {
		w.Header().Set(headerPolicy, policy)
		w.Header().Set(headerLimit, d.Field(0))
	}
	return limitError(d)
}

// limitError returns RATE_LIMITED if the decision rejects the request, otherwise nil.
func limitError(d ratelimit.Decision) error {
	if d.Allowed {
		return nil
	}
	refusal := fault.New(fault.RateLimited, "%s", overLimit[d.Violated])
	refusal.Reason, refusal.RetryAfter = string(d.Violated), d.Wait
	return refusal
}

// refund returns the charge of a request that a different limit rejected, because rejected requests
// are free (decisions 6). It also makes the RateLimit header agree with Retry-After.
func (f *front) refund(header http.Header, call *call, retryAfter int) {
	if header.Get(headerPolicy) == "" {
		return
	}
	call.taken = f.limiter.Refund(call.workspaceID(), call.taken)
	header.Set(headerLimit, call.taken.Field(retryAfter))
}

// mayWait returns how long a request may wait for its result: wanted, or 0 if the workspace has
// as many waiting requests as its plan allows. With 0, the request is still accepted, and the
// response is sent immediately. The caller must call done when the wait is over.
func (s *Server) mayWait(ctx context.Context, workspaceID uuid.UUID, wanted time.Duration) (granted time.Duration, done func()) {
	if wanted <= 0 {
		return 0, func() {}
	}
	closed, allowed := s.Limiter.Open(ctx, workspaceID, ratelimit.Wait)
	if !allowed {
		return 0, func() {}
	}
	counted := s.streams.metrics.WaitOpened()
	return wanted, func() { counted(); closed() }
}

// GetLimits returns the rate limits of the key's workspace and the remaining quotas.
func (s *Server) GetLimits(ctx context.Context, _ api.GetLimitsRequestObject) (api.GetLimitsResponseObject, error) {
	call := callOf(ctx)
	name, terms, known := s.Limiter.Terms(ctx, call.principal.WorkspaceID)
	if !known {
		return nil, fault.New(fault.Unavailable, "%s", unavailableMessage)
	}
	waits, streams := s.Limiter.OpenCalls(ctx, call.principal.WorkspaceID)
	limits := call.taken.Limits()
	return api.GetLimits200JSONResponse{
		Plan:              api.Plan(name),
		RequestsPerSecond: requestLimit(limits.RPS, call.taken.Second),
		RequestsPerHour:   requestLimit(limits.RPH, call.taken.Hour),
		InlineWaits:       openLimit(terms.Waits, waits),
		Streams:           openLimit(terms.Streams, streams),
	}, nil
}

// requestLimit returns a limit and its remaining quota, both null if there is no limit.
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
