// Package conformance is the contract, seen from outside: cases that talk HTTP
// to a deployment and prove, each, named parts of the contract and of the
// decisions beyond it.
//
// The cases are a table in ordinary files, so that `go test ./conformance` and
// `weft conform` run the same ones. They know nothing of the service but its
// document. The invariant: every part that is owed has a case, and no case
// claims a part that does not exist.
package conformance

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
)

// Case is one proof.
type Case struct {
	Part string // the parts that it proves, by their ids in Parts, separated by ", "
	Name string // what is proven; it begins with a row of the reliability bar where it is one
	Run  func(*probe.Trial)

	Needs []probe.Need // what not every deployment offers
	Soak  bool         // takes long: run on demand only
}

// Cases lists every case.
func Cases() []Case {
	return slices.Concat(
		executeCases, attemptCases, waitCases, statusCases, streamCases,
		callbackCases, replayCases, callbackRuleCases,
		signingCases, refusalCases, keyCases, checkCases,
		requestCases, ignoredCases, answerCases, gateCases, abuseCases, idempotencyCases, listCases,
		catalogueCases, unchangedCases, componentCases,
		workflowCases, workflowComponentCases, environmentCases, scheduleCases, hookCases, deliveryCases,
		runCases, runGraphCases, runModuleCases, runControlCases, runStreamCases, runScopeCases, restrictedCases, rotatedCases,
		peopleCases, doorCases, memberCases, apiKeyCases, auditCases, limitCases, planLimitCases, peopleLimitCases, creditCases,
	)
}

// Parts lists the parts that a case proves.
func (c Case) Parts() []string { return strings.Split(c.Part, ", ") }

// Missing is what the case needs and the target does not offer.
func (c Case) Missing(target *probe.Target) []probe.Need {
	var missing []probe.Need
	for _, need := range c.Needs {
		if !target.Offers(need) {
			missing = append(missing, need)
		}
	}
	return missing
}

// Result is what became of a case.
type Result struct {
	Case       Case
	Err        error             // nil if it passed
	Departures []probe.Departure // of a lenient target: what it does otherwise than was decided
	Missing    []probe.Need      // not run: the target does not offer this
	Took       time.Duration

	Unsteady error // it failed so beside others, and passed alone
}

// Options say which cases are run.
type Options struct {
	Only []string // parts, or what their ids begin with up to a dot; all if empty
	Soak bool     // those too that take long
}

// About says whether a part is among those asked for.
func (o Options) About(part string) bool {
	return len(o.Only) == 0 || slices.ContainsFunc(o.Only, func(only string) bool {
		return part == only || strings.HasPrefix(part, only+".") || len(only) == 1 && only >= "A" && strings.HasPrefix(part, only)
	})
}

// Chosen lists the cases to run.
func (o Options) Chosen() []Case {
	return slices.DeleteFunc(o.asked(), func(c Case) bool { return c.Soak && !o.Soak })
}

// asked lists the cases about the parts that are asked for.
func (o Options) asked() []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool { return !slices.ContainsFunc(c.Parts(), o.About) })
}

// What a case may need of the run, beside what it needs of the deployment.
const (
	needSoak probe.Need = "time, since they take long"
	needEnd  probe.Need = "a run that is not broken off"
)

// RunAll runs cases against a target, several at once, and hands each result over as it
// comes. What had not ended when ctx did is handed over as not run.
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

// fewFailures is up to how many cases that failed are tried once more.
const fewFailures = 10

// Again runs cases that failed once more, one after the other: beside others one may fail
// for what a busy machine does. Where many failed, that is not why.
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
				continue // what it said before counts
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

// Unproven lists the parts that none of the given cases proves.
func Unproven(cases []Case) []Part {
	proven := map[string]bool{}
	for _, c := range cases {
		for _, part := range c.Parts() {
			proven[part] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(Parts), func(p Part) bool { return proven[p.ID] })
}
