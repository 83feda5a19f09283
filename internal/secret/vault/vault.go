// Package vault encrypts the secret values of rows that never change again, such as outputs and the
// inputs of runs, so that a new master key doesn't have to rewrite them.
//
// Each value is sealed, for the row and field where it was created, under a key of its workspace. The
// workspace's key is sealed under the master key, so a change of the master key rewrites one row per
// workspace. The callers decide which values are secret. A key is committed before it seals a value.
//
// # What is sealed
//
// A value that is stored sealed is secret as a whole, and every value computed from a sealed value is
// also stored sealed. So no code has to track which part of a value is secret.
//
//   - The output of an execution is sealed if its module marks a part of it with x-secret, if the
//     execution received a sealed value or a secret variable, or if the output repeats a secret from
//     the execution's input or config.
//   - A stage that the engine computes seals its output, the items of a loop and the response of the
//     run under the same conditions. A child run that receives a sealed value has a sealed input.
//   - Signals are sealed if the waiting component declares them secret.
//   - A record shows its outputs unsealed to callers who may read the record. Errors and logs never
//     show secrets.
//
// A sealed value in a JSON column is a string that begins with U+0000, which no other stored string can
// contain.
package vault

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Field names a value of a row. Fields are stored, so their names never change.
type Field string

// The fields.
const (
	Output Field = "output" // of an execution, of a stage without an execution, or of a run
	Items  Field = "items"  // of a loop
	Input  Field = "input"  // of a run
	Body   Field = "body"   // of a callback
	State  Field = "state"  // of an execution that waits

	ScheduleInput    Field = "schedule input"    // of a schedule, for its runs
	SchedulePrevious Field = "schedule previous" // of a schedule: the result of an earlier run
	ScheduleCallback Field = "schedule callback" // of a schedule, for its runs
	HookCallback     Field = "hook callback"     // of a hook, for its runs
)

// Signal returns the field of a run for the payload of the signal with this name.
func Signal(name string) Field { return Field("signal " + name) }

// Place is the row and field where a value was created. A stage that takes over a value from a
// different place keeps the value sealed for its original place.
type Place struct {
	WorkspaceID uuid.UUID
	Row         uuid.UUID // of the execution, the run or the stage
	Field       Field
}

func (p Place) aad() seal.AAD {
	return seal.AAD{WorkspaceID: p.WorkspaceID, Table: "outputs", Row: p.Row.String(), Field: string(p.Field)}
}

// KeyAt returns the AAD of the sealed key of a workspace.
func KeyAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "output_keys", Row: id.String(), Field: "sealed"}
}

// maxKeys bounds the cached keys.
const maxKeys = 10_000

// Vault seals and opens values. It is safe for concurrent use. A nil Vault opens values that aren't sealed.
type Vault struct {
	conn postgres.DB
	ring *seal.Keyring
	now  func() time.Time

	mu      sync.Mutex
	keys    map[keyOf]*seal.Keyring
	current map[uuid.UUID]current // the sealing keys of workspaces
}

// current is a cached key for sealing. After keyTTL the database must confirm that it still has the
// key, because a standby that takes over may lack the last writes.
type current struct {
	ring  *seal.Keyring
	until time.Time
}

const keyTTL = time.Minute

type keyOf struct{ workspaceID, id uuid.UUID }

// New returns a vault with connections that see all workspaces. For the first value of a workspace,
// the vault needs a connection in addition to the connection of the caller's transaction.
func New(conn postgres.DB, ring *seal.Keyring) *Vault {
	return &Vault{conn: conn, ring: ring, now: time.Now, keys: map[keyOf]*seal.Keyring{}, current: map[uuid.UUID]current{}}
}

// mark is the prefix of sealed values in a JSON column. No other value has it: the character U+0000 is
// rejected in requests (decisions 1.9) and in outputs of components.
const mark = `"\u0000`

// Sealed reports whether a stored value is sealed: it starts with mark, or, in a column of bytes, with
// a byte that can't start JSON.
func Sealed(stored []byte) bool {
	return len(stored) > 0 && (stored[0] == 1 || bytes.HasPrefix(stored, []byte(mark)))
}

// SealJSON returns the stored form of a secret value, which is a JSON string. It returns errors of the
// database, and UNAVAILABLE if this process lacks the master key of the workspace's key.
func (v *Vault) SealJSON(ctx context.Context, at Place, value json.RawMessage) (json.RawMessage, error) {
	sealed, err := v.Seal(ctx, at, value)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len(mark)+base64.StdEncoding.EncodedLen(len(sealed))+1)
	text = base64.StdEncoding.AppendEncode(append(text, mark...), sealed)
	return append(text, '"'), nil
}

type withheldKey struct{}

// Withhold returns a context for a reader who may not see secrets. OpenJSON then returns Withheld
// instead of an output that is sealed.
func Withhold(ctx context.Context) context.Context {
	return context.WithValue(ctx, withheldKey{}, true)
}

// Withholds reports whether the reader may not see secrets.
func Withholds(ctx context.Context) bool { return ctx.Value(withheldKey{}) != nil }

// Withheld is what a reader sees who may not see an output.
const Withheld = `"[redacted]"`

