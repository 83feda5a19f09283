package cli_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/waittest"
	"github.com/weft-automation/weft/internal/program/cli"
)

// TestMain lets this test program act as weft for the shells that call it.
func TestMain(m *testing.M) {
	if os.Getenv("WEFT_TEST_AS_WEFT") == "1" {
		_ = os.Unsetenv("WEFT_TEST_AS_WEFT") // weft serve rejects unknown settings
		os.Exit(cli.Run(context.Background(), cli.Process{
			Program: os.Args[0], Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		}))
	}
	os.Exit(m.Run())
}

// unquoted returns the words of a line as a shell parses them.
func unquoted(t *testing.T, line string) []string {
	t.Helper()
	out := bash(t, t.TempDir(), "printf '%s\\n' "+line)
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}

// bash runs a script in a real bash that finds this program as weft.
func bash(t *testing.T, folder, script string) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(own, filepath.Join(bin, "weft")); err != nil {
		t.Fatal(err)
	}
	ctx := waittest.Context(t)
	command := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-c", script)
	command.Dir = folder
	command.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "WEFT_TEST_AS_WEFT=1", "HOME=" + folder}
	var complaints strings.Builder
	command.Stderr = &complaints
	out, err := command.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("bash: %v: %s", err, complaints.String())
	}
	return string(out)
}

// completions returns the words with which a real bash would replace the last word of each line.
// The script sets COMP_LINE and similar variables as bash does.
func completions(t *testing.T, lines []string) map[string][]string {
	t.Helper()
	script := `source <(weft completion bash)
ask() {
	COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
	COMP_WORDS=(weft) COMP_CWORD=0
	compopt() { :; }
	_weft
	printf '@> %s\n' "$1"
	printf '%s\n' "${COMPREPLY[@]}"
}
complete -p weft
`
	for _, line := range lines {
		script += "ask " + "'" + strings.ReplaceAll(line, "'", `'\''`) + "'\n"
	}
	out := bash(t, t.TempDir(), script)
	if !strings.HasPrefix(out, "complete -o default -F _weft weft\n") {
		t.Fatalf("bash has no completion for weft: %s", out)
	}
	found := map[string][]string{}
	for _, part := range strings.Split(out, "@> ")[1:] {
		line, words, _ := strings.Cut(part, "\n")
		for _, word := range strings.Split(words, "\n") {
			if word != "" {
				found[line] = append(found[line], word)
			}
		}
	}
	return found
}

func TestBashCompletesCommandsFlagsModulesAndFields(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"weft comp":                               {"components", "completion"},
		"weft completion ":                        {"bash", "zsh", "fish"},
		"weft completion z":                       {"zsh"},
		"weft ru":                                 {"run", "runs"},
		"weft call RANDOM_":                       {"RANDOM_HEX", "RANDOM_UUID"},
		"weft call HASH ":                         {"data=", "algorithm=", "encoding="},
		"weft call HASH data=x ":                  {"algorithm=", "encoding="},
		"weft call HASH 'data=a b' enc":           {"encoding="},
		"weft call HASH encoding=he":              {"hex"},
		"weft call API_CALL method=":              {"GET", "POST", "PUT", "PATCH", "DELETE"},
		"weft call HASH algorithm=sha":            {"sha256", "sha512"},
		`weft call HASH "algorithm=kec`:           {"algorithm=keccak256"},
		"weft call HASH --wait 5s algorithm=ripe": {"ripemd160"},
		"weft call --wait=5s RANDOM_H":            {"RANDOM_HEX"},
		"weft call --wait 5s RANDOM_H":            {"RANDOM_HEX"},
		"weft call API_CALL m":                    {"method="},
		"weft call API_CALL method=P":             {"POST", "PUT", "PATCH"},
		"weft call HASH --stre":                   {"--stream"},
		"weft components get ON_":                 {"ON_API_CALLED", "ON_SCHEDULE", "ON_WEBHOOK"},
		"weft call ON_":                           nil,
		"weft dev --plan gro":                     {"growth"},
		"weft dev --plan=":                        {"starter", "growth", "professional", "enterprise"},
		"weft env set NAME --no-":                 {"--no-color", "--no-secret"},
		"weft call HASH --input ":                 nil,
		"weft call NOTHING ":                      nil,
		"weft complete":                           nil,
	}
	found := completions(t, slices.Collect(maps.Keys(cases)))
	for line, want := range cases {
		if got := found[line]; !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestOtherShellsGetWordsAndDescriptions(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"zsh", "fish"} {
		run(t, nil, "", "completion", shell).check(t, 0, "complete-words "+shell+" -- ", "")
		got := run(t, nil, "", "complete-words", shell, "--", "call", "HASH", "data=x", "")
		got.check(t, 0, "algorithm=\tThe hash function.\n", "")
		if strings.Contains(got.stdout, "data=") {
			t.Errorf("%s: unexpected candidates %s", shell, got.stdout)
		}
		run(t, nil, "", "complete-words", shell, "--", "call", "HASH", "algorithm=sha5").check(t, 0, "algorithm=sha512\t", "")
		run(t, nil, "", "complete-words", shell, "--", "call", "HASH", `"algorithm=sha5`).check(t, 0, "algorithm=sha512\t", "")
		run(t, nil, "", "complete-words", shell, "--", "").check(t, 0, "call\tRun a component", "")
		run(t, nil, "", "complete-words", shell).check(t, 0, "", "")
	}
	run(t, nil, "", "completion", "tcsh").check(t, 2, "", "bash")
}
