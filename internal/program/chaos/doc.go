// Package chaos tests that Weft keeps its promises when processes, networks and databases fail.
//
// The tests run the real binary as separate processes on a real PostgreSQL and kills, freezes,
// disconnects and restarts them under load. Then they check the invariants of an execution with
// SQL, with the callbacks that the receiver got, and with the responses that clients got.
//
// The package contains only tests. `go test` runs a small form of each scenario, and with
// WEFT_SOAK=1 the full form (`make soak-kills`, `make soak-operations`). Invariant: Every scenario
// ends with the checker, after which every process that the scenario started has stopped.
package chaos
