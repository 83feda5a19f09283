// Package plan defines what each plan includes: rates, caps and credits (contract part 8, decisions
// 6 and 7). No other package contains these numbers.
package plan

import "github.com/weft-automation/weft/internal/kit/credit"

// Name is the name of a plan.
type Name string

// The plans.
const (
	Starter      Name = "starter"
	Growth       Name = "growth"
	Professional Name = "professional"
	Enterprise   Name = "enterprise"
)

// Names returns the plans, the smallest first.
func Names() []Name { return []Name{Starter, Growth, Professional, Enterprise} }

// None means that there is no limit.
const None = 0

const gib = 1 << 30

// Terms are the rates, caps and credits of a workspace. A rate, a cap or the storage is unlimited if it equals None.
type Terms struct {
	RPS     int // requests a second
	RPH     int // requests an hour
	Waits   int // concurrent inline waits
	Streams int // open streams

	Storage int64 // bytes that may be stored in a month

	Monthly    credit.Amount // plan credits a month
	UsageLimit credit.Amount // usage a month beyond which paid credits are needed
}

// Terms returns the terms of the plan. The terms of Enterprise are empty, because they are agreed
// for each workspace.
func (n Name) Terms() Terms {
	switch n {
	case Starter:
		return Terms{RPS: 5, RPH: 9_000, Waits: 40, Streams: 10, Storage: 5 * gib}
	case Growth:
		return Terms{RPS: 10, RPH: 18_000, Waits: 80, Streams: 50, Storage: 25 * gib, Monthly: credit.Credits(200), UsageLimit: credit.Credits(500)}
	case Professional:
		return Terms{RPS: 25, RPH: 45_000, Waits: 200, Streams: 500, Storage: 100 * gib, Monthly: credit.Credits(1_000), UsageLimit: credit.Credits(2_500)}
	}
	return Terms{}
}
