package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/local/devdb"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// target selects which Weft a command calls, and with which key.
type target struct {
	Profile     string `placeholder:"NAME" xor:"credentials" help:"Profile with the credentials ($$WEFT_PROFILE, else the profile in use); see weft profile."`
	Credentials string `placeholder:"FILE" xor:"credentials" help:"Credentials file ($$WEFT_CREDENTIALS). Without a profile, the file of weft dev is used (${credentials})."`
	BaseURL     string `name:"base-url" placeholder:"URL" default:"${base_url}" help:"Base URL of the service, instead of the base URL in the credentials file."`
}

var errNoCredentials = errors.New("there is no credentials file")

// file returns the credentials file: of a flag, else of the environment, else of the profile in use,
// else of weft dev.
func (t target) file(s *session) (string, error) {
	name := t.Profile
	if file := t.Credentials; name == "" && file != "" {
		return file, nil
	}
	if file := s.getenv("WEFT_CREDENTIALS"); name == "" && file != "" {
		return file, nil
	}
	if name = cmp.Or(name, s.getenv("WEFT_PROFILE"), s.profileInUse()); name != "" {
		return s.profileFile(name)
	}
	return s.devCredentials(), nil
}

// read returns the credentials with the effective base URL.
func (t target) read(s *session) (client.Credentials, error) {
	file, err := t.file(s)
	if err != nil {
		return client.Credentials{}, err
	}
	c, err := client.ReadCredentials(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%w %s: start `weft dev` here, or set --credentials or --profile", errNoCredentials, file)
	}
	if err != nil {
		return c, coded{err, exitAuthentication}
	}
	if t.BaseURL != "" {
		c.BaseURL = t.BaseURL
	}
	if c.BaseURL == "" {
		return c, fmt.Errorf("the credentials file %s has no baseUrl; set --base-url", file)
	}
	return c, nil
}

// signer returns the credentials and a signer for them.
func (t target) signer(s *session) (client.Credentials, *client.Signer, error) {
	c, err := t.read(s)
	if err != nil {
		return c, nil, err
	}
	signer, err := client.NewSigner(c.APIKey, c.APISecret)
	if err != nil {
		return c, nil, fmt.Errorf("the credentials for %s: %w", c.BaseURL, err)
	}
	return c, signer, nil
}

// caller is a session with a client of the service. The commands that call the service get it.
type caller struct {
	*session
	*client.Client
	credentials client.Credentials
}

// caller reads the credentials and creates the client, which warns of what the service ignored.
func (t target) caller(s *session) (caller, error) {
	credentials, signer, err := t.signer(s)
	if err != nil {
		return caller{}, err
	}
	weft, err := client.New(credentials.BaseURL, signer, s.transport())
	if err != nil {
		return caller{}, usage("--base-url: %w", err)
	}
	warned := ""
	weft.Ignored = func(names string) {
		if names != warned { // a command may repeat a request
			s.note("Warning: the service does not know these parts of the request and ignored them: %s. Check the spelling, or upgrade the service.", printable(names))
		}
		warned = names
	}
	return caller{s, weft, credentials}, nil
}

// preferStrict requests that unknown fields are rejected (decisions 1.1), because they are probably
// typing errors.
func preferStrict() http.Header { return http.Header{"Prefer": {"handling=strict"}} }

// ask sends a signed request and returns the body of the response.
func (s caller) ask(method, path string, body []byte, header http.Header) ([]byte, error) {
	raw, err := s.Call(s.ctx, method, path, body, header)
	if err != nil {
		return nil, s.explain(err, s.credentials)
	}
	return raw, nil
}

// get requests an object and returns its JSON.
func (s caller) get(path string) ([]byte, error) { return s.ask(http.MethodGet, path, nil, nil) }

// exchange is ask with a JSON body, nil for none, and a decoded response.
func (s caller) exchange(method, path string, request any, header http.Header, into any) (raw []byte, err error) {
	var body []byte
	if request != nil {
		if body, err = strictjson.Encode(request); err != nil {
			return nil, err
		}
	}
	if raw, err = s.ask(method, path, body, header); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	return raw, nil
}

// replace reads an object of type T, sends what with returns for it to the same path, and returns the
// object that the service then has.
func replace[T any](s caller, path string, with func(T) any) (one T, raw []byte, err error) {
	if _, err = s.exchange(http.MethodGet, path, nil, nil, &one); err == nil {
		raw, err = s.exchange(http.MethodPut, path, with(one), nil, &one)
	}
	return one, raw, err
}

