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

// Process is a child that is killed when this process exits.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has exited
	err  error         // the exit error; read it after done
}

// Launch starts cmd, which gets the signal onDeath when this process dies. The kernel sends the
// signal when the forking thread exits, so Launch locks that thread while the child is running.
func Launch(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A separate process group keeps a terminal's Ctrl-C from the child, because Weft still needs it
	// during a graceful stop.
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, onDeath
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread exits with this goroutine
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

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed once the process has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the exit error, once Done is closed: nil for exit code 0.
func (p *Process) Err() error { return p.err }

// Stop sends the process one signal. When ctx is done, it sends a second signal, and finally
// SIGKILL. Signals to a process that has exited have no effect.
func (p *Process) Stop(ctx context.Context, first, second syscall.Signal) {
	_ = p.cmd.Process.Signal(first)
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(second)
	select {
	case <-p.done:
		return
	case <-time.After(5 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// ProcessesIn returns the processes whose working directory is dir, such as the processes of a
// killed predecessor.
func ProcessesIn(dir string) []int {
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

// AwaitNone waits until no process has dir as its working directory. Processes of a killed
// predecessor are already exiting: the kernel signaled them when the predecessor died. If ctx is
// done first, the error names a process that is still running.
func AwaitNone(ctx context.Context, dir string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for pids := ProcessesIn(dir); len(pids) > 0; pids = ProcessesIn(dir) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d, which this Weft did not start, uses %s; stop it first", pids[0], dir)
		}
	}
	return nil
}
