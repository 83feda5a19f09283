package workflowtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/credit"
	"github.com/weft-automation/weft/internal/kit/status"
)

// Seeds returns the seeds of drawings. The first seeds are fixed, so that known failures recur. The
// other seeds are random. WEFT_SEED chooses one seed.
func Seeds(t testing.TB, count int) []uint64 {
	if text := os.Getenv("WEFT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	base := rand.Uint64() >> 16
	t.Logf("seeds 0 to %d and %d to %d", count/2-1, base, base+uint64(count-count/2)-1)
	all := make([]uint64, count)
	for i := range all {
		if all[i] = uint64(i); i >= count/2 {
			all[i] = base + uint64(i-count/2)
		}
	}
	return all
}

// Place returns the key of a component in an iteration.
func Place[T any](component string, iteration []T) string {
	return fmt.Sprint(component, "@", iteration)
}

// Canonical returns JSON in a canonical form.
func Canonical(data json.RawMessage) string {
	if len(data) == 0 {
		return "nothing"
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return "not JSON: " + string(data)
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// Played is a finished run with its stages by Place.
type Played struct {
	Run    api.WorkflowRun
	Stages map[string]api.RunStage
}

// Compare compares a finished run with the reference, and calls blame for each difference.
func (r *Reference) Compare(p Played, canceled bool, blame func(format string, args ...any)) {
	end := status.RunCompleted
	if len(r.Broken) > 0 {
		end = status.RunFailed
	}
	if p.Run.Status != end && !(canceled && p.Run.Status == status.RunCanceled) {
		blame("ended %s %s, want %s %v", p.Run.Status, p.Run.Error, end, r.Broken)
		return
	}
	if p.Run.Status == status.RunFailed {
		var failure api.RunError
		if err := json.Unmarshal(p.Run.Error, &failure); err != nil || failure.ComponentID == nil || !slices.Contains(r.Broken, *failure.ComponentID) || failure.StageID == nil || *failure.StageID == uuid.Nil {
			blame("failed for %s, want one of %v", p.Run.Error, r.Broken)
		}
	}
	loose := p.Run.Status != status.RunCompleted
	if got, want := Canonical(p.Run.Output), Canonical(r.Output); got != want && !loose {
		blame("gave %s, want %s", got, want)
	}
	var usage credit.Amount
	for at, stage := range p.Stages {
		usage += stage.CreditUsage
		r.judge(at, stage, loose || r.optional[at], blame)
	}
	for at, want := range r.Fates {
		if _, there := p.Stages[at]; !there && !loose && !r.optional[at] {
			blame("has no stage %s, want %s", at, want.Status)
		}
	}
	if usage != p.Run.TotalUsage {
		blame("used %s, its stages %s", p.Run.TotalUsage, usage)
	}
}

// judge compares a stage with the reference. If loose is true, a failure elsewhere may have
// stopped the stage.
func (r *Reference) judge(at string, stage api.RunStage, loose bool, blame func(string, ...any)) {
	want, known := r.Fates[at]
	price := credit.Amount(0)
	if _, taken := r.taken[at]; !taken && slices.Contains([]string{"WORK", "SEND", "PURE"}, stage.Module) && stage.Status == status.StageCompleted {
		price = Price
	}
	if stage.CreditUsage != price {
		blame("%s used %s, want %s", at, stage.CreditUsage, price)
	}
	switch {
	case !known:
		blame("has the stage %s, which is unexpected", at)
	case stage.Status == status.StageCanceled && loose:
	case stage.Status != want.Status:
		blame("%s is %s %s, want %s", at, stage.Status, stage.Error, want.Status)
	case stage.Module == "DELAY" || stage.Module == "ON_API_CALLED":
	case stage.Module == "FOR_EACH" && r.optional[at] && loose && want.Status == status.StageFailed:
	case Canonical(stage.Output) != Canonical(want.Output):
		blame("%s gave %s, want %s", at, Canonical(stage.Output), Canonical(want.Output))
	}
}

// Loose reports whether a failure elsewhere may stop the stage at a place.
func (r *Reference) Loose(at string) bool { return len(r.Broken) > 0 || r.optional[at] }

// Exact reports whether all runs of the drawing have the same stages.
func (r *Reference) Exact() bool { return len(r.Broken)+len(r.optional) == 0 }
