package utility

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// independent runs an independent implementation in JavaScript (testdata/independent.mjs) on each
// case, a line of fields, and returns its results.
func independent(t *testing.T, cases [][]string) []string {
	t.Helper()
	var in bytes.Buffer
	for _, fields := range cases {
		in.WriteString(strings.Join(fields, "\t") + "\n")
	}
	ctx := waittest.Context(t)
	node := exec.CommandContext(ctx, "node", "testdata/independent.mjs")
	var complaint bytes.Buffer
	node.Stdin, node.Stderr = &in, &complaint
	out, err := node.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s", err, complaint.String())
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != len(cases) {
		t.Fatalf("%d answers to %d cases", len(answers), len(cases))
	}
	return answers
}
