//go:build linux

package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Lock locks a data folder. The lock is released when this process exits, even if it is killed.
func Lock(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 20)
		n, _ := lock.Read(holder)
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("the data folder %s is in use by process %s; stop that process, or choose another folder",
				dir, bytes.TrimSpace(holder[:n]))
		}
		return nil, fmt.Errorf("lock the data folder %s: %w", dir, err)
	}
	err = errors.Join(lock.Truncate(0), errorOf(fmt.Fprintln(lock, os.Getpid())))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder %s: %w", dir, err), lock.Close())
	}
	return lock, nil
}

func errorOf(_ int, err error) error { return err }

// Unlock releases the folder immediately. Closing the file is not enough if a child between fork
// and exec still has the file open.
func Unlock(lock *os.File) error {
	err := errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
	if err != nil {
		return fmt.Errorf("release the data folder %s: %w", filepath.Dir(lock.Name()), err)
	}
	return nil
}
