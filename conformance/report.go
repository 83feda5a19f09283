package conformance

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/weft-automation/weft/conformance/probe"
)

// Choice reports whether the part is a choice: the contract leaves it open, and a decision settles
// it. A deployment that departs from a choice does not violate the contract.
func (p Part) Choice() bool { return p.ID[0] == 'D' || p.ID[0] == 'C' }

// Verdict is the verdict on a part.
type Verdict string

// The verdicts.
const (
	Proven   Verdict = "proven"
	Failed   Verdict = "FAILED"     // a part of the contract that is violated
	Unjudged Verdict = "not judged" // no violation was found, but the deployment was too busy or not reachable for some case
	Differs  Verdict = "otherwise"  // a choice of Weft's decisions, from which this deployment departs
	Open     Verdict = "open"       // a choice that no case reached, because something else failed first
	NotRun   Verdict = "not run"    // no case ran, because a need of each was missing
	Unseen   Verdict = "unseen"     // no case exists: Part.Elsewhere is the reason
)

// Found is the verdict on a part with its reasons.
type Found struct {
	Part    Part
	Verdict Verdict
	Why     []Reason     // set for Failed, Unjudged, Differs and Open
	Needs   []probe.Need // set for NotRun
}

// Reason is a case that contradicts a part, with its error text.
type Reason struct{ Case, Text string }

// Report is the result of a run.
type Report struct {
	Found   []Found // in the order of Parts
	Results []Result
}

// NewReport returns the verdicts on the selected parts, from the results of their cases.
func NewReport(o Options, results []Result) Report {
	for _, c := range o.asked() {
		if c.Soak && !o.Soak {
			results = append(results, Result{Case: c, Missing: []probe.Need{needSoak}})
		}
	}
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.Case.Name, b.Case.Name) })
	r := Report{Results: results}
	by := map[string][]Result{}
	departed := map[string][]Reason{}
	for _, result := range results {
		for _, part := range result.Case.Parts() {
			by[part] = append(by[part], result)
		}
		for _, d := range result.Departures {
			departed[d.Part] = append(departed[d.Part], Reason{result.Case.Name, d.Text})
		}
	}
	for _, part := range Parts {
		if o.About(part.ID) {
			r.Found = append(r.Found, judge(part, by[part.ID], departed[part.ID]))
		}
	}
	return r
}

// judge returns the verdict on one part. A failed case contradicts the contract's parts that it
// proves. It contradicts choices only if it proves nothing else.
func judge(part Part, results []Result, departed []Reason) Found {
	found := Found{Part: part, Verdict: Unseen}
	passed := false
	var against, unjudged []Reason
	suspect := false
	for _, result := range results {
		switch {
		case len(result.Missing) > 0:
			for _, need := range result.Missing {
				if !slices.Contains(found.Needs, need) {
					found.Needs = append(found.Needs, need)
				}
			}
		case result.Err == nil && part.Choice() && result.differs() != nil:
			against = append(against, *result.differs())
		case result.Err == nil:
			passed = true
		case result.unjudged():
			unjudged = append(unjudged, Reason{result.Case.Name, result.Err.Error()})
		default:
			against = append(against, Reason{result.Case.Name, result.Err.Error()})
			suspect = suspect || !part.Choice() || result.Case.choices()
		}
	}
	switch {
	case len(departed) > 0 && part.Choice(), suspect && part.Choice():
		found.Verdict, found.Why = Differs, append(departed, against...)
	case suspect:
		found.Verdict, found.Why = Failed, against
	case len(unjudged) > 0:
		found.Verdict, found.Why = Unjudged, unjudged
	case len(against) > 0 && !passed:
		found.Verdict, found.Why = Open, against
	case passed:
		found.Verdict = Proven
	case len(found.Needs) > 0:
		found.Verdict = NotRun
	}
	return found
}

// differs returns the first departure that a passed case checked for, or nil.
func (r Result) differs() *Reason {
	for _, d := range r.Departures {
		if d.Here {
			return &Reason{r.Case.Name, d.Text}
		}
	}
	return nil
}

// choices reports whether a case proves only choices.
func (c Case) choices() bool {
	return !slices.ContainsFunc(c.Parts(), func(id string) bool { return !Part{ID: id}.Choice() })
}

// Of returns the parts with a verdict.
func (r Report) Of(verdict Verdict) []Found {
	return slices.DeleteFunc(slices.Clone(r.Found), func(f Found) bool { return f.Verdict != verdict })
}

// unjudged reports whether the case failed without proving a violation.
func (r Result) unjudged() bool {
	_, unjudged := errors.AsType[*probe.Unjudged](r.Err)
	return unjudged
}

// Unjudged reports whether a case could not judge the deployment.
func (r Report) Unjudged() bool { return slices.ContainsFunc(r.Results, Result.unjudged) }

// Failed reports whether the contract is violated, even in a part that was not selected. If
// strict is set, departures from choices count too.
func (r Report) Failed(strict bool) bool {
	return slices.ContainsFunc(r.Results, func(result Result) bool {
		return result.Err != nil && !result.unjudged() && (strict || !result.Case.choices()) || strict && len(result.Departures) > 0
	})
}

// heading is a section of the contract or of the decisions. Its parts have IDs with the prefix.
type heading struct{ prefix, title string }

// headings lists the sections of the contract and of the decisions, in their order.
var headings = []heading{
	{"2.1", "Component execution record"}, {"2.2", "Callback object"}, {"2.3", "Workflow run record"}, {"2.4", "Run stage"},
	{"2.5", "Run stream event"}, {"2.6", "Workspace API key"},
	{"3.1", "States of an execution"}, {"3.2", "States of a run"},
	{"4", "Endpoints"}, {"4.1", "Execute a component"}, {"4.2", "Get an execution"}, {"4.3", "Stream an execution"}, {"4.4", "Replay a callback"},
	{"4.5", "Trigger a workflow"}, {"4.6", "Get a run"}, {"4.7", "Stream a run"}, {"4.8", "Update a workflow component"}, {"4.9", "Create keys"},
	{"5.1", "API key"}, {"5.2", "Request signing"}, {"5.3", "Callback signature"},
	{"6.1", "Stream of a run"}, {"6.2", "Stream of an execution"}, {"6.3", "Completion callback"},
	{"7", "Errors"}, {"8", "Limits"}, {"9", "Versioning"},
	{"D1", "Requests"}, {"D2", "Authentication"}, {"D3", "Errors"}, {"D4", "Component executions"}, {"D5", "Callbacks"}, {"D6", "Rate limits"},
	{"D7", "Credits"}, {"D8", "Workflows"}, {"D9", "Around the contract"}, {"C", "Component library"},
}

// headingOf returns the heading of a part: the one with the longest matching prefix.
func headingOf(id string) heading {
	var best heading
	for _, h := range headings {
		if (id == h.prefix || strings.HasPrefix(id, h.prefix+".")) && len(h.prefix) > len(best.prefix) {
			best = h
		}
	}
	return best
}
