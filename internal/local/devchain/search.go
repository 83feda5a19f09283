//go:build linux

package devchain

import (
	"context"
	"debug/elf"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

// The anvil that npm has, pinned by version and checksum. The lock file's entries equal
// those of internal/tools, which a test watches.
const editionVersion = "1.7.1"

//go:embed npm/package.json npm/package-lock.json
var editionLock embed.FS

// editionPath is where npm puts anvil below the folder that it works in.
func editionPath() string {
	return filepath.Join("node_modules", "@foundry-rs", "anvil-linux-"+runtime.GOARCH, "bin", "anvil")
}

// search is where anvil may lie on a machine.
type search struct {
	bin      string   // $ANVIL_BIN: the program, which is final
	path     []string // the folders of $PATH
	editions []string // folders to look upwards from for a checkout's node_modules
	cache    string   // where the npm edition is installed
	log      *slog.Logger
}

// machine is this one.
func machine(log *slog.Logger) *search {
	return &search{
		bin: os.Getenv("ANVIL_BIN"), path: filepath.SplitList(os.Getenv("PATH")),
		editions: sidecar.Here(), cache: sidecar.Cache(), log: log,
	}
}

// find is the path of anvil. Order: $ANVIL_BIN, PATH, the Node tools of a checkout, the
// npm edition, which is fetched at the first call.
func (s *search) find(ctx context.Context) (string, error) {
	if s.bin != "" {
		program, err := filepath.Abs(s.bin) // it is started in another folder
		if err != nil || !fits(ctx, program) {
			return "", fmt.Errorf("ANVIL_BIN=%s is no anvil 1 (a script that starts one is not either)", s.bin)
		}
		return program, nil
	}
	lock, err := fs.Sub(editionLock, "npm")
	if err != nil {
		return "", fmt.Errorf("npm edition: %w", err)
	}
	pinned := sidecar.Edition{Title: "anvil", Version: editionVersion, Folder: "anvil-" + editionVersion, Lock: lock}
	cached := filepath.Join(pinned.Root(s.cache), editionPath())
	var places []string
	for _, dir := range s.path {
		if filepath.IsAbs(dir) {
			places = append(places, filepath.Join(dir, "anvil"))
		}
	}
	places = append(places, sidecar.InTools(s.editions, editionPath())...)
	for _, program := range append(places, cached) {
		if fits(ctx, program) {
			return program, nil
		}
	}
	if err = pinned.Fetch(ctx, s.cache, s.log); err == nil && !fits(ctx, cached) {
		err = errors.New("the npm edition does not run on this machine (" + runtime.GOARCH + ")")
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("look for anvil: %w", ctx.Err())
	}
	if err != nil {
		return "", fmt.Errorf("there is no anvil 1, which --chain runs; tried (%w). Put one on the PATH (https://getfoundry.sh), set ANVIL_BIN to it, or install npm, which fetches one", err)
	}
	return cached, nil
}

var versionText = regexp.MustCompile(`(?i)anvil (?:version: )?1\.\d`)

// fits asks the program for its version. A script is none: its end would leave the node
// behind that it started.
func fits(ctx context.Context, program string) bool {
	binary, err := elf.Open(program)
	if err != nil {
		return false
	}
	binary.Close()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	return err == nil && versionText.Match(out)
}
