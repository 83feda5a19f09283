package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// passwordWord matches the password of an address in the keyword form.
var passwordWord = regexp.MustCompile(`(?i)(?:^|\s)password\s*=\s*(?:'(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)`)

// program returns a command of PostgreSQL that connects to the database. The password is in the
// environment, because other users can read the arguments of a process.
func (d Database) program(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	config, err := pgx.ParseConfig(d.DSN)
	if err != nil {
		return nil, errors.New("not a valid PostgreSQL address")
	}
	address := passwordWord.ReplaceAllString(d.DSN, "")
	if parsed, err := url.Parse(d.DSN); err == nil && strings.HasPrefix(parsed.Scheme, "postgres") {
		query := parsed.Query()
		query.Del("password")
		parsed.RawQuery = query.Encode()
		if parsed.User != nil {
			parsed.User = url.User(parsed.User.Username())
		}
		address = parsed.String()
	}
	cmd, err := d.find(ctx, name, append(args, "--dbname="+address)...)
	if err == nil && config.Password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+config.Password)
	}
	return cmd, err
}

// find returns a command of PostgreSQL: of the folder PG_BIN if that is set, or of PATH. Its stderr
// is collected for finish.
func (d Database) find(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path := name
	for _, entry := range d.Environ {
		if bin, ok := strings.CutPrefix(entry, "PG_BIN="); ok && bin != "" {
			path = filepath.Join(bin, name)
		}
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return nil, fmt.Errorf("%s was not found: install PostgreSQL's client programs, of the server's version or a later one, or set PG_BIN to their folder", name)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stderr = d.Environ[:len(d.Environ):len(d.Environ)], &bytes.Buffer{}
	return cmd, nil
}

// finish returns the error of a command with the end of what it printed.
func finish(name string, cmd *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	const most = 2000
	printed := strings.TrimSpace(cmd.Stderr.(*bytes.Buffer).String())
	if len(printed) > most {
		printed = "…" + printed[len(printed)-most:]
	}
	return fmt.Errorf("%s: %w\n%s", name, err, printed)
}
