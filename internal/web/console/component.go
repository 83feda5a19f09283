package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/web/diagram"
	"github.com/weft-automation/weft/internal/web/page"
	"github.com/weft-automation/weft/internal/workflow/run"
)

// componentRow is a component of a run in the list of components.
type componentRow struct {
	run.ComponentSummary
	Name    string
	State   string // as in the style sheet
	Address string
	Depth   int // number of loops around it
	Chosen  bool

	// The part of the run's time that the component took, in thousandths.
	Start, Width int
}

// Took returns the time from the first start to the last end, or to now while stages are unfinished.
func (c componentRow) Took() time.Duration {
	switch {
	case c.StartedAt.IsZero():
		return 0
	case c.unfinished() || c.FinishedAt.Before(c.StartedAt):
		return time.Since(c.StartedAt)
	}
	return c.FinishedAt.Sub(c.StartedAt)
}

// Retry describes the wait for the next attempt. It is empty if no stage waits for one.
func (c componentRow) Retry() string {
	switch {
	case c.NextAttemptAt.IsZero():
		return ""
	case c.Total > 1: // the number of attempts is that of another stage
		return "next attempt at " + c.NextAttemptAt.UTC().Format(retryTime)
	}
	return retryText(c.Attempts, c.NextAttemptAt)
}

// retryTime is the format of times of attempts, which can be seconds apart.
const retryTime = "2 Jan 2006, 15:04:05 UTC"

// retryText describes the wait of a stage for the attempt after the given number.
func retryText(attempts int32, at time.Time) string {
	return fmt.Sprintf("waits for attempt %d, until %s", attempts+1, at.UTC().Format(retryTime))
}

func (c componentRow) unfinished() bool { return c.Total > c.Completed+c.Failed+c.Canceled }

// nounOf returns what a pass through the body of a loop is called.
func nounOf(repeats bool) string {
	if repeats {
		return "iteration"
	}
	return "item"
}

// Count describes how often the component ran, or how many items it has.
func (c componentRow) Count() string {
	switch {
	case c.Items > 0:
		return page.Plural(c.Items, nounOf(c.Module == component.RepeatLoop))
	case c.Total > 1:
		return "×" + page.Number(c.Total)
	}
	return ""
}

// The states of components, stages and items.
const (
	stateNone      = "none" // not started
	stateQueued    = "queued"
	stateRunning   = "running"
	stateWaiting   = "waiting"
	stateCompleted = "completed"
	stateFailed    = "failed"
	stateCanceled  = "canceled"

	// Of components of a workflow.
	statePlain  = "plain"
	stateWarned = "warned"
)

// stateOf returns the state of a component from its stages.
func stateOf(s run.ComponentSummary) string {
	switch {
	case s.Total == 0:
		return stateNone
	case s.Failed > 0:
		return stateFailed
	case s.Waiting > 0:
		return stateWaiting
	case s.Running > 0:
		return stateRunning
	case s.Total > s.Completed+s.Canceled:
		return stateQueued
	case s.Canceled > 0:
		return stateCanceled
	}
	return stateCompleted
}

// graphic is a diagram with the state of its components.
type graphic struct {
	diagram.Picture
	Nodes []graphicNode
}

type graphicNode struct {
	diagram.Node
	componentRow
}

// draw adds the graph and the list of components to the page.
func (p *runPage) draw(overview run.Overview, choice choice) {
	o := outline{address: p.Address, plan: overview.Plan, choice: choice, summaries: map[string]run.ComponentSummary{}, start: p.CreatedAt.Std(), whole: p.Took()}
	for _, one := range overview.Components {
		o.summaries[one.ComponentID] = one
	}
	if first := firstOf(overview); p.Failure.Code != "" && first != nil {
		p.FailedAt = o.row(first.ComponentID, 0).Name
	}
	if overview.Plan == nil {
		for _, one := range overview.Components {
			p.Components = append(p.Components, o.row(one.ComponentID, 0))
		}
		return
	}
	p.Components = o.list("", 0)
	p.Graph = o.graphic("")
	if p.Selected != nil && p.Selected.Loop != nil {
		inner := o
		if p.Selected.Item != nil {
			inner.summaries = p.Selected.summaries()
		}
		inner.item = p.Selected.Iteration
		p.Selected.Loop.Graph = inner.graphic(choice.component)
	}
}

