package backup

import (
	"strings"
	"testing"
)

// Later versions of pg_restore set a parameter that servers before 17 do not know. A row of a table
// may look like that statement.
func TestTheScriptOfALaterPgRestoreRunsOnOlderServers(t *testing.T) {
	const before, line, rows = "--\n\n\\restrict x\nSET lock_timeout = 0;\n", "SET transaction_timeout = 0;\n",
		"SELECT pg_catalog.set_config('search_path', '', false);\nCOPY t FROM stdin;\nSET transaction_timeout = 0;\n\\.\n\n"
	for server, want := range map[int]string{150018: before + rows, 160001: before + rows, 170000: before + line + rows, 180001: before + line + rows} {
		var got strings.Builder
		if err := copyScript(&got, strings.NewReader(before+line+rows), server); err != nil || got.String() != want {
			t.Errorf("server %d: %q, %v; want %q", server, got.String(), err, want)
		}
	}
}

func TestThePasswordIsNotInTheArguments(t *testing.T) {
	for _, dsn := range []string{
		"postgres://weft:s3cret@db/weft?sslmode=require", "postgres://weft@db/weft?password=s3cret", "host=db password=s3cret user=weft",
		`host=db user=weft password = 's3 \'cret'`, `password='s3cret'host=db`, `host=db password=s3\ cret user=weft`,
	} {
		cmd, err := Database{DSN: dsn, Environ: []string{"PG_BIN=/bin"}}.program(t.Context(), "true")
		if err != nil {
			t.Fatal(err)
		}
		if args := strings.Join(cmd.Args, " "); strings.Contains(args, "s3") || strings.Contains(args, "cret") || !strings.Contains(args, "db") {
			t.Errorf("%s: %s", dsn, args)
		}
		if env := strings.Join(cmd.Env, " "); !strings.Contains(env, "PGPASSWORD=s3") {
			t.Errorf("%s: the password is lost: %s", dsn, env)
		}
	}
}
