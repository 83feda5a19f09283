// Package chaos proves that Weft keeps its promises when things break: it runs
// the real binary as processes of their own on a real PostgreSQL, kills,
// freezes, cuts and restarts them under load, and then checks the invariants of
// an execution by SQL, by what the receiver of callbacks saw and by what clients
// observed.
//
// It owns no behaviour; all of it is tests. `go test` runs a small form of each
// scenario, WEFT_SOAK=1 the whole one, `make chaos` the scenarios of a lost
// worker and a restarted database at full size. The one invariant: every
// scenario ends with the checker, and every process it started has ended.
package chaos
