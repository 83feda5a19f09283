package storage_test

import (
	"testing"

	"github.com/weft-automation/weft/internal/account/storage"
	"github.com/weft-automation/weft/internal/kit/credit"
)

const mib = 1 << 20

func TestFeeIsForWhatExceedsTheFreePart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stages, bytes int64
		want          credit.Amount
	}{
		{0, 0, 0},
		{1_000, 32 * mib, 0},
		{1_001, 0, 1_000},
		{50_000, 0, 49_000_000},
		{60_000, 0, 49_000_000},
		{0, 32*mib + 1_023, 0},
		{0, 32*mib + 1_024, 10},
		{0, 64 * mib, 327_680},
		{0, 200 * mib, 327_680},
		{2_000, 33 * mib, 1_010_240},
	} {
		if got := (storage.Usage{Stages: c.stages, Bytes: c.bytes}).Fee(); got != c.want {
			t.Errorf("%d stages and %d bytes cost %s, want %s", c.stages, c.bytes, got, c.want)
		}
	}
}

// The total fee doesn't depend on the number of advances.
func TestFeesOfStepsAddUpToTheWhole(t *testing.T) {
	t.Parallel()
	for _, step := range []storage.Usage{{1, 100}, {500, 16 * mib}, {333, 7*mib + 77}, {50_000, 64 * mib}} {
		var all storage.Usage
		var paid credit.Amount
		for all.Stages < 3_000 && all.Bytes < 100*mib {
			next := all.Plus(step)
			paid += storage.Fee(all, next)
			all = next
		}
		if want := all.Fee(); paid != want {
			t.Errorf("in steps of %+v: %s, want %s", step, paid, want)
		}
	}
}

func TestFeeIsNeverNegative(t *testing.T) {
	t.Parallel()
	if fee := storage.Fee(storage.Usage{Stages: 2_000}, storage.Usage{Stages: 1_500}); fee != 0 {
		t.Errorf("fewer stages than before cost %s", fee)
	}
}

func TestUsageAtMostIsWithinTheLimits(t *testing.T) {
	t.Parallel()
	for stages, want := range map[int64]storage.Usage{
		1:         {1, 4*mib + mib/2},
		10:        {10, 18 * mib},
		50_000:    {storage.MaxStages, storage.MaxBytes},
		9_000_000: {storage.MaxStages, storage.MaxBytes},
	} {
		if got := storage.AtMost(stages); got != want {
			t.Errorf("%d stages: %+v, want %+v", stages, got, want)
		}
	}
}
