package cli_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/waittest"
)

// block is a code block of a guide.
type block struct{ language, title, run, code string }

var (
	fences     = regexp.MustCompile("(?ms)^```(\\w+)([^\\n]*)\\n(.*?)^```$")
	fenceWords = regexp.MustCompile(`(\w+)="([^"]*)"`)
	commands   = regexp.MustCompile(`(?m)^\$ (.*(?:\\\n.*)*)$`)
)

// guideBlocks returns the code blocks of a guide, read from the running service.
func guideBlocks(t *testing.T, baseURL, name string) []block {
	t.Helper()
	answer, err := http.Get(baseURL + "/docs/" + name + ".md")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("guide %s: got status %d (%v)", name, answer.StatusCode, err)
	}
	return blocksOf(strings.ReplaceAll(string(text), "http://127.0.0.1:8080", baseURL))
}

// blocksOf returns the code blocks of a Markdown text.
func blocksOf(text string) []block {
	var all []block
	for _, found := range fences.FindAllStringSubmatch(text, -1) {
		b := block{language: found[1], code: found[3]}
		for _, word := range fenceWords.FindAllStringSubmatch(found[2], -1) {
			switch word[1] {
			case "title":
				b.title = word[2]
			case "run":
				b.run = word[2]
			}
		}
		all = append(all, b)
	}
	return all
}

// workshop is a folder in which the guides' commands run. Its bin/weft is the test program, so
// nothing is linked.
type workshop struct {
	dir     string
	environ []string
}

func newWorkshop(t *testing.T, environ []string) workshop {
	t.Helper()
	w := workshop{t.TempDir(), append(os.Environ(), "CGO_ENABLED=0", "CALLBACK_SECRET=open-sesame", "PYTHONDONTWRITEBYTECODE=1", "WEFT_TEST_AS_WEFT=1")}
	for _, one := range environ {
		if path, ok := strings.CutPrefix(one, "WEFT_CREDENTIALS="); ok {
			if err := os.Symlink(filepath.Dir(path), filepath.Join(w.dir, ".weft")); err != nil {
				t.Fatal(err)
			}
		}
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, filepath.Join(w.dir, "bin", "weft")); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w workshop) command(ctx context.Context, line string) *exec.Cmd {
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", line)
	command.Dir, command.Env, command.WaitDelay = w.dir, w.environ, 5*time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) } // includes the processes that go run starts
	return command
}

// run runs a command and returns what it prints.
func (w workshop) run(t *testing.T, line string) string {
	t.Helper()
	ctx := waittest.Context(t)
	out, err := w.command(ctx, line).CombinedOutput()
	if err != nil {
		t.Errorf("%s\n%v\n%s", line, err, out)
	} else {
		t.Logf("%s\n%.300s", line, out)
	}
	return string(out)
}

// await waits until a server listens on the port.
func (w workshop) await(t *testing.T, port string) {
	t.Helper()
	w.run(t, "until (: > /dev/tcp/127.0.0.1/"+port+") 2>/dev/null; do sleep 0.1; done")
}

// runAll writes the files and runs the commands of all blocks, in order. It returns what the
// commands print, and their number.
func (w workshop) runAll(t *testing.T, blocks []block) (printed string, ran int) {
	t.Helper()
	for _, b := range blocks {
		w.write(t, b)
		var lines []string
		if b.run != "" && !strings.HasSuffix(b.run, "&") { // servers are started separately
			lines = append(lines, b.run)
		}
		if b.language == "console" {
			for _, found := range commands.FindAllStringSubmatch(b.code, -1) {
				lines = append(lines, found[1])
			}
		}
		for _, line := range lines {
			printed += w.run(t, line)
			ran++
		}
	}
	return printed, ran
}

func (w workshop) write(t *testing.T, b block) {
	t.Helper()
	if b.title == "" || strings.ContainsAny(b.title, " /") || !strings.Contains(b.title, ".") {
		return
	}
	if err := os.WriteFile(filepath.Join(w.dir, b.title), []byte(b.code), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Every command of a guide runs as written and in order, against a weft dev. Receivers have a
// separate test.
func TestCommandsOfTheGuidesRun(t *testing.T) {
	t.Parallel()
	environ, baseURL := startWeft(t)
	for _, name := range []string{"first-call", "signing", "signers", "clients", "streams", "workflows", "triggers", "commands", "limits", "errors"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ran := newWorkshop(t, environ).runAll(t, guideBlocks(t, baseURL, name))
			t.Logf("%d commands ran", ran)
			if ran == 0 && name != "limits" && name != "errors" {
				t.Error("no command was run")
			}
		})
	}
}

