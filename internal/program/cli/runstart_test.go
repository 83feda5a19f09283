package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

func TestARunIsStartedWithADeadlineAndACallback(t *testing.T) {
	s := serve(t, running(""))
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, s.environ(), "", "workflows", "run", workflowID, "--deadline=2h", "--callback-url=https://a.example/", "--callback-secret-file="+file).check(t, 0, "", "")
	want := "POST /v1/sdk/workflows/" + workflowID + ` {"callbackSecret":"correct horse","callbackUrl":"https://a.example/","deadlineMs":7200000,"input":{}}`
	if seen := s.seen(); len(seen) == 0 || seen[0] != want {
		t.Errorf("requests %q", seen)
	}
}
