package main

import (
	"runtime"
	"syscall"
)

// launch starts the process so that the kernel kills it when this one exits. The kernel tracks the
// forking thread, so that thread is locked.
func (p *process) launch() error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread exits with this goroutine
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // its log shows the reason
		}
		close(p.done)
	}()
	return <-started
}

// openFiles returns how many files this process, and a child of it, may open.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1500
	}
	return int(min(limit.Max, 1<<20)) // the Go runtime raises the soft limit to the hard limit
}
