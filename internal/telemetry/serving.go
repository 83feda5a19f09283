package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchMemory shows the bytes that requests and answers in flight hold.
func (m *Metrics) WatchMemory(held func() (unknown, known int64)) {
	if m == nil {
		return
	}
	watch := func(kind string, value func() int64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_buffered_bytes", ConstLabels: prometheus.Labels{"kind": kind},
			Help: "Bytes that large requests and answers in flight hold: of callers that are not authenticated (unknown), and of workspaces (known).",
		}, func() float64 { return float64(value()) }))
	}
	watch("unknown", func() int64 { unknown, _ := held(); return unknown })
	watch("known", func() int64 { _, known := held(); return known })
}
