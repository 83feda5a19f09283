package signers_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-automation/weft/conformance/signers"
)

// Users must be able to read the file that they copy.
func TestSignersAreShort(t *testing.T) {
	embedded, err := signers.Files.ReadDir(".")
	if err != nil || len(embedded) != len(signers.Names) {
		t.Fatalf("%v are embedded, %v", embedded, err)
	}
	for _, name := range signers.Names {
		text, err := signers.Files.ReadFile(name)
		if lines := bytes.Count(text, []byte("\n")); err != nil || lines < 30 || lines >= 150 {
			t.Errorf("%s: %d lines, %v", name, lines, err)
		}
	}
}

func TestTheGoSignerGivesTheVectors(t *testing.T) {
	v := made()
	signer, err := signers.NewSigner("ws_none", v.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range v.Requests {
		if message := signers.Message(r.Method, r.Path, r.Timestamp, []byte(r.Body)); base64Of(message) != r.MessageBase64 {
			t.Errorf("%s: the message is %q", r.Name, message)
		}
		if got := signer.Signature(r.Method, r.Path, r.Timestamp, []byte(r.Body)); got != r.Signature {
			t.Errorf("%s: %s", r.Name, got)
		}
	}
	for _, secret := range []string{"", "no base64!", "AAAA", base64Of([]byte(v.APISecret))} {
		if _, err := signers.NewSigner("ws_none", secret); err == nil || secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", secret, err)
		}
	}
}

func TestTheGoSignerSignsWhatIsSent(t *testing.T) {
	v := made()
	signer, err := signers.NewSigner("ws_none", v.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/sdk/components/é?nonce=%C3%A9&limit=1", "/v1/sdk/components/executions?limit=1#top", "/v1/sdk/components"} {
		request, err := signer.Request(t.Context(), "GET", "http://127.0.0.1:1/", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wire bytes.Buffer
		if err := request.Write(&wire); err != nil {
			t.Fatal(err)
		}
		sent := strings.Fields(wire.String())[1]
		if got := request.Header.Get("X-Sdk-Signature"); got != signer.Signature("GET", sent, request.Header.Get("X-Sdk-Timestamp"), nil) {
			t.Errorf("%s was sent as %s and not signed so", path, sent)
		}
	}
}

// place copies the signer and the program that runs it into a new folder.
func place(t *testing.T, files ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// run runs a program in a folder with lines to sign, and returns its output.
func run(t *testing.T, folder, lines string, command ...string) string {
	t.Helper()
	program := exec.CommandContext(t.Context(), command[0], command[1:]...)
	program.Dir = folder
	program.Env = append(program.Environ(), "WEFT_API_SECRET="+made().APISecret)
	program.Stdin = strings.NewReader(lines)
	out, err := program.Output()
	if err != nil {
		var said []byte
		if failed, ok := err.(*exec.ExitError); ok {
			said = failed.Stderr
		}
		t.Fatalf("%v: %v\n%s%s", command, err, out, said)
	}
	return string(out)
}

// present reports whether the machine has the tools of a language, and logs if not. CI has all languages.
func present(t *testing.T, program string) bool {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return true
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing, and CI must have it", program)
	}
	t.Logf("%s is missing: its signer is not tested", program)
	return false
}

func TestSignersOfOtherLanguagesGiveTheVectors(t *testing.T) {
	compiler, err := filepath.Abs("../../internal/tools/node_modules/typescript/bin/tsc")
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []struct {
		name, needs string
		files       []string
		build, run  []string
	}{
		{
			"TypeScript", "node", []string{"weft_signer.ts", "testdata/run.mjs"},
			[]string{
				"node", compiler, "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noImplicitReturns", "--noUnusedLocals",
				"--erasableSyntaxOnly", "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom", "weft_signer.ts",
			},
			[]string{"node", "run.mjs"},
		},
		{"Python with the best package", "python3", []string{"weft_signer.py", "testdata/run.py"}, nil, []string{"python3", "run.py"}},
		{"Python without packages", "python3", []string{"weft_signer.py", "testdata/run.py"}, nil, []string{"python3", "-I", "-S", "-c", alone}},
		{"Java", "javac", []string{"WeftSigner.java", "testdata/Run.java"}, []string{"javac", "-Xlint:all", "-Werror", "WeftSigner.java", "Run.java"}, []string{"java", "-XX:TieredStopAtLevel=1", "Run"}},
		{"shell", "openssl", []string{"weft_curl.sh", "testdata/run.sh"}, []string{"bash", "-n", "weft_curl.sh"}, []string{"bash", "run.sh"}},
	} {
		t.Run(language.name, func(t *testing.T) {
			t.Parallel()
			if !present(t, language.needs) {
				return
			}
			folder := place(t, language.files...)
			if language.needs == "node" {
				if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if language.build != nil {
				run(t, folder, "", language.build...)
			}
			v := made()
			var lines strings.Builder
			for _, r := range v.Requests {
				fmt.Fprintf(&lines, "%s\t%s\t%s\t%s\n", r.Method, r.Path, r.Timestamp, r.BodyBase64)
			}
			got := strings.Split(strings.TrimSuffix(run(t, folder, lines.String(), language.run...), "\n"), "\n")
			if len(got) != len(v.Requests) {
				t.Fatalf("%d signatures of %d requests", len(got), len(v.Requests))
			}
			for i, r := range v.Requests {
				if got[i] != r.Signature {
					t.Errorf("%s: %s", r.Name, got[i])
				}
			}
		})
	}
}

// alone runs run.py without access to installed packages.
const alone = "import sys; sys.path.insert(0, '.'); import weft_signer; assert weft_signer.best() is weft_signer.plain; exec(open('run.py').read())"

// The Ed25519 implementation of the Python signer is also checked with other seeds, and with
// messages of every length up to two blocks of its hash.
func TestPythonsOwnEd25519IsThatOfThePackage(t *testing.T) {
	if !present(t, "python3") {
		return
	}
	folder := place(t, "weft_signer.py")
	const script = `
import hashlib, weft_signer
for i in range(40):
    seed, text = hashlib.sha256(b"%d" % i).digest(), bytes(range(i * 7 % 256))
    print(seed.hex(), text.hex(), weft_signer.plain(seed)(text).hex())
`
	for line := range strings.Lines(run(t, folder, "", "python3", "-c", script)) {
		var seed, text, got string
		fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		seed, text, got = fields[0], fields[1], fields[2]
		if want := hexOf(signed(t, seed, text)); got != want {
			t.Errorf("seed %s, text %s: %s, want %s", seed, text, got, want)
		}
	}
}

func signed(t *testing.T, seed, text string) []byte {
	t.Helper()
	key, err := hex.DecodeString(seed)
	if err != nil {
		t.Fatal(err)
	}
	message, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.Sign(ed25519.NewKeyFromSeed(key), message)
}

func TestAlteredVectorsAreAltered(t *testing.T) {
	v := made()
	for _, r := range v.RefusedSignatures {
		if r.Signature == v.Requests[0].Signature {
			t.Errorf("%s changes nothing", r.Name)
		}
	}
}
