package portal

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A rejected call shows the problem document, which says what to fix, and no traceback.
func TestPythonSampleShowsCauseOfError(t *testing.T) {
	t.Parallel()
	const problem = `{"code":"UNAUTHORIZED","reason":"unknown_key"}`
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, problem, http.StatusUnauthorized)
	}))
	t.Cleanup(service.Close)
	folder := t.TempDir()
	samples, err := samplesOf(call{operation: operation{Method: "GET"}, Target: "/v1/sdk/components"})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"call.py": samples[1].Code, "weft_signer.py": get(t, Handler(nil), "/docs/signers/weft_signer.py").Body.String()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "python3", "call.py")
	command.Dir = folder
	command.Env = append(command.Environ(), "WEFT_URL="+service.URL, "WEFT_API_KEY=ws_key", "WEFT_API_SECRET="+strings.Repeat("A", 64))
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), problem) || strings.Contains(string(output), "Traceback") {
		t.Errorf("a rejected call: %v, prints %s", err, output)
	}
}

// curl -s prints nothing if a request fails, and -f hides the problem document. Commands that call
// the API must show both. Downloads may fail without the body, but not without a message.
func TestCurlCommandsShowErrors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	options := regexp.MustCompile(`curl -([a-zA-Z]+) ([^\n]*)`)
	found := 0
	for _, file := range append(files, "pages/samples.txt", "../../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range options.FindAllStringSubmatch(string(text), -1) {
			found++
			silent, hides := strings.Contains(one[1], "s") && !strings.Contains(one[1], "S"), strings.Contains(one[1], "f") && strings.Contains(one[2], "/v1/")
			if silent || hides {
				t.Errorf("%s: %q hides errors. Use curl -sS --fail-with-body", file, one[0])
			}
		}
	}
	if found < 10 {
		t.Errorf("found only %d commands", found)
	}
}
