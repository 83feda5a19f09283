package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/component/template"
	"github.com/weft-automation/weft/internal/kit/envref"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/reference"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Checked is the result of Validate.
type Checked struct {
	Plan     *graph.Plan // nil if there are faults
	Faults   []fault.Detail
	Warnings []api.WorkflowWarning
}

// Validate checks a draft as Create does, and saves nothing. It returns INVALID_INPUT (400) with all
// faults if the form of the request has some.
func (s *Service) Validate(ctx context.Context, workspaceID uuid.UUID, draft Draft) (Checked, error) {
	saved, err := s.checkDraft(draft, nil)
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code == fault.InvalidInput && len(draft.Form) == 0 {
		details := failure.Details
		if len(details) == 0 {
			details = []fault.Detail{{Code: string(failure.Code), Message: failure.Message}}
		}
		return Checked{Faults: details, Warnings: []api.WorkflowWarning{}}, nil
	}
	if err != nil {
		return Checked{}, err
	}
	d, err := draft.parse()
	if err != nil {
		return Checked{}, err
	}
	err = s.checkTokens(ctx, s.db, workspaceID, d)
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code == fault.InvalidInput {
		return Checked{Faults: failure.Details, Warnings: []api.WorkflowWarning{}}, nil
	}
	if err != nil {
		return Checked{}, err
	}
	absent, err := s.absent(ctx, s.db, workspaceID, d)
	if err != nil {
		return Checked{}, err
	}
	plan, _, err := compile(d, s.modules)
	return Checked{Plan: plan, Warnings: append(saved.warnings, absent...)}, err
}

// withAbsent returns the warnings about a definition that is saved.
func (s *Service) withAbsent(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, saved stored) ([]api.WorkflowWarning, error) {
	var d definition
	if err := json.Unmarshal(saved.shown, &d); err != nil {
		return nil, fmt.Errorf("decode a definition: %w", err)
	}
	if err := s.checkTokens(ctx, conn, workspaceID, d); err != nil {
		return nil, err
	}
	absent, err := s.absent(ctx, conn, workspaceID, d)
	return append(saved.warnings, absent...), err
}

// versionWarnings returns the warnings about a new version of a workflow.
func (s *Service) versionWarnings(ctx context.Context, conn postgres.DB, v version, saved stored) ([]api.WorkflowWarning, error) {
	warnings, err := s.withAbsent(ctx, conn, v.workspaceID, saved)
	if err != nil || s.Unfit == nil {
		return warnings, err
	}
	var d definition
	if err := json.Unmarshal(saved.shown, &d); err != nil {
		return nil, fmt.Errorf("decode a definition: %w", err)
	}
	_, input, err := compile(d, s.modules)
	if err != nil {
		return nil, err
	}
	names, err := s.Unfit(ctx, conn, v.workspaceID, v.workflowID, func(given json.RawMessage) error { return input.Check(ctx, "/input", given) })
	for _, name := range names {
		warnings = append(warnings, api.WorkflowWarning{
			Code: warnSchedule, Pointer: "/inputSchema",
			Message: fmt.Sprintf("the input of the schedule %q does not fit this version, so its times are skipped until you change it", name),
		})
	}
	return warnings, err
}

// Codes of warnings about what a workflow needs and the workspace lacks. They never change.
const (
	warnVariable = "VARIABLE_NOT_FOUND"
	warnWorkflow = "WORKFLOW_NOT_FOUND"
	warnSchedule = "SCHEDULE_INPUT_INVALID"
)

// absent returns warnings about variables and workflows that components name and that do not exist.
func (s *Service) absent(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, d definition) (warnings []api.WorkflowWarning, err error) {
	variables, err := s.absentVariables(ctx, conn, workspaceID, d)
	if err != nil {
		return nil, err
	}
	absent, err := s.absentChildren(ctx, conn, workspaceID, d)
	return append(variables, absent...), err
}

