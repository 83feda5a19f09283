// Package run serves the runs of workflows to callers: triggering, reading, watching, canceling,
// signals, and cost estimates.
//
// The package does not depend on HTTP or on how a run advances: it wakes the engine. Invariant: a
// run is committed together with its job before the caller gets a response.
package run

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/orchestrator"
)

// Deps holds what the service depends on.
type Deps struct {
	API    *pgxpool.Pool // for requests: sees only the workspace in the context
	System *pgxpool.Pool
	Hub    *notify.Hub

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
