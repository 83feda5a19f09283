// Package idempotency remembers Idempotency-Keys, so that a repeated request has its effect once
// (decisions 1.7).
// The row is committed by the transaction that creates the resource, so a repeat finds both or
// neither. A rejected request leaves no row. The package never starts a transaction.
package idempotency

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// Key is an Idempotency-Key with its scope: workspace, operation and path.
type Key struct {
	WorkspaceID uuid.UUID
	Operation   string
	Path        string
	Key         string
	// BodyHash is the SHA-256 of the body as received. The hash is unkeyed, so a person with a
	// dump of the database can guess a short secret in an otherwise known body. Changing to a
	// keyed hash needs two releases: this release would treat a keyed hash as a plain hash, and
	// reject the repeat of a request that a newer process accepted.
	BodyHash [sha256.Size]byte
}

// ClaimTx locks the key until tx ends. If the key was used within 24 hours for the same body, found
// is true and resourceID is the ID of the resource that the first request created. ClaimTx returns
// IDEMPOTENCY_MISMATCH for a different body, and IDEMPOTENCY_IN_FLIGHT with a Retry-After of one
// second if the first request is not committed yet.
func (k Key) ClaimTx(ctx context.Context, tx pgx.Tx) (resourceID uuid.UUID, found bool, err error) {
	if err := db.New().IdempotencyLock(ctx, tx, k.lock()); err != nil {
		return uuid.Nil, false, InFlight(fmt.Errorf("lock idempotency key: %w", err))
	}
	return k.Find(ctx, tx)
}

// InFlight returns IDEMPOTENCY_IN_FLIGHT if err says that another transaction holds the key, and otherwise err.
func InFlight(err error) error {
	if !postgres.Raised(err, "WF005") {
		return err
	}
	inFlight := fault.New(fault.IdempotencyInFlight, "The first request with this Idempotency-Key is still being accepted; repeat this one in a second.")
	inFlight.RetryAfter = time.Second
	return inFlight
}

// Used is an error that says that an earlier request used the key. The transaction must be rolled back.
type Used struct{ ResourceID uuid.UUID } // that the request created

func (u *Used) Error() string { return "the Idempotency-Key was used before" }

// Claim is the claim of a key in a batch.
type Claim struct {
	key  *Key
	rows *postgres.Rows[db.IdempotencyGetRow]
}

// QueueClaim is ClaimTx in a batch. If another transaction holds the key, the batch fails before the statements
// that follow; pass its error to InFlight. A nil key is always free.
func (k *Key) QueueClaim(ctx context.Context, batch *postgres.Batch) Claim {
	if k == nil {
		return Claim{}
	}
	_ = db.New().IdempotencyLock(ctx, batch, k.lock())
	return Claim{k, postgres.Returning[db.IdempotencyGetRow](batch, db.IdempotencyGet, k.params())}
}

// Keep is KeepTx for a claimed key. It returns *Used, or IDEMPOTENCY_MISMATCH for a different body.
func (c Claim) Keep(ctx context.Context, batch *postgres.Batch, made uuid.UUID) error {
	if c.key == nil {
		return nil
	}
	if row, err := c.rows.One(); err == nil {
		earlier, _, err := c.key.match(row)
		return cmp.Or[error](err, &Used{earlier})
	}
	return c.key.KeepTx(ctx, batch, made)
}

// Find is ClaimTx without the lock: it returns the ID of the created resource, or
// IDEMPOTENCY_MISMATCH for a different body.
func (k Key) Find(ctx context.Context, conn postgres.DB) (made uuid.UUID, found bool, err error) {
	row, err := db.New().IdempotencyGet(ctx, conn, k.params())
	if postgres.NotFound(err) {
		return uuid.Nil, false, nil
	}
	if err != nil {
		return uuid.Nil, false, fmt.Errorf("read idempotency key: %w", err)
	}
	return k.match(row)
}

func (k Key) params() db.IdempotencyGetParams {
	return db.IdempotencyGetParams{WorkspaceID: k.WorkspaceID, Operation: k.Operation, Path: k.Path, Key: k.Key}
}

// match returns the resource of a key that was used, or IDEMPOTENCY_MISMATCH.
func (k Key) match(row db.IdempotencyGetRow) (made uuid.UUID, found bool, err error) {
	if [sha256.Size]byte(row.BodyHash) != k.BodyHash {
		return uuid.Nil, false, fault.New(fault.IdempotencyMismatch, "This Idempotency-Key was used with another body within the last 24 hours; use a new key for a new request.")
	}
	return row.ResourceID, true, nil
}

// KeepTx stores the ID of the resource that the request created.
func (k Key) KeepTx(ctx context.Context, conn db.DBTX, made uuid.UUID) error {
	err := db.New().IdempotencyUpsert(ctx, conn, db.IdempotencyUpsertParams{
		WorkspaceID: k.WorkspaceID, Operation: k.Operation, Path: k.Path, Key: k.Key,
		BodyHash: k.BodyHash[:], ResourceID: made,
	})
	if err != nil {
		return fmt.Errorf("store idempotency key: %w", err)
	}
	return nil
}

// OnceTx calls create for the given ID in tx and stores the key. If the key was used before, it
// returns the resource that was created then. With a nil key it always calls create.
func (k *Key) OnceTx(ctx context.Context, tx pgx.Tx, id uuid.UUID, create func() error) (made uuid.UUID, replayed bool, err error) {
	if k == nil {
		return id, false, create()
	}
	if made, replayed, err = k.ClaimTx(ctx, tx); err != nil || replayed {
		return made, replayed, err
	}
	if err := k.KeepTx(ctx, tx, id); err != nil {
		return uuid.Nil, false, err
	}
	return id, false, create()
}

// lock returns the advisory lock of the key. If two keys share a lock, one of the requests may
// get IDEMPOTENCY_IN_FLIGHT and has to be retried.
func (k Key) lock() int64 {
	h := sha256.New()
	for _, part := range []string{k.WorkspaceID.String(), k.Operation, k.Path, k.Key} {
		_ = binary.Write(h, binary.BigEndian, uint32(len(part)))
		h.Write([]byte(part))
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}
