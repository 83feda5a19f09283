//go:build !linux

package footprint

// unmapText is for Linux, whose kernel tells which pages of a program nobody has written.
func unmapText() {}
