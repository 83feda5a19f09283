// Package run serves the runs of workflows to callers: triggering, reading, watching, canceling,
// signals, and cost estimates.
//
// It knows neither HTTP nor how a run advances: that is the engine's, which it wakes. The one
// invariant: a run is committed together with its job before the caller gets an answer.
package run

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/execution"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/secret/vault"
	"github.com/weft-automation/weft/internal/workflow"
	"github.com/weft-automation/weft/internal/workflow/engine"
)

// Deps is what runs are made of.
type Deps struct {
	API    *pgxpool.Pool // of requests: sees the workspace that asks
	System *pgxpool.Pool
	Hub    *notify.Hub

	Engine      *engine.Engine
	Executions  *execution.Service
	Modules     *component.Registry
	Workflows   *workflow.Service
	Environment *environment.Service
	Vault       *vault.Vault // of secret outputs
	// Draining, once closed, ends inline waits. Nil: never.
	Draining <-chan struct{}
	// Quarantined returns why nothing may be begun for now, if so; nil: never.
	Quarantined func() error
}

// Service is all of it.
type Service struct{ Deps }

// NewService makes it.
func NewService(deps Deps) *Service { return &Service{deps} }
