package app

import "runtime/debug"

// Version is this binary's: what its builder stamped it with
// (-ldflags "-X github.com/weft-automation/weft/internal/app.stamp=v1.2.3"),
// else what the Go tool did.
var Version = version()

var stamp string

func version() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
