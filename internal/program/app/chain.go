package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/local/devchain"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Environment variables through which workflows find the chain of `weft dev --chain`: its address,
// which may change, and a funded key.
const (
	chainVariable = "DEV_CHAIN_URL"
	keyVariable   = "DEV_CHAIN_KEY"
)

func (dev DevConfig) startChain(ctx context.Context) (*devchain.Chain, error) {
	dev.step("starting the chain")
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
		dev.Log.Warn("the private chain did not stop cleanly", "error", err)
	}
}

// setChainVariables sets the two variables unless they are correct. An existing key is kept,
// because its value is secret and cannot be compared.
func setChainVariables(ctx context.Context, variables *environment.Service, workspaceID uuid.UUID, addr string) error {
	ctx = postgres.Scope(ctx, workspaceID)
	const all = 200 // the most variables that a workspace can have
	page, err := variables.List(ctx, workspaceID, all, "")
	if err != nil {
		return err
	}
	for _, want := range []struct {
		name, value, description string
		secret                   bool
	}{
		{chainVariable, "http://" + addr, "JSON-RPC URL of the chain of weft dev --chain, updated at each start", false},
		{keyVariable, devchain.Key, "Key of the first account on the chain of weft dev --chain", true},
	} {
		if slices.ContainsFunc(page.Data, func(v api.EnvironmentVariable) bool {
			return v.Name == want.name && (want.secret || v.Value != nil && *v.Value == want.value)
		}) {
			continue
		}
		p := environment.SetParams{WorkspaceID: workspaceID, Name: want.name, Value: want.value, Description: &want.description}
		if want.secret {
			p.Secret = new(true)
		}
		if _, err := variables.Set(ctx, p); err != nil {
			return fmt.Errorf("set %s: %w", want.name, err)
		}
	}
	return nil
}
