// Package vault encrypts the secret values of rows that never change again, such as outputs and
// the inputs of runs, so that a new master key doesn't have to rewrite them.
//
// Each value is sealed, for the row and field where it was created, under a key of its workspace,
// and that key under the master key. A change of the master key rewrites one row per workspace.
// The package does not know which values are secret. The one invariant: a key is committed before
// anything is sealed under it.
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
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Field is which of the values of a row it is. Fields are stored data: they never change.
type Field string

// The fields.
const (
	Output Field = "output" // of an execution, of a stage that is none, or of a run
	Items  Field = "items"  // of a loop
	Input  Field = "input"  // of a run
	Body   Field = "body"   // of a callback
	State  Field = "state"  // of an execution that waits
)

// Signal is the field of a run that holds what the signal of that name brought.
func Signal(name string) Field { return Field("signal " + name) }

// Place is where a value was made: a stage that took it over from elsewhere keeps it as it
// was sealed there.
type Place struct {
	WorkspaceID uuid.UUID
	Row         uuid.UUID // of the execution, the run or the stage
	Field       Field
}

func (p Place) aad() seal.AAD {
	return seal.AAD{WorkspaceID: p.WorkspaceID, Table: "outputs", Row: p.Row.String(), Field: string(p.Field)}
}

// KeyAt names where the sealed key of a workspace belongs.
func KeyAt(workspaceID, id uuid.UUID) seal.AAD {
	return seal.AAD{WorkspaceID: workspaceID, Table: "output_keys", Row: id.String(), Field: "sealed"}
}

// maxKeys bounds the keys that a process holds open.
const maxKeys = 10_000

// Vault seals and opens. It is safe for concurrent use. A nil one opens what is not sealed.
type Vault struct {
	conn postgres.DB
	ring *seal.Keyring
	now  func() time.Time

	mu      sync.Mutex
	keys    map[keyOf]*seal.Keyring
	current map[uuid.UUID]current // of workspaces, to seal under
}

// current is a key to seal under, for as long as the database need not be asked whether it
// still has it: a standby that takes over may lack the last writes.
type current struct {
	ring  *seal.Keyring
	until time.Time
}

const believed = time.Minute

type keyOf struct{ workspaceID, id uuid.UUID }

// New makes a vault by connections that see all workspaces. It takes one beside that of a
// caller's transaction, for the first value of a workspace.
func New(conn postgres.DB, ring *seal.Keyring) *Vault {
	return &Vault{conn: conn, ring: ring, now: time.Now, keys: map[keyOf]*seal.Keyring{}, current: map[uuid.UUID]current{}}
}

// mark begins a sealed value in a column of JSON. No other does: the character U+0000 is in
// nothing that is accepted (decisions 1.9), nor in what a component may give.
const mark = `"\u0000`

// Sealed reports whether a stored value is sealed: by the mark, and where it is stored as
// bytes by a first byte with which no JSON begins.
func Sealed(stored []byte) bool {
	return len(stored) > 0 && (stored[0] == 1 || bytes.HasPrefix(stored, []byte(mark)))
}

// SealJSON is the stored form of a secret value, a JSON text. Errors are the database's, and
// UNAVAILABLE where this process lacks the master key of the workspace's key.
func (v *Vault) SealJSON(ctx context.Context, at Place, value json.RawMessage) (json.RawMessage, error) {
	sealed, err := v.Seal(ctx, at, value)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, len(mark)+base64.StdEncoding.EncodedLen(len(sealed))+1)
	text = base64.StdEncoding.AppendEncode(append(text, mark...), sealed)
	return append(text, '"'), nil
}

// OpenJSON is the reverse of SealJSON, and gives what is not sealed as it is. Errors are
// those of Open.
func (v *Vault) OpenJSON(ctx context.Context, at Place, stored json.RawMessage) (json.RawMessage, error) {
	if !Sealed(stored) {
		return stored, nil
	}
	sealed, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSuffix(stored[min(len(mark), len(stored)):], []byte{'"'}))
	if err != nil {
		return nil, fmt.Errorf("open a stored %s: %w", at.Field, seal.ErrUnsealable)
	}
	return v.open(ctx, at, sealed)
}

// Seal is SealJSON for what is stored as bytes.
func (v *Vault) Seal(ctx context.Context, at Place, plain []byte) ([]byte, error) {
	ring, err := v.primary(ctx, at.WorkspaceID)
	if err != nil {
		return nil, fmt.Errorf("seal a value (%s): %w", at.Field, err)
	}
	return ring.Seal(plain, at.aad())
}

// Open is the reverse of Seal, and gives what is not sealed as it is. Errors are the
// database's, UNAVAILABLE where this process lacks the master key, and what the value's not
// being that of this place makes of it.
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

// primary is the key of a workspace that belongs to the ring's primary master key, made if
// there is none yet.
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
	ring, err := v.opened(keyOf{workspaceID, row.ID}, row.Sealed)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.current) >= maxKeys {
		clear(v.current)
	}
	v.current[workspaceID] = current{ring, asked.Add(believed)}
	return ring, nil
}

func (v *Vault) mint(ctx context.Context, of db.OutputKeyGetByMasterParams) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make key id: %w", err)
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	sealed, err := v.ring.Seal(secret[:], KeyAt(of.WorkspaceID, id))
	if err != nil {
		return fmt.Errorf("seal key: %w", err)
	}
	return db.New().OutputKeyInsert(ctx, v.conn, db.OutputKeyInsertParams{WorkspaceID: of.WorkspaceID, ID: id, Master: of.Master, Sealed: sealed})
}

// key is one of a workspace's keys.
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
	return v.opened(of, sealed)
}

// opened opens a stored key and holds it.
func (v *Vault) opened(of keyOf, sealed []byte) (*seal.Keyring, error) {
	if !v.ring.Holds(sealed) {
		return nil, &fault.Error{
			Code: fault.Unavailable, Message: "An output cannot be read here: this process was not given the master key that it is sealed under.", RetryAfter: 5 * time.Second,
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
