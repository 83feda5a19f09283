// Package chaos tests that Weft keeps its promises when processes, networks and databases fail.
//
// It runs the real binary as separate processes on a real PostgreSQL and kills, freezes,
// disconnects and restarts them under load. Then it checks the invariants of an execution by SQL,
// by what the receiver of callbacks saw and by what clients observed.
//
// It contains only tests. `go test` runs a small form of each scenario, WEFT_SOAK=1 the whole one,
// and `make chaos` the scenarios of a lost worker and a restarted database at full size. The one
// invariant: every scenario ends with the checker, and every process that it started has stopped.
package chaos
