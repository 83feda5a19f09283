package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/workflow"
)

// maxPage is the largest page size (decisions 1.5).
const maxPage = 100

// size has the flags for the length of a list.
type size struct {
	Limit int  `default:"20" placeholder:"N" help:"Maximum number of items (${default})."`
	All   bool `help:"List all items."`
}

// Validate rejects a limit that is not positive.
func (c size) Validate() error {
	if c.Limit < 1 {
		return fmt.Errorf("--limit must be at least 1, got %d", c.Limit)
	}
	return nil
}

// workflowsList prints the workflows, newest first.
type workflowsList struct {
	target
	size
	Status string `default:"" enum:",ACTIVE,PAUSED,ARCHIVED" placeholder:"STATUS" help:"Only workflows with this status: ACTIVE, PAUSED or ARCHIVED. Default: all workflows that are not archived."`
}

func (c *workflowsList) Run(s caller) error {
	return s.printList(workflowsPath, query("status", c.Status), c.size, view{
		columns: "NAME=name KEY=key STATUS=status VERSION=version UPDATED=updatedAt ID=id",
		empty:   "No workflows. Create one: weft workflows new --from approval approval.yaml, then weft workflows push approval.yaml",
	})
}

// runsList prints the runs, newest first.
type runsList struct {
	ofWorkflows
	created
	Status  string `default:"" enum:",CREATED,EXECUTING,COMPLETED,FAILED,CANCELED" placeholder:"STATUS" help:"Only runs with this status: CREATED, EXECUTING, COMPLETED, FAILED or CANCELED."`
	Trigger string `default:"" enum:",API,SCHEDULE,WEBHOOK,RUN" placeholder:"TRIGGER" help:"Only runs that were started this way: API, SCHEDULE, WEBHOOK or RUN (by another run)."`
}

func (c *runsList) Run(s caller) error {
	filter, err := c.filter(s)
	if err != nil {
		return err
	}
	maps.Copy(filter, query("status", c.Status, "trigger", c.Trigger, "createdAfter", c.Since.text, "createdBefore", c.Until.text))
	return s.printList(runsPath, filter, c.size, view{
		columns: "NAME=workflow STATUS=status STARTED=createdAt TOOK=TOOK CREDITS=totalUsage TRIGGER=trigger ID=id",
		empty:   "No runs. Start one: " + startRun,
		first:   "CREDITS TRIGGER ID",
	})
}

// executionsList prints the executions, newest first.
type executionsList struct {
	target
	size
	created
	Module string `placeholder:"MODULE" help:"Only executions of this component."`
	Status string `default:"" enum:",CREATED,EXECUTING,COMPLETED,FAILED" placeholder:"STATUS" help:"Only executions with this status: CREATED, EXECUTING, COMPLETED or FAILED."`
}

func (c *executionsList) Run(s caller) error {
	filter := query("module", moduleName(c.Module), "status", c.Status, "createdAfter", c.Since.text, "createdBefore", c.Until.text)
	return s.printList(executionsPath, filter, c.size, view{
		columns: "MODULE=module STATUS=status STARTED=createdAt CREDITS=totalUsage CALLBACK=callback.deliveredAt|- ID=id",
		empty:   "No executions. Start one: " + startExecution,
		first:   "CALLBACK CREDITS ID",
	})
}

// created has the flags that limit a list to a time.
type created struct {
	Since moment `placeholder:"DURATION|TIME" help:"Only what started at this time or later: a duration before now, such as 2h or 7d, or a time such as 2026-11-21 or 2026-11-21T10:00:00Z."`
	Until moment `placeholder:"DURATION|TIME" help:"Only what started before this time: a duration before now, or a time."`
}

// moment is a time in the form of the API. All pages of a list use the same moment, even for a duration
// before now.
type moment struct{ text string }

// UnmarshalText parses a time, or a duration before now. Times without a zone are in UTC, as in tables.
func (m *moment) UnmarshalText(text []byte) error {
	word := string(text)
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, word); err == nil {
			m.text = at.UTC().Format(time.RFC3339Nano)
			return nil
		}
	}
	before, err := parseDuration(word)
	if err != nil || before < 0 {
		return fmt.Errorf("%q is neither a duration such as 2h or 7d, nor a time such as 2026-11-21 or 2026-11-21T10:00:00Z", word)
	}
	m.text = time.Now().Add(-before).UTC().Truncate(time.Second).Format(time.RFC3339)
	return nil
}

// query returns the parameters of a request from names and values, without those that are empty.
func query(pairs ...string) url.Values {
	all := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			all.Set(pair[0], pair[1])
		}
	}
	return all
}

// ofWorkflows are the flags of lists that can be limited to one workflow.
type ofWorkflows struct {
	target
	size
	Workflow string `placeholder:"WORKFLOW" help:"Only the items of this workflow: its name or ID."`
}

func (c ofWorkflows) filter(s caller) (url.Values, error) {
	if c.Workflow == "" {
		return url.Values{}, nil
	}
	id, err := s.workflow(c.Workflow)
	return query("workflowId", id.String()), err
}

