package demo

import (
	_ "embed"
	"strings"
)

// addressMark stands in the files where the address of the upstream belongs.
const addressMark = "DEMO"

//go:embed fan-out.json
var fanOut string

//go:embed approval.json
var approval string

//go:embed chain-watch.json
var chainWatch string

//go:embed payout.json
var payout string

// Workflows are the examples of `weft dev`, each as a file that `weft workflows push`
// takes, by their names. addr is where the upstream listens.
func Workflows(addr string) map[string]string {
	return map[string]string{
		"fanOut":   strings.ReplaceAll(fanOut, addressMark, addr),
		"approval": approval,
	}
}

// ChainWorkflows are those that need a chain too, which they find, with a key to pay from,
// by variables of the environment.
func ChainWorkflows() map[string]string {
	return map[string]string{"chainWatch": chainWatch, "payout": payout}
}
