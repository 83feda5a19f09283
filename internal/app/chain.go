package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/devchain"
	"github.com/weft-automation/weft/internal/environment"
	"github.com/weft-automation/weft/internal/postgres"
)

// chainVariable is the environment variable by which workflows find the chain of
// `weft dev --chain`, wherever it listens.
const chainVariable = "DEV_CHAIN_URL"

func (dev DevConfig) startChain(ctx context.Context) (*devchain.Chain, error) {
	chain, err := devchain.Start(ctx, devchain.Config{Dir: filepath.Join(dev.DataDir, "chain"), Log: dev.Log})
	if err != nil {
		return nil, fmt.Errorf("start the private chain: %w", err)
	}
	return chain, nil
}

func (dev DevConfig) stopChain(chain *devchain.Chain) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := chain.Stop(ctx); err != nil {
		dev.Log.Warn("the private chain did not stop in order", "error", err)
	}
}

// nameChain sets the variable, unless it is right.
func nameChain(ctx context.Context, variables *environment.Service, workspaceID uuid.UUID, addr string) error {
	ctx = postgres.Scope(ctx, workspaceID)
	const all = 200 // that a workspace may have
	page, err := variables.List(ctx, workspaceID, all, "")
	if err != nil {
		return err
	}
	url := "http://" + addr
	if slices.ContainsFunc(page.Data, func(v api.EnvironmentVariable) bool {
		return v.Name == chainVariable && v.Value != nil && *v.Value == url
	}) {
		return nil
	}
	description := "JSON-RPC of the chain of weft dev --chain, which sets it at each start"
	_, err = variables.Set(ctx, environment.SetParams{WorkspaceID: workspaceID, Name: chainVariable, Value: url, Description: &description})
	if err != nil {
		return fmt.Errorf("set %s: %w", chainVariable, err)
	}
	return nil
}
