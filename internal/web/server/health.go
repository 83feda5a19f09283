package server

import (
	"context"
	"errors"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Check is the result of one readiness check. Err is nil if it passed. Callers see only that it
// failed, not why.
type Check struct {
	Name string
	Err  error
}

// GetLiveness returns 200 as long as the process serves requests. It checks nothing else.
func (s *Server) GetLiveness(context.Context, api.GetLivenessRequestObject) (api.GetLivenessResponseObject, error) {
	return api.GetLiveness200JSONResponse{Status: api.LivenessStatusAlive}, nil
}

// GetReadiness returns 200 if every check passes, otherwise UNAVAILABLE with the names of the
// failed checks.
func (s *Server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	ready := api.GetReadiness200JSONResponse{Status: api.ReadinessStatusReady, Checks: []api.ReadinessCheck{}}
	failure := fault.New(fault.Unavailable, "This deployment is not ready. The failed checks are listed in errors.")
	for _, check := range s.ReadyFunc(ctx) {
		if check.Err == nil {
			ready.Checks = append(ready.Checks, api.ReadinessCheck{Name: check.Name, Status: api.ReadinessCheckStatusOk})
			continue
		}
		failure.Err = check.Err
		if known, ok := errors.AsType[*fault.Error](check.Err); ok {
			failure.Reason = known.Reason
		}
		failure.Details = append(failure.Details, fault.Detail{
			Code: string(fault.Unavailable), Message: "is failing", Pointer: "/checks/" + check.Name,
		})
	}
	if len(failure.Details) > 0 {
		return nil, failure
	}
	return ready, nil
}
