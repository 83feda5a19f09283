package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// process is one running weft.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed once it has exited
	err  error         // the exit error; read it after done

	submissions atomic.Int64 // in flight

	mu       sync.Mutex
	lines    []string
	api, ops string // base URLs, set once it serves
}

// launch starts a weft binary without waiting for it. The process is killed when the tests exit.
func launch(t testing.TB, binary string, env []string, args ...string) *process {
	t.Helper()
	p := &process{name: strings.Join(args, " "), cmd: exec.Command(binary, args...), done: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TZ=UTC", "HOME=" + os.TempDir()}, env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	reader, writer := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	var reading sync.WaitGroup
	reading.Go(func() { p.read(reader) })
	started := make(chan error)
	go func() {
		// Pdeathsig is sent when the forking thread exits, so the thread is locked.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
		writer.Close()
		reading.Wait() // after done is closed, the log is complete
		close(p.done)
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the last log lines of %s (%v):\n%s", p.name, p.cmd.ProcessState, p.tail(15))
		}
	})
	return p
}

// read records the log and finds the addresses in the log.
func (p *process) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		var line struct{ Msg, API, Ops string }
		_ = json.Unmarshal(scanner.Bytes(), &line)
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		if line.Msg == "weft is running" {
			p.api, p.ops = line.API, line.Ops
		}
		// weft dev --verbose prints them instead of logging them.
		if words := strings.Fields(scanner.Text()); len(words) > 1 && words[0] == "API" {
			p.api = words[1]
		} else if len(words) == 2 && words[0] == "Operations" {
			p.ops = words[1]
		}
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, r)
}

// tail returns the last lines of the log, without the lines of requests.
func (p *process) tail(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := slices.DeleteFunc(slices.Clone(p.lines), func(line string) bool { return strings.Contains(line, `"msg":"request"`) })
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// logged returns the whole log.
func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// addresses returns the base URLs of the API and of operations.
func (p *process) addresses() (api, ops string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.api, p.ops
}

// ended reports whether the process has exited.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// await waits until the process serves.
func (p *process) await(t testing.TB) *process {
	t.Helper()
	eventually(t, 30*time.Second, p.name+" to run", func() (bool, string) {
		_, ops := p.addresses()
		if p.ended() {
			t.Fatalf("%s exited: %v\n%s", p.name, p.err, p.tail(15))
		}
		return ops != "", p.tail(5)
	})
	return p
}

// signal sends a signal to the process itself, not to its group.
func (p *process) signal(s syscall.Signal) {
	if !p.ended() {
		_ = p.cmd.Process.Signal(s)
	}
}

// kill sends SIGKILL and waits until the process has exited.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// exitCode waits until the process has exited and returns its exit code.
func (p *process) exitCode(t testing.TB, limit time.Duration) int {
	t.Helper()
	eventually(t, limit, p.name+" to exit", func() (bool, string) { return p.ended(), p.tail(5) })
	return p.cmd.ProcessState.ExitCode()
}

// status requests a health page. It returns 0 if there is no response.
func (p *process) status(path string) (int, string) {
	api, ops := p.addresses()
	if strings.HasPrefix(path, "/v1") {
		ops = api
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, ops+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body)
}

// metrics returns all metrics of the process: name with labels to value.
func (p *process) metrics(t testing.TB) map[string]float64 {
	t.Helper()
	code, body := p.status("/metrics")
	if code != http.StatusOK {
		t.Fatalf("metrics of %s: %d %s", p.name, code, body)
	}
	values := map[string]float64{}
	for line := range strings.Lines(body) {
		name, text, found := strings.Cut(strings.TrimSpace(line), "} ")
		if found {
			name += "}"
		} else {
			name, text, found = strings.Cut(strings.TrimSpace(line), " ")
		}
		var value float64
		if _, err := fmt.Sscan(text, &value); found && err == nil && !strings.HasPrefix(line, "#") {
			values[name] = value
		}
	}
	return values
}

// sum adds up the series of a metric that have all of the labels.
func sum(values map[string]float64, name string, labels ...string) (total float64) {
	for series, value := range values {
		base, _, _ := strings.Cut(series, "{")
		fits := base == name
		for _, label := range labels {
			fits = fits && strings.Contains(series, label)
		}
		if fits {
			total += value
		}
	}
	return total
}
