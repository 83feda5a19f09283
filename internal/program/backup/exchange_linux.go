package backup

import "golang.org/x/sys/unix"

// exchange swaps the names of two folders in one step.
func exchange(one, other string) error {
	return unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
}
