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

// The npm edition of anvil, pinned by version and checksum. A test checks that the lock file equals
// that of internal/tools.
const editionVersion = "1.7.1"

//go:embed npm/package.json npm/package-lock.json
var editionLock embed.FS

// editionPath returns the path of anvil below npm's working folder.
func editionPath() string {
	return filepath.Join("node_modules", "@foundry-rs", "anvil-linux-"+runtime.GOARCH, "bin", "anvil")
}

// search is where to search for anvil.
type search struct {
	bin      string   // $ANVIL_BIN, the only candidate if set
	path     []string // folders of $PATH
	editions []string // folders from which to search upwards for a checkout's node_modules
	cache    string   // where the npm edition is installed
	log      *slog.Logger
}

// machine returns the search of this machine.
func machine(log *slog.Logger) *search {
	return &search{
		bin: os.Getenv("ANVIL_BIN"), path: filepath.SplitList(os.Getenv("PATH")),
		editions: sidecar.Here(), cache: sidecar.Cache(), log: log,
	}
}

// find returns the path of anvil. It tries $ANVIL_BIN, PATH, the Node tools of a checkout, and the
// npm edition. It downloads the npm edition when that is first needed.
func (s *search) find(ctx context.Context) (string, error) {
	if s.bin != "" {
		program, err := filepath.Abs(s.bin) // it is started in another folder
		if err != nil || !fits(ctx, program) {
			return "", fmt.Errorf("ANVIL_BIN=%s is not anvil 1; a script that starts anvil does not work", s.bin)
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
		return "", fmt.Errorf("search for anvil: %w", ctx.Err())
	}
	if err != nil {
		return "", fmt.Errorf("--chain needs anvil 1, which was not found (%w). Install it (https://getfoundry.sh), set ANVIL_BIN to its path, or install npm, with which Weft downloads it", err)
	}
	return cached, nil
}

var versionText = regexp.MustCompile(`(?i)anvil (?:version: )?1\.\d`)

// fits reports whether the program is anvil 1. It rejects scripts: if a script is killed, the node
// that the script started keeps running.
func fits(ctx context.Context, program string) bool {
	binary, err := elf.Open(program)
	if err != nil {
		return false
	}
	binary.Close()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	return err == nil && versionText.Match(out)
}
