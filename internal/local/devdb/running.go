//go:build linux

package devdb

import (
	"bufio"
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Running returns the connection string of a database of the server in dir, which a different
// process runs. ok is false if no server runs there.
func Running(dir, database string) (dsn string, ok bool) {
	// postmaster.pid: process ID, data folder, start time, port, socket folder ...
	text, err := os.Open(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return "", false
	}
	defer text.Close()
	var lines []string
	for scanner := bufio.NewScanner(text); len(lines) < 5 && scanner.Scan(); {
		lines = append(lines, strings.TrimSpace(scanner.Text()))
	}
	if len(lines) < 5 || lines[4] == "" {
		return "", false
	}
	pid, err := strconv.Atoi(lines[0])
	if err != nil || syscall.Kill(pid, 0) == syscall.ESRCH {
		return "", false
	}
	return dsnOf(lines[4], database), true
}

// Installed returns the installed PostgreSQL that Start would use. It does not download or install
// one.
func Installed(ctx context.Context) (dir, version string, ok bool) {
	s := machine(slog.New(slog.DiscardHandler))
	if s.bin != "" {
		found, ok := inspect(ctx, s.bin)
		return found.dir, found.full, ok && found.fits(0)
	}
	for _, found := range s.local(ctx, 0) {
		if found.fits(0) {
			return found.dir, found.full, true
		}
	}
	return "", "", false
}

func dsnOf(socket, database string) string {
	query := url.Values{"host": {socket}, "sslmode": {"disable"}}
	return (&url.URL{
		Scheme: "postgres", User: url.User(superuser), Host: "", Path: "/" + database,
		RawQuery: query.Encode(),
	}).String()
}
