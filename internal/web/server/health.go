package server

import (
	"context"
	"errors"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Check is one thing that readiness depends on. Err is why it fails; callers
// see only that it does.
type Check struct {
	Name string
	Err  error
}

// GetLiveness answers for the process alone.
func (s *Server) GetLiveness(context.Context, api.GetLivenessRequestObject) (api.GetLivenessResponseObject, error) {
	return api.GetLiveness200JSONResponse{Status: api.LivenessStatusAlive}, nil
}

// GetReadiness answers 200 when every check passes and 503 with the names of
// those that fail otherwise.
func (s *Server) GetReadiness(ctx context.Context, _ api.GetReadinessRequestObject) (api.GetReadinessResponseObject, error) {
	ready := api.GetReadiness200JSONResponse{Status: api.ReadinessStatusReady, Checks: []api.ReadinessCheck{}}
	failure := fault.New(fault.Unavailable, "This deployment is not ready; errors names what fails.")
	for _, check := range s.ready(ctx) {
		if check.Err == nil {
			ready.Checks = append(ready.Checks, api.ReadinessCheck{Name: check.Name, Status: api.ReadinessCheckStatusOk})
			continue
		}
		failure.Err = check.Err
		if told, ok := errors.AsType[*fault.Error](check.Err); ok {
			failure.Reason = told.Reason
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
