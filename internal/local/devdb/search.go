//go:build linux

package devdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-automation/weft/internal/local/sidecar"
)

// The PostgreSQL versions with which Weft is tested.
const oldest, newest = 15, 18

// search is where to search for PostgreSQL's programs.
type search struct {
	bin      string   // $PG_BIN, the only candidate if set
	path     []string // folders of $PATH
	globs    []string // folders in which systems install them
	editions []string // folders from which to search upwards for a checkout's node_modules
	cache    string   // where the npm edition is installed or copied to
	install  bool     // whether to try the system's package manager
	log      *slog.Logger
}

// machine returns the search of this machine.
func machine(log *slog.Logger) *search {
	return &search{
		bin:  os.Getenv("PG_BIN"),
		path: filepath.SplitList(os.Getenv("PATH")),
		globs: []string{
			"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/lib/postgresql*/bin",
			"/usr/local/pgsql*/bin", "/usr/local/postgresql*/bin", "/opt/postgresql*/bin", "/opt/pgsql*/bin",
		},
		editions: sidecar.Here(),
		cache:    sidecar.Cache(),
		install:  os.Geteuid() == 0,
		log:      log,
	}
}

// binaries is a folder with initdb and postgres.
type binaries struct {
	dir   string
	major int
	full  string
}

// find returns a folder with the programs of a major version of PostgreSQL (0: the newest). runner
// can read the folder. find tries $PG_BIN, PATH and the system's folders, the npm edition, and the
// package manager.
func (s *search) find(ctx context.Context, version int, runner account) (string, error) {
	if s.bin != "" {
		found, ok := inspect(ctx, s.bin)
		if !ok {
			return "", fmt.Errorf("PG_BIN=%s contains no working postgres and initdb", s.bin)
		}
		if !found.fits(version) {
			return "", fmt.Errorf("PG_BIN=%s contains PostgreSQL %s: %s", s.bin, found.full, needs(version))
		}
		return runner.readable(found.dir, s.cache)
	}
	seen := s.local(ctx, version)
	for _, found := range seen {
		if found.fits(version) {
			return runner.readable(found.dir, s.cache)
		}
	}
	var problems []error
	if version == 0 || version == editionMajor {
		dir, err := s.edition(ctx)
		if err == nil {
			return runner.readable(dir, s.cache)
		}
		if ctx.Err() != nil {
			return "", fmt.Errorf("search for PostgreSQL: %w", ctx.Err())
		}
		problems = append(problems, err)
	}
	if s.install {
		if err := s.installPackage(ctx, version); err != nil {
			problems = append(problems, err)
		}
		for _, found := range s.local(ctx, version) {
			if found.fits(version) {
				return runner.readable(found.dir, s.cache)
			}
		}
	}
	return "", notFound(version, seen, errors.Join(problems...))
}

func (b binaries) fits(want int) bool {
	if want == 0 {
		return b.major >= oldest && b.major <= newest
	}
	return b.major == want
}

// local returns the installed versions, newest first. It stops once it finds the wanted version,
// because each check starts a program.
func (s *search) local(ctx context.Context, want int) []binaries {
	dirs := slices.Clone(s.path)
	for _, glob := range s.globs {
		matches, _ := filepath.Glob(glob)
		dirs = append(dirs, matches...)
	}
	var all []binaries
	for _, dir := range dirs {
		found, ok := inspect(ctx, dir)
		if ok {
			all = append(all, found)
		}
		if ok && found.major == want {
			break
		}
	}
	slices.SortStableFunc(all, func(a, b binaries) int { return cmp.Compare(b.major, a.major) })
	return all
}

var versionText = regexp.MustCompile(`PostgreSQL\) (\d+)(\S*)`)

// inspect runs the programs in dir to get their version.
func inspect(ctx context.Context, dir string) (binaries, bool) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return binaries{}, false
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, false
	}
	parts := versionText.FindStringSubmatch(string(out))
	if parts == nil {
		return binaries{}, false
	}
	major, err := strconv.Atoi(parts[1])
	if err != nil {
		return binaries{}, false
	}
	return binaries{dir: dir, major: major, full: parts[1] + parts[2]}, true
}

// installPackage installs PostgreSQL with apt-get. The caller then searches the usual folders again.
func (s *search) installPackage(ctx context.Context, want int) error {
	program, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("apt-get is not installed")
	}
	name := "postgresql"
	if want != 0 {
		name += "-" + strconv.Itoa(want)
	}
	s.log.Warn("PostgreSQL is not installed; installing it with the system's package manager", "package", name)
	var said []byte
	for _, args := range [][]string{{"update", "-q"}, {"install", "-y", "-q", "--no-install-recommends", name}} {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if said, err = cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("apt-get %s: %w: %s", args[0], err, sidecar.LastLine(said))
		}
	}
	return err
}

func needs(want int) string {
	if want == 0 {
		return fmt.Sprintf("Weft needs %d to %d", oldest, newest)
	}
	return fmt.Sprintf("the data folder was made by PostgreSQL %d and needs that version", want)
}

// notFound returns an error that says what to do.
func notFound(want int, seen []binaries, problems error) error {
	var text strings.Builder
	fmt.Fprintf(&text, "no suitable PostgreSQL found: %s", needs(want))
	if len(seen) > 0 {
		text.WriteString("; found")
		for _, b := range seen {
			fmt.Fprintf(&text, " %s in %s", b.full, b.dir)
		}
	}
	if problems != nil {
		fmt.Fprintf(&text, "; tried (%s)", strings.ReplaceAll(problems.Error(), "\n", "; "))
	}
	text.WriteString(". Install one (Debian: apt-get install postgresql), or install npm, set PG_BIN to the folder of postgres and initdb, or set DATABASE_URL to your own server")
	if want != 0 {
		text.WriteString(", or choose another data folder")
	}
	return errors.New(text.String())
}
