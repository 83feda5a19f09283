package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchMemory exports the bytes that requests and responses in flight hold.
func (m *Metrics) WatchMemory(held func() (unknown, known int64)) {
	if m == nil {
		return
	}
	watch := func(kind string, value func() int64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_buffered_bytes", ConstLabels: prometheus.Labels{"kind": kind},
			Help: "Bytes that large requests and responses in flight hold: of callers that are not authenticated (unknown), and of workspaces (known).",
		}, func() float64 { return float64(value()) }))
	}
	watch("unknown", func() int64 { unknown, _ := held(); return unknown })
	watch("known", func() int64 { _, known := held(); return known })
}

// WatchConnections exports the number of open connections of the API.
func (m *Metrics) WatchConnections(open func() int) {
	if m != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weft_connections_open", Help: "Open connections of the API.",
		}, func() float64 { return float64(open()) }))
	}
}

// ConnectionClosed counts a connection that was closed because there are too many.
func (m *Metrics) ConnectionClosed(reason string) {
	if m != nil {
		m.connections.WithLabelValues(reason).Inc()
	}
}