// OpenJSON is the reverse of SealJSON. It returns values that aren't sealed unchanged. It returns
// the errors of Open.
func (v *Vault) OpenJSON(ctx context.Context, at Place, stored json.RawMessage) (json.RawMessage, error) {
	if !Sealed(stored) {
		return stored, nil
	}
	if at.Field == Output && Withholds(ctx) {
		return json.RawMessage(Withheld), nil
	}
	sealed, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSuffix(stored[min(len(mark), len(stored)):], []byte{'"'}))
	if err != nil {
		return nil, fmt.Errorf("open a stored %s: %w", at.Field, seal.ErrUnsealable)
	}
	return v.open(ctx, at, sealed)
}

// Seal is SealJSON for a column of bytes.
func (v *Vault) Seal(ctx context.Context, at Place, plain []byte) ([]byte, error) {
	ring, err := v.primary(ctx, at.WorkspaceID)
	if err != nil {
		return nil, fmt.Errorf("seal a value (%s): %w", at.Field, err)
	}
	return ring.Seal(plain, at.aad())
}

// Open is the reverse of Seal. It returns values that aren't sealed unchanged. It returns errors of the
// database, UNAVAILABLE if this process lacks the master key, and seal.ErrUnsealable for a value that
// belongs to another place.
func (v *Vault) Open(ctx context.Context, at Place, stored []byte) ([]byte, error) {
	if !Sealed(stored) {
		return stored, nil
	}
	return v.open(ctx, at, stored)
}

func (v *Vault) open(ctx context.Context, at Place, sealed []byte) ([]byte, error) {
	name, _ := seal.KeyID(sealed)
	id, err := uuid.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("open a stored %s: %w", at.Field, seal.ErrUnsealable)
	}
	ring, err := v.key(ctx, keyOf{at.WorkspaceID, id})
	if err != nil {
		return nil, fmt.Errorf("open a stored %s: %w", at.Field, err)
	}
	plain, err := ring.Open(sealed, at.aad())
	if err != nil {
		return nil, fmt.Errorf("open a stored %s: %w", at.Field, err)
	}
	return plain, nil
}

// primary returns the key of a workspace under the primary master key, and creates the key if the
// workspace has no such key yet.
func (v *Vault) primary(ctx context.Context, workspaceID uuid.UUID) (*seal.Keyring, error) {
	v.mu.Lock()
	known, asked := v.current[workspaceID], v.now()
	v.mu.Unlock()
	if asked.Before(known.until) {
		return known.ring, nil
	}
	of := db.OutputKeyGetByMasterParams{WorkspaceID: workspaceID, Master: v.ring.Fingerprints()[0]}
	row, err := db.New().OutputKeyGetByMaster(ctx, v.conn, of)
	if postgres.NotFound(err) {
		if err = v.mint(ctx, of); err == nil {
			row, err = db.New().OutputKeyGetByMaster(ctx, v.conn, of)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of a workspace: %w", err)
	}
	ring, err := v.openKey(keyOf{workspaceID, row.ID}, row.Sealed)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.current) >= maxKeys {
		clear(v.current)
	}
	v.current[workspaceID] = current{ring, asked.Add(keyTTL)}
	return ring, nil
}

func (v *Vault) mint(ctx context.Context, of db.OutputKeyGetByMasterParams) error {
	id, err := uuid7.New()
	if err != nil {
		return fmt.Errorf("generate key ID: %w", err)
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return fmt.Errorf("generate key: %w", err)
	}
	sealed, err := v.ring.Seal(secret[:], KeyAt(of.WorkspaceID, id))
	if err != nil {
		return fmt.Errorf("seal key: %w", err)
	}
	return db.New().OutputKeyInsert(ctx, v.conn, db.OutputKeyInsertParams{WorkspaceID: of.WorkspaceID, ID: id, Master: of.Master, Sealed: sealed})
}

// key returns one of a workspace's keys.
func (v *Vault) key(ctx context.Context, of keyOf) (*seal.Keyring, error) {
	v.mu.Lock()
	ring := v.keys[of]
	v.mu.Unlock()
	if ring != nil {
		return ring, nil
	}
	sealed, err := db.New().OutputKeyGet(ctx, v.conn, db.OutputKeyGetParams{WorkspaceID: of.workspaceID, ID: of.id})
	if postgres.NotFound(err) {
		return nil, seal.ErrUnsealable
	}
	if err != nil {
		return nil, fmt.Errorf("read a key of a workspace: %w", err)
	}
	return v.openKey(of, sealed)
}

// openKey opens a stored key and caches it.
func (v *Vault) openKey(of keyOf, sealed []byte) (*seal.Keyring, error) {
	if !v.ring.Holds(sealed) {
		return nil, &fault.Error{
			Code: fault.Unavailable, Message: "An output cannot be read here: this process does not have the master key that the output is encrypted with.", RetryAfter: 5 * time.Second,
		}
	}
	plain, err := v.ring.Open(sealed, KeyAt(of.workspaceID, of.id))
	if err != nil || len(plain) != 32 {
		return nil, seal.ErrUnsealable
	}
	ring, err := seal.NewKeyring(seal.Key{ID: of.id.String(), Secret: [32]byte(plain)})
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.keys) >= maxKeys {
		clear(v.keys)
	}
	v.keys[of] = ring
	return ring, nil
}
