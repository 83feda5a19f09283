package main

import (
	"math"
	"slices"
)

// median returns the middle value, or the mean of the two middle ones. It returns NaN for no values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile returns the smallest of the sorted values such that at least the given share (0 to 1)
// of the values are not greater. It returns the zero value if there are no values.
func percentile[T any](sorted []T, share float64) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	at := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(at, 0), len(sorted)-1)]
}

// spread returns the range of the values divided by their median.
func spread(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) / median(values)
}

// ratio returns the median of the ratios of ours to floor, run by run, because adjacent runs share
// the noise of the machine.
func ratio(floor, ours []float64) float64 {
	each := make([]float64, min(len(floor), len(ours)))
	for i := range each {
		each[i] = ours[i] / floor[i]
	}
	return median(each)
}
