// Package conformance tests a deployment against the contract from outside. Each
// case sends HTTP requests to the deployment and proves the parts of the contract
// and of the decisions that it names.
//
// The cases are a table in ordinary files, so that `go test ./conformance` and `weft conform` run
// the same cases. The cases depend only on openapi.yaml, not on the code of the service. Invariant:
// Every part that requires a case has one, and no case names a part that does not exist.
package conformance

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// Case is one test of a deployment.
type Case struct {
	Part string // the IDs of the parts that it proves, separated by ", "
	Name string // what is proven, after the row of the reliability list, if the case belongs to a row
	Run  func(*probe.Trial)

	Needs []probe.Need // requirements that not every deployment meets
	Soak  bool         // takes long, so it runs only on demand
}

// Cases lists every case.
func Cases() []Case {
	return slices.Concat(
		executeCases, attemptCases, retryCases, deadlineCases, waitCases, statusCases, streamCases,
		callbackCases, runCallbackCases, startedCallbackCases, replayCases, callbackRuleCases,
		signingCases, refusalCases, keyCases, checkCases,
		requestCases, ignoredCases, answerCases, gateCases, abuseCases, idempotencyCases, listCases, filterCases,
		catalogueCases, unchangedCases, componentCases,
		workflowCases, workflowKeyCases, workflowComponentCases, environmentCases, scheduleCases, hookCases, deliveryCases, respondCases, challengeCases,
		runCases, runGraphCases, repeatCases, runModuleCases, runControlCases, runStreamCases, runScopeCases, restrictedCases, rotatedCases,
		peopleCases, doorCases, matrixCases, changeCases, memberCases, apiKeyCases, auditCases, limitCases, planLimitCases, peopleLimitCases, creditCases,
	)
}

// Parts returns the IDs of the parts that the case proves.
func (c Case) Parts() []string { return strings.Split(c.Part, ", ") }

// Missing returns the needs of the case that the target does not offer.
func (c Case) Missing(target *probe.Target) []probe.Need {
	var missing []probe.Need
	for _, need := range c.Needs {
		if !target.Offers(need) {
			missing = append(missing, need)
		}
	}
	return missing
}

// Result is the result of a case.
type Result struct {
	Case       Case
	Err        error             // nil if the case passed
	Departures []probe.Departure // of a lenient target: its departures from the decisions
	Missing    []probe.Need      // needs that the target does not meet, so the case was not run
	Took       time.Duration

	Unsteady error // the error when the case ran in parallel with others, if it then passed alone
}

// Options selects the cases to run.
type Options struct {
	Only []string // part IDs, or prefixes of them that end before a dot; all if empty
	Soak bool     // also run the cases that take long
}

// About reports whether a part is selected.
func (o Options) About(part string) bool {
	return len(o.Only) == 0 || slices.ContainsFunc(o.Only, func(only string) bool {
		return part == only || strings.HasPrefix(part, only+".") || len(only) == 1 && only >= "A" && strings.HasPrefix(part, only)
	})
}

// Chosen returns the cases to run.
func (o Options) Chosen() []Case {
	return slices.DeleteFunc(o.asked(), func(c Case) bool { return c.Soak && !o.Soak })
}

// asked returns the cases that prove a selected part.
func (o Options) asked() []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool { return !slices.ContainsFunc(c.Parts(), o.About) })
}

// Needs that depend on the run, not on the deployment.
const (
	needSoak probe.Need = "time, since they take long"
	needEnd  probe.Need = "a run that is not interrupted"
)

// RunAll runs cases against a target, several in parallel, and calls report with each result
// as the case finishes. Cases that have not finished when ctx ends are reported as not run.
func RunAll(ctx context.Context, target *probe.Target, cases []Case, report func(Result)) {
	slots := make(chan struct{}, 12)
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, c := range cases {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			result := Result{Case: c, Missing: []probe.Need{needEnd}}
			if ctx.Err() == nil {
				if ended := c.result(ctx, target); ended.Err == nil || ctx.Err() == nil {
					result = ended
				}
			}
			mu.Lock()
			defer mu.Unlock()
			report(result)
		})
	}
	all.Wait()
}

// fewFailures is the largest number of failed cases that Again repeats.
const fewFailures = 10

// Again repeats the failed cases one after the other, because a case that runs in parallel with
// others may fail on a busy machine. If many cases failed, it repeats none, because load is then
// not the reason.
func Again(ctx context.Context, target *probe.Target, results []Result) {
	failed := func(r Result) bool { return r.Err != nil }
	first := slices.IndexFunc(results, failed)
	if first < 0 || len(slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !failed(r) })) > fewFailures {
		return
	}
	for i := first; i < len(results) && ctx.Err() == nil; i++ {
		if before := results[i].Err; before != nil {
			again := results[i].Case.result(ctx, target)
			switch {
			case again.Err == nil:
				again.Unsteady = before
			case ctx.Err() != nil:
				continue // keep the previous error
			}
			results[i] = again
		}
	}
}

// result runs a case.
func (c Case) result(ctx context.Context, target *probe.Target) Result {
	result := Result{Case: c, Missing: c.Missing(target)}
	if len(result.Missing) > 0 {
		return result
	}
	seen := *target
	seen.Choices = c.choices()
	start := time.Now()
	result.Departures, result.Err = probe.Watch(ctx, &seen, c.Run)
	result.Took = time.Since(start)
	return result
}

// Unproven returns the parts that none of the given cases proves.
func Unproven(cases []Case) []Part {
	proven := map[string]bool{}
	for _, c := range cases {
		for _, part := range c.Parts() {
			proven[part] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(Parts), func(p Part) bool { return proven[p.ID] })
}