// absentChildren warns about components whose child workflow does not exist.
func (s *Service) absentChildren(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, d definition) (warnings []api.WorkflowWarning, err error) {
	configs := make([]childConfig, len(d.Components)) // zero: names no workflow
	var wanted db.WorkflowListKeysParams
	for i, c := range d.Components {
		if c.Module != component.RunWorkflow || json.Unmarshal(c.Config, &configs[i]) != nil {
			continue
		}
		name, _ := configs[i].name()
		if id, isID := asID(name); isID {
			wanted.Ids = append(wanted.Ids, id)
		} else if name != "" {
			wanted.Keys = append(wanted.Keys, name)
		}
	}
	if len(wanted.Ids)+len(wanted.Keys) == 0 {
		return nil, nil
	}
	wanted.WorkspaceID = workspaceID
	known, err := db.New().WorkflowListKeys(ctx, conn, wanted)
	if err != nil {
		return nil, fmt.Errorf("list child workflows: %w", err)
	}
	for i, config := range configs {
		name, field := config.name()
		id, isID := asID(name)
		exists := slices.ContainsFunc(known, func(row db.WorkflowListKeysRow) bool {
			return isID && row.ID == id || !isID && row.Keyed && row.Key == name
		})
		if name == "" || exists {
			continue
		}
		by := "ID"
		if !isID {
			by = "key"
		}
		warnings = append(warnings, api.WorkflowWarning{
			Code: warnWorkflow, Pointer: fmt.Sprintf("/components/%d/config/%s", i, field),
			Message: fmt.Sprintf("component %q: there is no workflow with this %s in the workspace, so the component fails", d.Components[i].ID, by),
		})
	}
	return warnings, nil
}

// mention is a place at which a component names a variable.
type mention struct{ name, pointer, component string }

func (s *Service) absentVariables(ctx context.Context, conn postgres.DB, workspaceID uuid.UUID, d definition) (warnings []api.WorkflowWarning, err error) {
	var all []mention
	names := []string{}
	for i, c := range d.Components {
		for _, one := range s.mentions(i, c) {
			all, names = append(all, one), append(names, one.name)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	rows, err := db.New().VariableListNamed(ctx, conn, db.VariableListNamedParams{WorkspaceID: workspaceID, Names: names})
	if err != nil {
		return nil, fmt.Errorf("list variables: %w", err)
	}
	for _, one := range all {
		if !slices.ContainsFunc(rows, func(row db.VariableListNamedRow) bool { return row.Name == one.name }) {
			warnings = append(warnings, api.WorkflowWarning{
				Code: warnVariable, Pointer: one.pointer,
				Message: fmt.Sprintf("component %q: the workspace has no environment variable %s, so the component fails unless you set it before a run starts", one.component, one.name),
			})
		}
	}
	return warnings, nil
}

// mentions returns the variables that a component needs. One that may be missing has a default or a question
// mark.
func (s *Service) mentions(at int, c api.WorkflowComponent) (all []mention) {
	entry, known := s.modules.Lookup(c.Module)
	for _, part := range []struct {
		name        string
		raw         json.RawMessage
		expressions bool
	}{{"input", c.Input, false}, {"config", c.Config, known && entry.Flow().Expressions != nil}} {
		_, _ = template.Walk(fmt.Sprintf("/components/%d/%s", at, part.name), part.raw, func(pointer, text string) (any, bool, error) {
			for _, path := range needed(text, part.expressions) {
				if path.Root == reference.Env && len(path.Segments) == 1 {
					all = append(all, mention{path.Segments[0], pointer, c.ID})
				}
			}
			return text, true, nil
		})
	}
	return slices.CompactFunc(all, func(a, b mention) bool { return a == b })
}

// needed returns the paths in a string, or in an expression, without which it has no value.
func needed(text string, isExpression bool) (paths []reference.Path) {
	if isExpression {
		if !strings.Contains(text, "?") {
			paths, _ = reference.Paths(text, reference.IsName) // the save reports errors
		}
		return paths
	}
	compiled, err := template.Compile(text, reference.IsName)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(compiled.Paths(), func(path reference.Path) bool { return path.Tolerated })
}

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
