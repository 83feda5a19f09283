package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// debianVersion returns the version as Debian sorts it: what follows the number sorts below the number.
func (r release) debianVersion() string {
	return strings.Replace(r.number(), "-", "~", 1)
}

// debian writes the Debian package of a Linux binary, by nfpm.
func (r release) debian(ctx context.Context, b binary) error {
	out, err := filepath.Abs(filepath.Join(r.out, fmt.Sprintf("weft_%s_%s.deb", r.debianVersion(), b.arch)))
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile="+nfpm, "nfpm", "package",
		"--config", sources+"debian/nfpm.yaml", "--packager", "deb", "--target", out)
	cmd.Env = append(os.Environ(),
		"WEFT_BINARY="+b.path, "WEFT_MAN="+r.man, "WEFT_ARCH="+b.arch, "WEFT_VERSION="+r.debianVersion(),
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.changed.Unix()))
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nfpm: %w: %s", err, text)
	}
	return nil
}
