package demo

import (
	_ "embed"
	"strings"
)

// addressMark is the placeholder in the files for the upstream's address.
const addressMark = "DEMO"

//go:embed fan-out.json
var fanOut string

//go:embed approval.json
var approval string

//go:embed chain-watch.json
var chainWatch string

//go:embed payout.json
var payout string

// Workflows returns the example workflows of `weft dev` by name, as files for `weft workflows push`.
// addr is the upstream's address.
func Workflows(addr string) map[string]string {
	return map[string]string{
		"fanOut":   strings.ReplaceAll(fanOut, addressMark, addr),
		"approval": approval,
	}
}

// ChainWorkflows returns the example workflows that also need a chain. They read the chain's
// address and a funded key from environment variables.
func ChainWorkflows() map[string]string {
	return map[string]string{"chainWatch": chainWatch, "payout": payout}
}
