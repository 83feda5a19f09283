package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// process is a child process: a part of Weft, or the floor's server.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed once it has exited
}

// spawn starts this program as another process. Of Weft's settings, its environment contains only env.
func (r *rig) spawn(name string, env []string, args ...string) (*process, error) {
	return r.start(name, env, append([]string{r.Program}, args...)...)
}

// start starts a program in the folder of the benchmark.
func (r *rig) start(name string, env []string, command ...string) (*process, error) {
	r.spawned++
	p := &process{name: name, log: filepath.Join(r.dir, fmt.Sprintf("%s-%d.log", name, r.spawned)), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = r.dir, out, out
	p.cmd.Env = append(plainEnvironment(), env...)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // its log shows the reason
		close(p.done)
	}()
	return p, nil
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
func (p *process) ready(ctx context.Context, url string) error {
	return p.await(ctx, url, answers)
}

// listening waits until addr accepts connections.
func (p *process) listening(ctx context.Context, addr string) error {
	return p.await(ctx, addr, func(ctx context.Context, addr string) bool {
		w, err := dial(ctx, addr)
		return err == nil && w.conn.Close() == nil
	})
}

const startTime = 60 * time.Second

// await waits until there reports true for a place.
func (p *process) await(ctx context.Context, place string, there func(ctx context.Context, place string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if there(ctx, place) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s exited; the end of its log:\n%s", p.name, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready at %s; the end of its log:\n%s", p.name, place, tail(p.log))
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

// status returns what the kernel reports of the process's memory.
func (p *process) status() (procfs.ProcStatus, error) {
	proc, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return procfs.ProcStatus{}, fmt.Errorf("read the memory of %s: %w", p.name, err)
	}
	return proc.NewStatus()
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
