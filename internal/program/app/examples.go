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

// examplesFile is what `weft dev` remembers of the examples that it made.
const examplesFile = "examples.json"

// examples are the example workflows of a data folder. What somebody changed since is
// theirs: it is never replaced, and what they archived is not made again.
type examples struct {
	Demo      string              `json:"demo"` // where the upstream listened last
	Workflows map[string]*example `json:"workflows"`
}

type example struct {
	ID      uuid.UUID `json:"id"`
	Version int32     `json:"version"` // the last that weft dev saved
}

func (dev DevConfig) readExamples() (examples, error) {
	made := examples{}
	data, err := os.ReadFile(filepath.Join(dev.DataDir, examplesFile))
	if err == nil {
		err = json.Unmarshal(data, &made)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return made, fmt.Errorf("read what weft dev remembers of its examples: %w", err)
	}
	if made.Workflows == nil {
		made.Workflows = map[string]*example{}
	}
	return made, nil
}

// examples makes the example workflows that are missing, and saves those anew that name
// another address of the demo upstream than its present one. It gives the ids of those
// that are in use, by their names.
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
		next, used, err := keepExample(ctx, workflows, workspaceID, made.Workflows[name], files[name], demoAddr)
		if err != nil {
			return nil, fmt.Errorf("keep the example workflow %s: %w", name, err)
		}
		if used {
			ids[name] = next.ID
		}
		if known := made.Workflows[name]; known != nil && *known == *next {
			continue
		}
		made.Workflows[name] = next
		if err := dev.writeExamples(made); err != nil { // before another is made
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

// keepExample makes the workflow if there is none, and says whether it is in use.
func keepExample(ctx context.Context, workflows *workflow.Service, workspaceID uuid.UUID, known *example, file, demoAddr string) (*example, bool, error) {
	var draft workflow.Draft
	if err := json.Unmarshal([]byte(file), &draft); err != nil {
		return known, false, err
	}
	var present api.Workflow
	err := error(fault.New(fault.NotFound, "There is none yet."))
	if known != nil {
		present, err = workflows.Get(ctx, workspaceID, known.ID, nil)
	}
	switch problem, _ := errors.AsType[*fault.Error](err); {
	case problem != nil && problem.Code == fault.NotFound: // or the database is another one
		present, _, err = workflows.Create(ctx, workflow.CreateParams{WorkspaceID: workspaceID, Draft: draft})
	case err != nil:
	case present.Version != known.Version || present.Status == api.WorkflowStatusARCHIVED:
		return known, present.Status != api.WorkflowStatusARCHIVED, nil
	case strings.Contains(file, demoAddr) && !strings.Contains(string(present.Components), demoAddr): // the upstream has moved
		present, err = workflows.Replace(ctx, workflow.ReplaceParams{
			WorkspaceID: workspaceID, WorkflowID: known.ID, Expected: []int32{known.Version}, Draft: draft,
		})
	}
	if err != nil {
		return known, false, err
	}
	return &example{ID: present.ID, Version: present.Version}, true, nil
}
