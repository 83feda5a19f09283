package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// sessionSettings are startup parameters of every session. They are verified in each new session.
var sessionSettings = map[string]string{
	"timezone": "UTC",
	// Every query has an index. A generic plan that was made while a table was small would
	// otherwise keep scanning the whole table.
	"enable_seqscan": "off",
	// Nor should a plan fetch and sort all rows of an index that is already in order.
	"enable_bitmapscan":                   "off",
	"plan_cache_mode":                     "force_generic_plan",
	"idle_in_transaction_session_timeout": "30s",
	"lock_timeout":                        "5s",
	"statement_timeout":                   "30s",
}

// laterSettings are set after connecting, in the statement that verifies a new session. Existing
// configurations of PgBouncer would reject them as startup parameters.
var laterSettings = map[string]string{
	// Compiling the first plans of a session can cost half a second of CPU. No query of Weft runs long
	// enough to save that.
	"jit": "off",
	// The queries read few rows. Parallel workers also need shared memory, of which containers have
	// little.
	"max_parallel_workers_per_gather": "0",
	// Tests of plans must hold on every server, whatever its disks cost. The upper pages of an index
	// are in memory.
	"random_page_cost": "1.1",
}

const connectTimeout = 5 * time.Second

// Session configures a session: its name, UTC, and the timeouts.
func Session(config *pgx.ConnConfig, name string) {
	config.ConnectTimeout = connectTimeout
	// pgx allocates the whole cache per connection. Weft has a few hundred statements.
	config.StatementCacheCapacity, config.DescriptionCacheCapacity = 256, 0
	config.RuntimeParams["application_name"] = "weft-" + name
	maps.Copy(config.RuntimeParams, sessionSettings)
}

// Connect opens one connection outside of any pool, for a long-lived session: LISTEN, advisory
// locks.
func Connect(ctx context.Context, dsn, name string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("read the database address: %w", hideDSN(err))
	}
	Session(config, name)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := setUp(ctx, conn, false); err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// SessionError reports a session that Weft must not use. Unavailable returns true for it.
type SessionError struct{ Problem string }

func (e *SessionError) Error() string { return e.Problem }

var errShared = &SessionError{"the connection pooler between Weft and PostgreSQL shares server sessions between clients. " +
	"Set pool_mode = session and server_reset_query = DISCARD ALL in PgBouncer, or connect to PostgreSQL directly"}

// setUp verifies a new session. A pooler may have dropped its startup parameters, so setUp sets
// the parameters that differ. It returns a SessionError if the session still has a different
// role or different settings, or if a pooler shares the session with other clients. If locate is
// set, setUp returns the server of the session.
func setUp(ctx context.Context, conn *pgx.Conn, locate bool) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	now, err := inspect(ctx, conn, slices.Collect(maps.Keys(laterSettings)), locate)
	if err != nil {
		return Server{}, err
	}
	if now.direct && now.problem == "" {
		return now.server, nil
	}
	mark := ""
	if !now.direct {
		if now.mark != "" {
			return Server{}, errShared
		}
		mark = rand.Text()
		conn.PgConn().CustomData()[markKey] = mark
	}
	names, values := wanted(conn)
	_, err = conn.Exec(ctx, `SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS s (name, value)`,
		pgx.QueryExecModeExec, append(names, markKey), append(values, mark))
	if err != nil {
		return Server{}, fmt.Errorf("set up the session: %w", err)
	}
	return now.server, verify(ctx, conn)
}

// verify returns a SessionError if the session is not in the state in which setUp left it.
func verify(ctx context.Context, conn *pgx.Conn) error {
	now, err := inspect(ctx, conn, nil, false)
	if err != nil {
		return err
	}
	if mark, _ := conn.PgConn().CustomData()[markKey].(string); !now.direct && (now.mark == "" || now.mark != mark) {
		return errShared
	}
	if now.problem != "" {
		return &SessionError{now.problem}
	}
	return nil
}

// markKey is the setting that holds a random mark in each session that goes through a pooler. If
// a client finds the mark of a different client, or no longer finds its own mark, the session is
// shared.
const markKey = "weft.session"

