package bench

import (
	"runtime"
	"syscall"
)

// launch starts the process so that the kernel ends it with this one. The
// kernel watches the thread that forked, so that thread is held.
func (p *process) launch() error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended shows in its log
		}
		close(p.done)
	}()
	return <-started
}

// openFiles is how many files this process, and a child of it, may have open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1500
	}
	return int(min(limit.Max, 1<<20)) // the run time raises the soft limit to the hard one
}