// outline lists the components of a run or a workflow.
type outline struct {
	address   string // of the page
	plan      *graph.Plan
	choice    choice
	summaries map[string]run.ComponentSummary
	item      []int32 // of the loops around the components; nil: all items

	// The time of the run; zero for a workflow.
	start time.Time
	whole time.Duration

	// Of a workflow:
	definition bool
	version    int32 // in addresses; 0: the current version
	warned     map[string]bool
}

// addressOf returns the address of a component.
func (o outline) addressOf(id string) string {
	address := o.address + "?component=" + url.QueryEscape(id)
	if o.version != 0 {
		address += "&version=" + fmt.Sprint(o.version)
	}
	return address
}

// list returns the components of a scope in the order in which they started, each loop followed
// by its body. Components that have not started come last.
func (o outline) list(loop string, depth int) (rows []componentRow) {
	members := o.plan.Members(loop)
	slices.SortStableFunc(members, func(a, b string) int {
		first, second := o.summaries[a], o.summaries[b]
		if first.Total == 0 || second.Total == 0 {
			return cmp.Compare(min(1, second.Total), min(1, first.Total))
		}
		return slices.Compare(first.FirstID[:], second.FirstID[:])
	})
	for _, id := range members {
		rows = append(rows, o.row(id, depth))
		if len(o.plan.Members(id)) > 0 {
			rows = append(rows, o.list(id, depth+1)...)
		}
	}
	return rows
}

// row returns the row of a component.
func (o outline) row(id string, depth int) componentRow {
	row := componentRow{ComponentSummary: o.summaries[id], Name: id, Depth: depth, Chosen: id == o.choice.component}
	row.ComponentID = id
	if o.plan != nil {
		component, _ := o.plan.Component(id)
		row.Module, row.Name = component.Module, nameOf(id, component.Name)
	}
	row.State = stateOf(row.ComponentSummary)
	switch {
	case o.warned[id]:
		row.State = stateWarned
	case o.definition:
		row.State = statePlain
	}
	row.Address = o.addressOf(id)
	if o.item != nil {
		row.Address += "&item=" + itemText(o.item)
	}
	whole := float64(o.whole)
	if !row.StartedAt.IsZero() && whole > 0 {
		row.Start = min(985, max(0, int(1000*float64(row.StartedAt.Sub(o.start))/whole)))
		row.Width = min(1000-row.Start, max(15, int(1000*float64(row.Took())/whole)))
	}
	return row
}

// graphic draws the components of a scope. An edge into or out of the body of a loop is drawn
// to the loop.
func (o outline) graphic(loop string) *graphic {
	members := o.plan.Members(loop)
	inScope := func(id string) string {
		for id != "" && o.plan.Loop(id) != loop {
			id = o.plan.Loop(id)
		}
		return id
	}
	var edges []diagram.Edge
	for _, e := range o.plan.Edges() {
		edge := diagram.Edge{From: inScope(e.From), To: inScope(e.To), Label: e.Port}
		if e.Port == graph.PortNext || e.Port == graph.PortDone || edge.From != e.From {
			edge.Label = ""
		}
		edges = append(edges, edge)
	}
	for _, c := range o.plan.Components() {
		for _, source := range slices.Concat(o.plan.Sources(c.ID), o.plan.References(c.ID)) {
			edges = append(edges, diagram.Edge{From: inScope(source.From), To: inScope(c.ID), Soft: true})
		}
	}
	g := &graphic{Picture: diagram.Arrange(members, edges)}
	for _, node := range g.Picture.Nodes {
		g.Nodes = append(g.Nodes, graphicNode{Node: node, componentRow: o.row(node.ID, 0)})
	}
	return g
}

// itemText returns an iteration as it is in addresses: `3` or, in nested loops, `3.0`.
func itemText(iteration []int32) (text string) {
	for i, index := range iteration {
		if i > 0 {
			text += "."
		}
		text += fmt.Sprint(index)
	}
	return text
}

// stateWord returns a state, or the status of a run, in words.
func stateWord(state any) string {
	switch text := strings.ToLower(page.Word(state)); text {
	case stateNone:
		return "Not started"
	case "created":
		return "Queued"
	case "executing":
		return "Running"
	case stateWarned:
		return "Has a warning"
	default:
		return strings.ToUpper(text[:1]) + text[1:]
	}
}
