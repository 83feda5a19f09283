package app

import "runtime/debug"

// Version is this binary's, as the Go tool stamped it.
var Version = version()

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
