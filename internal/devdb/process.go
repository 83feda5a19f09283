//go:build linux

package devdb

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a child that dies with this process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; read it after done
}

// launch starts cmd. The kernel sends Pdeathsig when the thread that forked
// ends, so that thread is held for as long as the child lives.
func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
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

// end asks PostgreSQL for a fast shutdown, when ctx ends for an immediate one,
// and at last kills. A signal to a process that has ended goes nowhere.
func (p *process) end(ctx context.Context) {
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.done:
		return
	case <-time.After(5 * time.Second):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}
