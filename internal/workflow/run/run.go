// Package run serves the runs of workflows to callers: triggering, reading, watching, canceling,
// signals, and cost estimates.
//
// The package does not depend on HTTP or on how a run advances: it wakes the engine. Invariant: a
// run is committed together with its job before the caller gets a response.
package run

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/permit"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// Deps holds what the service depends on.
type Deps struct {
	API   *pgxpool.Pool // for requests: sees only the workspace in the context
	Turns *permit.Turns // of API; nil: no limit
	Hub   *notify.Hub

	Engine      *orchestrator.Orchestrator
	Executions  *execution.Service
	Modules     *component.Registry
	Workflows   *workflow.Service
	Environment *environment.Service
	Vault       *vault.Vault // decrypts secret outputs
	// Draining, once closed, ends inline waits. If it is nil, waits are never cut short.
	Draining <-chan struct{}
	// Quarantined returns the reason if nothing may start at present. If it is nil, runs may always
	// start.
	Quarantined func() error
}

// Service serves runs.
type Service struct{ Deps }

// NewService returns a Service.
func NewService(deps Deps) *Service { return &Service{deps} }

// Cancel requests the cancellation of a run and of all its descendants. They start nothing new,
// and each run becomes CANCELED when its last stage has stopped. A repeated cancel changes
// nothing, and a finished run stays unchanged. Cancel returns the record of the run, and the
// errors of Get.
func (s *Service) Cancel(ctx context.Context, key notify.Key, access Access, mode string, reason *string) (api.WorkflowRun, error) {
	if _, err := s.getAllowed(ctx, key, access); err != nil {
		return api.WorkflowRun{}, err
	}
	if mode == "" {
		mode = engine.CancelGraceful
	}
	if err := s.Engine.CancelTree(ctx, s.API, key.WorkspaceID, []uuid.UUID{key.ID}, mode, reason); err != nil {
		return api.WorkflowRun{}, err
	}
	s.Engine.Wake(key) // even if the run was canceled before
	return s.Get(ctx, key, access)
}

// Responds reports whether the current version of a workflow has a RESPOND. It returns NOT_FOUND for
// an unknown workflow.
func (s *Service) Responds(ctx context.Context, conn postgres.DB, workspaceID, workflowID uuid.UUID) (bool, error) {
	loaded, err := s.Workflows.Load(ctx, conn, workspaceID, workflowID, nil)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(loaded.Plan.Components(), func(c graph.Component) bool { return c.Module == component.Respond }), nil
}