// The examples that start a server, those of the README among them, run as written, apart from
// the ports and the names of workflows. A workflow gets the result of the user's own endpoint.
func TestExamplesWithServersRun(t *testing.T) {
	t.Parallel()
	proxy := freePort(t)
	environ, baseURL := startWeft(t, "--allow-network=127.0.0.0/8", "--callback-schedule=0s,1s,2s", "--proxy-addr=127.0.0.1:"+proxy)
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, blocks := range map[string][]block{
		"README":   blocksOf(string(readme)),
		"own-code": guideBlocks(t, baseURL, "own-code"),
		"failures": guideBlocks(t, baseURL, "failures"),
		"loops":    guideBlocks(t, baseURL, "loops"),
		"proxy":    guideBlocks(t, baseURL, "proxy"),
		"listen":   guideBlocks(t, baseURL, "listen"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, endpoint := newWorkshop(t, environ), freePort(t)
			move := strings.NewReplacer("9000", endpoint, "8081", proxy, "8082", freePort(t), "8765", freePort(t),
				"name: Double", "name: Double of "+name).Replace // the ports of the two files differ
			servers := 0
			for i := range blocks {
				blocks[i].code = move(blocks[i].code)
				if line, ok := strings.CutSuffix(blocks[i].run, " &"); ok {
					w.write(t, blocks[i])
					server := w.command(t.Context(), "exec "+line)
					if err := server.Start(); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = server.Wait() }) // the test's context kills it first
					w.await(t, endpoint)
					servers++
				}
			}
			printed, ran := w.runAll(t, blocks)
			right := strings.Contains(printed, `"doubled": 42`) == (servers > 0)
			outputs := map[string][]string{
				"failures": {`"requests": 3`, `"released": 1`},
				"loops":    {`"failed": 1`, `"order 3"`, `"invoice 2"`, `"asked": 4`},
			}[name]
			if outputs != nil {
				right = !slices.ContainsFunc(outputs, func(output string) bool { return !strings.Contains(printed, output) })
			}
			if ran == 0 || !right {
				t.Errorf("%d commands and %d servers ran, and printed %s", ran, servers, printed)
			}
		})
	}
}

// Each receiver of the guide accepts signed callbacks of an execution and of runs, which the programs of
// the guide start, and rejects a callback that was signed with a different secret.
func TestReceiversOfTheGuideAcceptCallbacks(t *testing.T) {
	t.Parallel()
	proxy := freePort(t)
	environ, baseURL := startWeft(t, "--allow-network=127.0.0.0/8", "--proxy-addr=127.0.0.1:"+proxy)
	w := newWorkshop(t, environ)
	var send string
	var receivers, triggers []block
	for _, b := range guideBlocks(t, baseURL, "callbacks") {
		b.code = strings.ReplaceAll(b.code, "8081", proxy)
		w.write(t, b)
		for _, found := range commands.FindAllStringSubmatch(b.code, -1) {
			if strings.Contains(found[1], "--callback-secret") {
				send = found[1]
			} else {
				w.run(t, found[1])
			}
		}
		switch {
		case strings.HasPrefix(b.title, "trigger."):
			triggers = append(triggers, b)
		case b.run != "":
			receivers = append(receivers, b)
		}
	}
	if len(receivers) != 5 || len(triggers) != 4 {
		t.Fatalf("found %d receivers and %d programs that trigger", len(receivers), len(triggers))
	}
	for i, b := range receivers {
		started := []block{triggers[i%len(triggers)]}
		if i == 0 {
			started = triggers
		}
		w.receives(t, b, send, started)
	}
}

// receives starts a receiver, sends it a callback that it must reject and one that it must accept, and
// starts runs that call it.
func (w workshop) receives(t *testing.T, b block, send string, triggers []block) {
	t.Helper()
	port := freePort(t)
	move := strings.NewReplacer("9000", port).Replace
	b.code = move(b.code)
	w.write(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	received := make(chan string, 256)
	receiver := w.command(ctx, "exec "+b.run)
	receiver.Stdout, receiver.Stderr = lineWriter(received), os.Stderr
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = receiver.Wait() }()
	w.await(t, port)
	w.run(t, strings.Replace(move(send), "open-sesame", "another-secret", 1))
	w.run(t, move(send))
	for _, trigger := range triggers {
		trigger.code = move(trigger.code)
		w.write(t, trigger)
		w.run(t, trigger.run)
	}
	var told strings.Builder
	accepted := func(kind string) int { return strings.Count(told.String(), kind) }
	for over := waittest.Context(t).Done(); accepted("COMPLETED") < 1+len(triggers); {
		select {
		case part := <-received:
			told.WriteString(part)
			continue
		case <-over:
			t.Errorf("%s accepted too few callbacks: %q", b.title, told.String())
		}
		break
	}
	if accepted("execution.completed") != 1 || accepted("run.completed") != len(triggers) {
		t.Errorf("%s accepted other callbacks: %q", b.title, told.String())
	}
}

// freePort returns a port that is currently free.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
