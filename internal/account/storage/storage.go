// Package storage computes how many stages and bytes a run may store, and the fee for usage beyond
// the free part (decisions 7 and 8).
//
// It doesn't use the database. Sizes and prices are whole numbers, so the order of the calculation
// doesn't change a fee.
package storage

import "github.com/weft-automation/weft/internal/kit/credit"

// Limits of a root run and all its descendants.
const (
	MaxStages = 50_000
	MaxBytes  = 64 << 20 // of stage outputs
)

// FreeStages and FreeBytes of a root run and its descendants are free of charge.
const (
	FreeStages = 1_000
	FreeBytes  = 32 << 20
)

// Prices beyond the free part.
const (
	PerStage = credit.Amount(1_000) // 0.001 credits
	PerKiB   = credit.Amount(10)    // 0.00001 credits, for each whole KiB
)

// The bytes that each row adds to the stored bytes of a workspace, in addition to its values.
const (
	RunBytes       = 4 << 10
	StageBytes     = 512
	EventBytes     = 128
	ExecutionBytes = 1 << 10
	SignalBytes    = 256
	VersionBytes   = 1 << 10 // of a workflow
)

// Usage is what runs have stored.
type Usage struct {
	Stages int64
	Bytes  int64 // of stage outputs
}

// Plus returns the sum of u and other.
func (u Usage) Plus(other Usage) Usage {
	return Usage{u.Stages + other.Stages, u.Bytes + other.Bytes}
}

// Less returns u without other, at least 0.
func (u Usage) Less(other Usage) Usage {
	return Usage{max(0, u.Stages-other.Stages), max(0, u.Bytes-other.Bytes)}
}

// Fee returns the price of the usage beyond the free stages and bytes. Beyond the limits the fee
// doesn't grow, because the run fails.
func (u Usage) Fee() credit.Amount {
	stages := max(0, min(u.Stages, MaxStages)-FreeStages)
	kib := max(0, min(u.Bytes, MaxBytes)-FreeBytes) >> 10
	return credit.Amount(stages)*PerStage + credit.Amount(kib)*PerKiB
}

// Fee returns the price of growing from oldUsage to newUsage.
func Fee(oldUsage, newUsage Usage) credit.Amount { return max(0, newUsage.Fee()-oldUsage.Fee()) }

// Counted returns the number of bytes that u adds to the stored bytes of its workspace.
func (u Usage) Counted() int64 { return u.Bytes + u.Stages*StageBytes }

// The maximum that one stage stores: a sealed value of 1 MiB. A trigger stores its input twice.
const (
	stageAtMost   = 3 << 19
	triggerAtMost = 3 << 20
)

// AtMost returns the largest usage of a run with the given number of stages.
func AtMost(stages int64) Usage {
	stages = min(stages, MaxStages)
	return Usage{Stages: stages, Bytes: min(stages*stageAtMost+triggerAtMost, MaxBytes)}
}
