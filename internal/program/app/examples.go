package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/local/demo"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/workflow"
)

// examplesFile records the example workflows that `weft dev` created.
const examplesFile = "examples.json"

// examples are the example workflows of a data folder. Workflows that the user changed are never
// replaced, and archived workflows are not created again.
type examples struct {
	Demo      string              `json:"demo"` // last address of the demo upstream
	Workflows map[string]*example `json:"workflows"`
}

type example struct {
	ID      uuid.UUID `json:"id"`
	Version int32     `json:"version"` // last version saved by weft dev
}

func (dev DevConfig) readExamples() (examples, error) {
	made := examples{}
	data, err := os.ReadFile(filepath.Join(dev.DataDir, examplesFile))
	if err == nil {
		err = json.Unmarshal(data, &made)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return made, fmt.Errorf("read the record of example workflows: %w", err)
	}
	if made.Workflows == nil {
		made.Workflows = map[string]*example{}
	}
	return made, nil
}

// examples creates the missing example workflows and updates the workflows that refer to an old
// address of the demo upstream. It returns the IDs of the active example workflows by name.
func (dev DevConfig) examples(ctx context.Context, workflows *workflow.Service, workspaceID uuid.UUID, demoAddr string) (map[string]uuid.UUID, error) {
	ctx = postgres.Scope(ctx, workspaceID)
	made, err := dev.readExamples()
	if err != nil {
		return nil, err
	}
	ids := map[string]uuid.UUID{}
	files := demo.Workflows(demoAddr)
	if dev.Chain {
		maps.Copy(files, demo.ChainWorkflows())
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		next, active, err := syncExample(ctx, workflows, workspaceID, made.Workflows[name], files[name], demoAddr)
		if err != nil {
			return nil, fmt.Errorf("create or update the example workflow %s: %w", name, err)
		}
		if active {
			ids[name] = next.ID
		}
		if known := made.Workflows[name]; known != nil && *known == *next {
			continue
		}
		made.Workflows[name] = next
		if err := dev.writeExamples(made); err != nil { // before the next workflow is created, so that a crash creates no workflow twice
			return nil, err
		}
	}
	if made.Demo == demoAddr {
		return ids, nil
	}
	made.Demo = demoAddr
	return ids, dev.writeExamples(made)
}

func (dev DevConfig) writeExamples(made examples) error {
	return writeFile(filepath.Join(dev.DataDir, examplesFile), made)
}

// syncExample creates or updates the workflow where needed. It reports whether the workflow is
// active.
func syncExample(ctx context.Context, workflows *workflow.Service, workspaceID uuid.UUID, known *example, file, demoAddr string) (*example, bool, error) {
	var draft workflow.Draft
	if err := json.Unmarshal([]byte(file), &draft); err != nil {
		return known, false, err
	}
	var present api.Workflow
	err := error(fault.New(fault.NotFound, "The example workflow does not exist yet."))
	if known != nil {
		present, err = workflows.Get(ctx, workspaceID, known.ID, nil)
	}
	switch problem, _ := errors.AsType[*fault.Error](err); {
	case problem != nil && problem.Code == fault.NotFound: // never created, or in another database
		present, _, err = workflows.Create(ctx, workflow.CreateParams{WorkspaceID: workspaceID, Draft: draft})
	case err != nil:
	case present.Version != known.Version || present.Status == api.WorkflowStatusARCHIVED:
		return known, present.Status != api.WorkflowStatusARCHIVED, nil
	case strings.Contains(file, demoAddr) && !strings.Contains(string(present.Components), demoAddr): // the upstream's address has changed
		present, err = workflows.Replace(ctx, workflow.ReplaceParams{
			WorkspaceID: workspaceID, WorkflowID: known.ID, Expected: []int32{known.Version}, Draft: draft,
		})
	}
	if err != nil {
		return known, false, err
	}
	return &example{ID: present.ID, Version: present.Version}, true, nil
}
