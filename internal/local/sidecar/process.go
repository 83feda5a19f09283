//go:build linux

package sidecar

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Process is a child that dies with this process.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; read it after done
}

// Launch starts cmd, which gets farewell as its signal when this process dies. The
// kernel sends it when the thread that forked ends, so that thread is held for as long
// as the child lives.
func Launch(cmd *exec.Cmd, farewell syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// An own process group keeps a terminal's Ctrl-C for Weft, which still needs its
	// children to end in order.
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, farewell
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	return p, nil
}

// Pid is its process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how it ended, once Done is closed: nil for exit code 0.
func (p *Process) Err() error { return p.err }

// End asks it to end by one signal, when ctx ends by another one, and at last kills
// it. A signal to a process that has ended goes nowhere.
func (p *Process) End(ctx context.Context, ask, insist syscall.Signal) {
	_ = p.cmd.Process.Signal(ask)
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(insist)
	select {
	case <-p.done:
		return
	case <-time.After(5 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// In lists the processes whose working directory is dir, which is how those of a
// predecessor are found that was killed.
func In(dir string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if cwd, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd")); err == nil && cwd == dir {
			pids = append(pids, pid)
		}
	}
	return pids
}

// AwaitNone returns once no process works in dir any more. The kernel has told those of
// a killed predecessor to end; the error names one that has not when ctx ends.
func AwaitNone(ctx context.Context, dir string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for pids := In(dir); len(pids) > 0; pids = In(dir) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d, which Weft did not start, runs on %s: stop it first", pids[0], dir)
		}
	}
	return nil
}
