package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child process: a part of Weft, or the floor's server.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it has exited
}

// spawn starts weft with these arguments. Of Weft's settings, its environment contains only env.
func (r *rig) spawn(name string, env []string, args ...string) (*process, error) {
	r.spawned++
	p := &process{name: name, log: filepath.Join(r.dir, fmt.Sprintf("%s-%d.log", name, r.spawned)), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	command := slices.Clone(r.Program)
	if r.Profile != "" {
		// The path is the last argument, so the name distinguishes the processes.
		command = append(command, "bench-profiled", filepath.Join(r.Profile, fmt.Sprintf("%s-%d.pprof", name, r.spawned)))
	}
	command = append(command, args...)
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append(plainEnvironment(), env...)
	return p, p.launch()
}

// plainEnvironment returns this process's environment without Weft's settings.
func plainEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "WEFT_") || strings.HasPrefix(entry, "DATABASE_URL=") || strings.HasPrefix(entry, "OTEL_")
	})
}

// stop stops the process gracefully, and kills it after half a minute.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return
	case <-time.After(30 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ready waits until url returns 200.
func (p *process) ready(ctx context.Context, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if answers(ctx, url) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s exited; the end of its log:\n%s", p.name, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready at %s; the end of its log:\n%s", p.name, url, tail(p.log))
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// resident returns the resident memory in bytes.
func (p *process) resident() (float64, error) { return p.memory("VmRSS") }

// memory returns one of the kernel's memory figures of the process, in bytes.
func (p *process) memory(figure string) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, figure+":"); ok {
			kilobytes, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kilobytes * 1024, err
		}
	}
	return 0, errors.New("this system does not report " + figure + " of a process")
}

func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data[max(0, len(data)-2000):]))
}

// freeAddr returns a free loopback address.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
