package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedianIsTheMiddleOrTheMeanOfTheMiddleTwo(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{5}, 5},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1000}, 1},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("the median of no values is a number")
	}
}

func TestPercentileIsOneOfTheValues(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for _, c := range []struct {
		sorted []int
		share  float64
		want   int
	}{
		{hundred, 0.50, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred, 0, 1},
		{[]int{7}, 0.99, 7},
		{[]int{1, 2}, 0.5, 1},
		{nil, 0.5, 0},
	} {
		if got := percentile(c.sorted, c.share); got != c.want {
			t.Errorf("percentile(%d values, %v) = %d, want %d", len(c.sorted), c.share, got, c.want)
		}
	}
}

func TestSpreadIsTheRangeDividedByTheMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{100, 100}, 0},
		{[]float64{90, 100, 110}, 0.2},
		{nil, 0},
	} {
		if got := spread(c.values); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("spread(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestRatioComparesNeighbouringRuns(t *testing.T) {
	// The machine was half as fast during the second pair, but its ratio is that of the others.
	if got := ratio([]float64{100, 50, 100}, []float64{50, 25, 50}); got != 0.5 {
		t.Errorf("ratio = %v, want 0.5", got)
	}
	if got := ratio([]float64{100, 100, 100}, []float64{10, 50, 60}); got != 0.5 {
		t.Errorf("ratio = %v, want the median of 0.1, 0.5 and 0.6", got)
	}
}

func TestRunsAlternateAndTheFirstIsDropped(t *testing.T) {
	var order string
	n := 0.0
	s, err := alternate(2,
		func() (float64, error) { order += "f"; n++; return n, nil },
		func() (float64, error) { order += "o"; n++; return n, nil })
	if err != nil {
		t.Fatal(err)
	}
	if order != "fofofo" {
		t.Errorf("order %s, want fofofo", order)
	}
	if !slices.Equal(s.floor, []float64{3, 5}) || !slices.Equal(s.ours, []float64{4, 6}) {
		t.Errorf("got floors %v, ours %v; the first of each is a warm-up", s.floor, s.ours)
	}
}

func TestClosedLoopStopsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	_, err := closedLoop(t.Context(), 4, time.Hour, func(context.Context, int) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestTimesPassesEachIndexOnce(t *testing.T) {
	done := make([]int, 100)
	err := times(t.Context(), 8, len(done), func(_ context.Context, _, index int) error {
		done[index]++ // each index is used by one goroutine
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for index, n := range done {
		if n != 1 {
			t.Errorf("index %d was passed %d times", index, n)
		}
	}
	broken := errors.New("broken")
	err = times(t.Context(), 2, 100, func(context.Context, int, int) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}