// workflow returns the ID of a workflow: the ID itself, a name in the credentials file, a key, or a name
// that the service has.
func (s caller) workflow(text string) (uuid.UUID, error) {
	if id, err := uuid.Parse(text); err == nil {
		return id, nil
	}
	if id, named := s.credentials.Workflows[text]; named {
		return id, nil
	}
	return s.find(workflowsPath, "workflow", text, slices.Sorted(maps.Keys(s.credentials.Workflows))...)
}

// keyed returns the workflow that has a key, or nil.
func (s caller) keyed(key string) (*item, error) {
	var found item
	_, err := s.exchange(http.MethodGet, workflowsPath+"/"+url.PathEscape(key), nil, nil, &found)
	if problem, ok := errors.AsType[*client.Problem](err); ok && problem.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found, nil
}

// item is an object of a list. Executions and runs have no name, and only workflows have a version.
type item struct {
	ID      uuid.UUID
	Key     string // only of workflows
	Name    string
	Version int32
}

// find returns the ID of an object: the ID itself, or a name that one item of the list has. others are
// further names to suggest.
func (s caller) find(path, kind, text string, others ...string) (uuid.UUID, error) {
	if id, err := uuid.Parse(text); err == nil {
		return id, nil
	}
	found, all, err := s.named(path, kind, text)
	if at := slices.IndexFunc(all, func(one item) bool { return one.Key == text }); at >= 0 && text != "" {
		return all[at].ID, nil
	}
	problem, refused := errors.AsType[*client.Problem](err)
	if refused && problem.Status == http.StatusForbidden && path == workflowsPath && workflow.IsKey(text) {
		if one, _ := s.keyed(text); one != nil { // the API key may not list workflows
			return one.ID, nil
		}
	}
	if err != nil {
		return uuid.Nil, err
	}
	if found != nil {
		return found.ID, nil
	}
	for _, one := range all {
		others = append(others, one.Name)
	}
	return uuid.Nil, notFound("there is no %[1]s %[2]q%[3]sTo list the %[1]ss: weft %[1]ss list", kind, printable(text), didYouMean(text, others))
}

// named returns the item of a list with a name, or nil, and all items.
func (s caller) named(path, kind, name string) (found *item, all []item, err error) {
	all, _, err = list[item](s, path, url.Values{}, size{All: true})
	for i := range all {
		if all[i].Name != name {
			continue
		}
		if found != nil {
			return nil, all, usage("several %ss have the name %s, such as %s and %s: use an ID instead", kind, printable(name), found.ID, all[i].ID)
		}
		found = &all[i]
	}
	return found, all, err
}

// withWorkflowNames adds to each item the name of its workflow, or its ID if the name is unknown.
func (s caller) withWorkflowNames(items []json.RawMessage) ([]json.RawMessage, error) {
	objects, names := make([]map[string]json.RawMessage, len(items)), map[string]json.RawMessage{}
	for i, item := range items {
		if err := json.Unmarshal(item, &objects[i]); err != nil {
			return nil, err
		}
		names[string(objects[i]["workflowId"])] = nil
	}
	known := func(all []api.WorkflowSummary) bool {
		for _, one := range all {
			if id := strconv.Quote(one.ID.String()); names[id] == nil {
				names[id], _ = json.Marshal(one.Name) // a string is always JSON
			}
		}
		return !slices.ContainsFunc(objects, func(one map[string]json.RawMessage) bool { return names[string(one["workflowId"])] == nil })
	}
	const most = 1000 // the names of older workflows aren't worth the requests
	if _, _, err := listUntil(s, workflowsPath, url.Values{}, size{Limit: most}, known); err != nil {
		return nil, err
	}
	var err error
	for i, object := range objects {
		if object["workflow"] = names[string(object["workflowId"])]; object["workflow"] == nil {
			object["workflow"] = object["workflowId"]
		}
		if items[i], err = strictjson.Encode(object); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// list reads a list and reports whether there are more items.
func list[T any](s caller, path string, filter url.Values, size size) (all []T, more bool, err error) {
	return listUntil(s, path, filter, size, func([]T) bool { return false })
}

// listUntil reads a list, page by page, until enough returns true for the items so far. It reports whether
// there are more items.
func listUntil[T any](s caller, path string, filter url.Values, size size, enough func([]T) bool) (all []T, more bool, err error) {
	if size.All {
		size.Limit = math.MaxInt
	}
	for more = true; more && len(all) < size.Limit; {
		filter.Set("limit", strconv.Itoa(min(maxPage, size.Limit-len(all))))
		var page struct {
			Data       []T
			NextCursor string
			HasMore    bool
		}
		if _, err := s.exchange(http.MethodGet, path+"?"+filter.Encode(), nil, nil, &page); err != nil {
			return nil, false, err
		}
		all, more = append(all, page.Data...), page.HasMore
		if enough(all) {
			break
		}
		filter.Set("cursor", page.NextCursor)
	}
	return all, more, nil
}
