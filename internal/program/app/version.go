package app

import (
	"cmp"
	"runtime/debug"
)

// Version identifies this build in the log, in metrics and in `weft --version`. It is the value
// stamped at build time (`make build` sets -ldflags "-X
// github.com/weft-automation/weft/internal/program/app.stamp=v1.2.3"), otherwise the version or
// commit recorded by the go command.
var Version = version(debug.ReadBuildInfo())

var stamp string

// unversioned is the version of a build without version information, such as a test.
const unversioned = "(devel)"

func version(info *debug.BuildInfo, ok bool) string {
	if stamp != "" || !ok {
		return cmp.Or(stamp, unversioned)
	}
	if info.Main.Version != "" && info.Main.Version != unversioned {
		return info.Main.Version
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		return unversioned
	}
	commit = commit[:min(len(commit), 12)]
	if settings["vcs.modified"] == "true" {
		commit += "-dirty"
	}
	return commit
}
