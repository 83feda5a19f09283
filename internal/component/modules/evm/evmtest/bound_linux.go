package evmtest

import "syscall"

// bound kills the node if the test process is killed before its clean-up.
func bound() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