// sessionState is the result of inspect.
type sessionState struct {
	direct  bool   // whether there is no pooler in between: a pooler issues its own cancel keys
	mark    string // of the client that last set up the session
	problem string // the differences from the settings of Session; "" if it has them
	server  Server // if it was asked for
}

// inspect reads a session's role and settings in one round trip. It first sets those of the wanted
// settings that set names. If locate is set, inspect also reads the server, which fails in a database
// without Weft's schema.
func inspect(ctx context.Context, conn *pgx.Conn, set []string, locate bool) (now sessionState, err error) {
	names, values := wanted(conn)
	var pid uint32
	var user string
	var differ []string
	where, into := "", []any{&pid, &user, &now.mark, &differ}
	if locate {
		where = ", place_of_database(), timeline_of_database(), recovered_position()"
		into = append(into, &now.server.Place, &now.server.Timeline, &now.server.Recovered)
	}
	err = conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_user::text, COALESCE(current_setting($3, true), ''),
		ARRAY(SELECT format('%s is %s instead of %s', name, COALESCE(current_setting(name, true), 'not set'), value)
			FROM unnest($1::text[], $2::text[]) AS s (name, value)
			WHERE CASE WHEN name = ANY ($4::text[]) THEN set_config(name, value, false) ELSE current_setting(name, true) END IS DISTINCT FROM value)`+where,
		pgx.QueryExecModeExec, names, values, markKey, set).Scan(into...)
	if err != nil {
		return now, fmt.Errorf("verify the session: %w", err)
	}
	now.direct = pid == conn.PgConn().PID()
	if role := conn.Config().RuntimeParams["role"]; role != "" && role != user {
		differ = append(differ, fmt.Sprintf("current_user is %s instead of %s", user, role))
	}
	if len(differ) > 0 {
		now.problem = "the database session does not have Weft's settings: " + strings.Join(differ, ", ")
	}
	return now, nil
}

// wanted returns the settings that the session of conn must have.
func wanted(conn *pgx.Conn) (names, values []string) {
	params := conn.Config().RuntimeParams
	for _, name := range append(slices.Sorted(maps.Keys(sessionSettings)), "role") {
		if value, ok := params[name]; ok {
			names, values = append(names, name), append(values, value)
		}
	}
	for name, value := range laterSettings {
		names, values = append(names, name), append(values, value)
	}
	return names, values
}

// CheckSession verifies a session of the pool, and closes it if it can't be used.
func CheckSession(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := verify(ctx, conn.Conn()); err != nil {
		_ = conn.Conn().Close(ctx)
		return err
	}
	return nil
}

// CheckPooler returns a SessionError if there is a connection pooler at dsn that Weft can't work
// through. It needs two concurrent connections to detect whether the pooler shares sessions.
func CheckPooler(ctx context.Context, dsn string) error {
	first, err := Connect(ctx, dsn, "check")
	if err != nil {
		return explain(err)
	}
	defer func() { _ = first.Close(context.WithoutCancel(ctx)) }()
	if first.PgConn().CustomData()[markKey] == nil {
		return nil // no pooler
	}
	second, err := Connect(ctx, dsn, "check")
	if err != nil {
		return explain(err)
	}
	defer func() { _ = second.Close(context.WithoutCancel(ctx)) }()
	return verify(ctx, first)
}

// explain turns PgBouncer's rejection of startup parameters into an error that says what to do.
func explain(err error) error {
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.HasPrefix(refusal.Message, "unsupported startup parameter") {
		return err
	}
	names := []string{"role"}
	for name := range sessionSettings {
		if name != "timezone" { // PgBouncer forwards this parameter
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return &SessionError{fmt.Sprintf("the connection pooler rejects Weft's settings (%s). Weft sets them again after it has connected. "+
		"Add to pgbouncer.ini: ignore_startup_parameters = %s", refusal.Message, strings.Join(names, ","))}
}

// CheckWritable returns an error if the database doesn't respond or is read-only.
func CheckWritable(ctx context.Context, db DB) error {
	var readOnly bool
	err := db.QueryRow(ctx, "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean").Scan(&readOnly)
	if err == nil && readOnly {
		return errors.New("the database is read-only")
	}
	return err
}
