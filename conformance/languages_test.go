package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/probe"
)

// New users copy these blocks one by one, and so does this test, each into an empty folder.
func TestTheGuidesCallsFromEachLanguage(t *testing.T) {
	t.Parallel()
	behind := target(t)
	text, err := os.ReadFile("../internal/web/portal/guides/signers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Call Weft from each language\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh(?: tab=\"(\\w+)\")?\n(.*?)\n```").FindAllStringSubmatch(section, -1)
	if len(blocks) != 6 || blocks[0][1] != "" {
		t.Fatalf("%d blocks, want one to begin with and five languages", len(blocks))
	}
	needs := map[string]string{"Python": "python3", "TypeScript": "node", "Go": "go", "Java": "javac", "Shell": "openssl"}
	for _, block := range blocks[1:] {
		name, script := block[1], block[2]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if needs[name] == "" {
				t.Fatal("nobody knows what this language needs")
			}
			if !present(t, needs[name]) {
				return
			}
			folder := t.TempDir()
			before := blocks[0][2]
			credentials, err := json.MarshalIndent(map[string]string{"baseUrl": behind.BaseURL, "apiKey": behind.APIKey, "apiSecret": behind.APISecret}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, ".weft/credentials.json"), credentials)
			if name == "TypeScript" {
				before += "\n" + installed(t, folder)
			}
			write(t, filepath.Join(folder, "block.sh"), []byte("set -euo pipefail\n"+before+"\nunset GOFLAGS\n"+script+"\n"))
			out := string(runIn(t, folder, "", "bash", "block.sh"))
			// The digest of "hello", computed with sha256sum.
			const digest = "0x2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
			if !strings.Contains(out, "COMPLETED") || !strings.Contains(out, digest) {
				t.Errorf("it printed %q", out)
			}
			passes(t, behind, func(p *probe.Trial) {
				id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).FindString(out)
				p.Equal("module", p.Record(id).Module, "HASH")
			})
		})
	}
}

// installed replaces npm, because the tests have the packages already.
func installed(t *testing.T, folder string) string {
	t.Helper()
	if err := os.Symlink(nodeTools(t), filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return "npm() { :; }"
}
