package cli

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/local/client"
)

// maxPage is the largest page size (decisions 1.5).
const maxPage = 100

// workflowsList prints the workflows, newest first.
type workflowsList struct {
	target
	Status string `placeholder:"STATUS" help:"Only workflows with this status: ACTIVE, PAUSED or ARCHIVED. Default: all workflows that are not archived."`
	Limit  int    `default:"20" help:"Maximum number of items (${default})."`
}

func (c *workflowsList) Run(s *session) error {
	filter := url.Values{}
	if c.Status != "" {
		filter.Set("status", c.Status)
	}
	columns := []any{"ID", "VERSION", "STATUS", "UPDATED", "NAME"}
	return printList(s, c.target, workflowsPath, filter, c.Limit, columns, func(w api.WorkflowSummary) []any {
		return []any{w.ID, w.Version, w.Status, date(w.UpdatedAt), printable(w.Name)}
	})
}

// workflowsRuns prints the runs, newest first.
type workflowsRuns struct {
	ofWorkflows
	Status string `placeholder:"STATUS" help:"Only runs with this status: CREATED, EXECUTING, COMPLETED, FAILED or CANCELED."`
}

func (c *workflowsRuns) Run(s *session) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	if c.Status != "" {
		filter.Set("status", c.Status)
	}
	columns := []any{"ID", "WORKFLOW", "VERSION", "TRIGGER", "STATUS", "STARTED", "DURATION", "CREDITS"}
	return printList(s, c.target, runsPath, filter, c.Limit, columns, func(r api.WorkflowRun) []any {
		took := ""
		if r.FinishedAt != nil {
			took = r.FinishedAt.Std().Sub(r.CreatedAt.Std()).String()
		}
		return []any{r.ID, r.WorkflowID, r.WorkflowVersion, printable(r.Trigger), r.Status, date(r.CreatedAt), took, r.TotalUsage}
	})
}

// ofWorkflows are the flags of lists that can be limited to one workflow.
type ofWorkflows struct {
	target
	Workflow string `placeholder:"ID" help:"Only the items of this workflow: its ID, or its name in the credentials file."`
	Limit    int    `default:"20" help:"Maximum number of items (${default})."`
}

func (c ofWorkflows) filter() (url.Values, error) {
	if c.Workflow == "" {
		return url.Values{}, nil
	}
	id, err := c.workflow(c.Workflow)
	if err != nil {
		return nil, fmt.Errorf("--workflow: %w", err)
	}
	return url.Values{"workflowId": {id.String()}}, nil
}

// workflow returns the ID of a workflow given by ID, or by its name in the credentials file.
func (t target) workflow(text string) (uuid.UUID, error) {
	credentials, err := t.read()
	if err != nil {
		return uuid.Nil, err
	}
	if id, named := credentials.Workflows[text]; named {
		return id, nil
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return id, fmt.Errorf("%q is neither a workflow ID nor a workflow name in the credentials file; %s", text, knownWorkflows(credentials, text))
	}
	return id, nil
}

// knownWorkflows suggests names for a workflow that was not found.
func knownWorkflows(credentials client.Credentials, text string) string {
	names := slices.Sorted(maps.Keys(credentials.Workflows))
	bare := func(name string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name))
	}
	if at := slices.IndexFunc(names, func(name string) bool { return bare(name) == bare(text) }); at >= 0 {
		return fmt.Sprintf("did you mean %s?", names[at])
	}
	if len(names) == 0 {
		return "the file contains no names; run weft workflows list to see the IDs"
	}
	return fmt.Sprintf("the file contains the names %s; run weft workflows list to see all IDs", strings.Join(names, ", "))
}

// list reads up to limit items of a list, page by page, and reports whether there are more.
func list[T any](s *session, t target, path string, filter url.Values, limit int) (all []T, more bool, err error) {
	if limit < 1 {
		return nil, false, fmt.Errorf("--limit must be at least 1")
	}
	weft, err := t.caller(s)
	if err != nil {
		return nil, false, err
	}
	for more = true; more && len(all) < limit; {
		filter.Set("limit", strconv.Itoa(min(maxPage, limit-len(all))))
		var page struct {
			Data       []T
			NextCursor string
			HasMore    bool
		}
		if _, err := weft.exchange(s, http.MethodGet, path+"?"+filter.Encode(), nil, nil, &page); err != nil {
			return nil, false, err
		}
		all, more = append(all, page.Data...), page.HasMore
		filter.Set("cursor", page.NextCursor)
	}
	return all, more, nil
}

// noteMore prints that the list has more items.
func (s *session) noteMore(more bool) {
	if more {
		s.note("There are more items. To see them, use --limit.")
	}
}