// idempotencyHeader returns the header of an Idempotency-Key, or nil for none.
func idempotencyHeader(key string) http.Header {
	if key == "" {
		return nil
	}
	return http.Header{"Idempotency-Key": {key}}
}

// delete deletes an object of the service, and prints the note.
func (s caller) delete(path, note string, args ...any) error {
	if _, err := s.ask(http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	s.note(note, args...)
	return nil
}

// transport returns the transport of requests. With --verbose, it prints each of them.
func (s *session) transport() http.RoundTripper {
	if !s.Verbose {
		return http.DefaultTransport
	}
	return logged{s}
}

type logged struct{ *session }

// RoundTrip sends the request, and prints what was requested and how long it took.
func (l logged) RoundTrip(request *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := http.DefaultTransport.RoundTrip(request)
	result := "no answer"
	if err == nil {
		result = answer.Status
	}
	l.note("%s %s: %s in %v", request.Method, printable(request.URL.RequestURI()), result, time.Since(start).Round(time.Millisecond))
	return answer, err
}

// database selects the database of commands that work on the server's side.
type database struct {
	configured
	DatabaseURL string `name:"database-url" placeholder:"URL" default:"${database_url}" help:"PostgreSQL of the service ($$DATABASE_URL)."`
	DataDir     string `name:"data-dir" placeholder:"DIR" default:"${data_dir}" help:"Data folder of weft dev. Without a database URL, the private PostgreSQL in this folder is used (${default})."`
}

// privateDatabase is the name of weft dev's database.
const privateDatabase = "weft"

func (d database) privateFolder() string { return filepath.Join(d.DataDir, "postgres") }

// open returns a pool on a database with the correct schema. If a private PostgreSQL is not
// running, open starts it, and done stops it.
func (d database) open(ctx context.Context) (pool *pgxpool.Pool, done func(), err error) {
	dsn, stop, err := d.dsn(ctx)
	if err != nil {
		return nil, nil, err
	}
	pool, err = postgres.Open(ctx, dsn, "cli", postgres.Owner, 2)
	if err != nil {
		stop()
		return nil, nil, err
	}
	if err := postgres.CheckSchema(ctx, pool); err != nil {
		pool.Close()
		stop()
		return nil, nil, err
	}
	return pool, func() { pool.Close(); stop() }, nil
}

func (d database) dsn(ctx context.Context) (dsn string, stop func(), err error) {
	if d.DatabaseURL != "" {
		return d.DatabaseURL, func() {}, nil
	}
	if dsn, ok := devdb.Running(d.privateFolder(), privateDatabase); ok {
		return dsn, func() {}, nil
	}
	if _, err := os.Stat(d.privateFolder()); errors.Is(err, fs.ErrNotExist) {
		return "", nil, fmt.Errorf("no database found: set DATABASE_URL, or set --data-dir to the data folder of a `weft dev` (%s contains none)", d.DataDir)
	}
	server, err := devdb.Start(ctx, devdb.Config{Dir: d.privateFolder()})
	if err != nil {
		return "", nil, fmt.Errorf("start the private PostgreSQL: %w", err)
	}
	return server.DSN(privateDatabase), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		_ = server.Stop(ctx) // a killed server recovers at its next start
	}, nil
}

// noWorkspace is the error for an unknown workspace name or ID.
type noWorkspace string

func (n noWorkspace) Error() string { return fmt.Sprintf("workspace %q not found", string(n)) }

// findWorkspace returns the ID of the workspace with that name or ID. It returns noWorkspace if the
// workspace does not exist.
func findWorkspace(ctx context.Context, conn postgres.DB, nameOrID string) (uuid.UUID, error) {
	row, err := db.New().WorkspaceGetByName(ctx, conn, nameOrID)
	if err == nil {
		return row.ID, nil
	}
	if id, malformed := uuid.Parse(nameOrID); postgres.NotFound(err) && malformed == nil {
		if _, err = db.New().WorkspaceGet(ctx, conn, id); err == nil {
			return id, nil
		}
	}
	if postgres.NotFound(err) {
		return uuid.Nil, noWorkspace(nameOrID)
	}
	return uuid.Nil, fmt.Errorf("find workspace %q: %w", nameOrID, err)
}
