package chaos

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/internal/local/devdb"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// server is a PostgreSQL that scenarios can crash and restart.
type server struct {
	config devdb.Config
	*devdb.Server
}

// shared is the server of all scenarios that do not disturb the server.
var shared *server

const template = "weft_template"

func startServer(ctx context.Context, dir string, settings map[string]string) (*server, error) {
	s := &server{config: devdb.Config{Dir: dir, Settings: settings}}
	return s, s.start(ctx)
}

func (s *server) start(ctx context.Context) (err error) {
	s.Server, err = devdb.Start(ctx, s.config)
	return err
}

func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return s.Stop(ctx)
}

// crash stops the server as `pg_ctl stop -m immediate` does: sessions are terminated, nothing is
// flushed, and the next start recovers.
func (s *server) crash() error {
	if err := syscall.Kill(s.Pid(), syscall.SIGQUIT); err != nil {
		return err
	}
	<-s.Done()
	return s.stop()
}

// makeTemplate creates and migrates the database that scenarios copy.
func (s *server) makeTemplate(ctx context.Context) error {
	if err := s.CreateDatabase(ctx, template); err != nil {
		return err
	}
	migrate := exec.CommandContext(ctx, program, "migrate", "--database-url", s.DSN(template))
	if out, err := migrate.CombinedOutput(); err != nil {
		return fmt.Errorf("weft migrate: %w\n%s", err, out)
	}
	return nil
}

// database creates a migrated database with a unique name, and drops it when the test ends.
func (s *server) database(t testing.TB) string {
	t.Helper()
	name := "chaos_" + strings.ToLower(rand.Text()[:10])
	s.admin(t, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template))
	t.Cleanup(func() { s.admin(t, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)) })
	return s.DSN(name)
}

func (s *server) admin(t testing.TB, statement string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// ownServer starts a PostgreSQL for this test only, with the durability of production.
func ownServer(t *testing.T, settings map[string]string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "weft-chaos-db-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := startServer(t.Context(), filepath.Join(dir, "pg"), settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.makeTemplate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// openPool opens the test's own pool. The names of its sessions differ from the names of the
// service's sessions.
func openPool(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(context.Background(), dsn, "chaos", postgres.Owner, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}
