package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// checkTokens returns INVALID_INPUT (422) if a component has an access token where none can stand.
func (s *Service) checkTokens(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, d definition) error {
	names := []string{} // all that may be variables
	for _, c := range d.Components {
		names = slices.Concat(names, envref.Names(c.Input, c.Config), envref.NamesInExpression(string(c.Input)), envref.NamesInExpression(string(c.Config)))
	}
	if len(names) == 0 {
		return nil
	}
	tokens, err := db.New().VariableKinds(ctx, conn, db.VariableKindsParams{WorkspaceID: workspaceID, Names: names})
	if err != nil {
		return fmt.Errorf("read the kinds of variables: %w", err)
	}
	if len(tokens) == 0 {
		return nil
	}
	plan, _, err := compile(d, s.modules)
	if err != nil {
		return err
	}
	var faults []fault.Detail
	for i, c := range d.Components {
		pointer, reason := plan.MisplacedToken(c.ID, s.calls(c.Module), func(variable string) bool { return slices.Contains(tokens, variable) })
		if reason != "" {
			faults = append(faults, fault.Detail{
				Code: graph.CodeInvalidReference, Pointer: fmt.Sprintf("/components/%d%s", i, pointer), Message: fmt.Sprintf("component %q: %s", c.ID, reason),
			})
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fault.Unprocessable(faults)
}

// calls reports whether a module has an effect, so that its calls can have access tokens.
func (s *Service) calls(module string) bool {
	entry, known := s.modules.Lookup(module)
	return known && entry.Effect != component.EffectNone && !entry.Flow().Inline && !entry.Flow().Loop && !entry.Flow().Trigger
}
