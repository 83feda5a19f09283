package evmtest

import "syscall"

// bound ends the node when the test process is killed before its clean-up.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
