//go:build !linux

package evmtest

import "syscall"

// bound cannot tie the node's life to the test process on this system.
func bound() *syscall.SysProcAttr { return nil }
