// Package idempotency remembers Idempotency-Keys, so that a repeated request has its effect once
// (decisions 1.7).
//
// The row is committed by the transaction that creates the resource, so a repeat finds both or
// neither. A rejected request leaves no row. The package never starts a transaction and does not
// know what is created.
package idempotency

import (
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

// Key is an Idempotency-Key in its scope: workspace, operation and path.
type Key struct {
	WorkspaceID uuid.UUID
	Operation   string
	Path        string
	Key         string
	// BodyHash is of the body as received. It has no key, so who holds a dump of the database
	// may guess a short secret in a body that they know otherwise. A key has to come in two
	// releases: a process of this one takes what it finds for a plain hash, and would refuse
	// the repeat of a request that a newer process keyed beside it.
	BodyHash [sha256.Size]byte
}

// ClaimTx holds the key until tx ends. found is true, with the id of what the
// first request made, when the key was used within 24 hours for the same body.
// Another body is IDEMPOTENCY_MISMATCH; a first request that has not committed
// yet is IDEMPOTENCY_IN_FLIGHT with a second to wait.
func (k Key) ClaimTx(ctx context.Context, tx pgx.Tx) (made uuid.UUID, found bool, err error) {
	locked, err := db.New().IdempotencyLock(ctx, tx, k.lock())
	if err != nil {
		return uuid.Nil, false, fmt.Errorf("lock idempotency key: %w", err)
	}
	if !locked {
		inFlight := fault.New(fault.IdempotencyInFlight, "The first request with this Idempotency-Key is still being accepted; repeat this one in a second.")
		inFlight.RetryAfter = time.Second
		return uuid.Nil, false, inFlight
	}
	return k.Find(ctx, tx)
}

// Find is ClaimTx without the claim: it tells what the key made, or that it was
// used for another body, and holds nothing.
func (k Key) Find(ctx context.Context, conn postgres.DB) (made uuid.UUID, found bool, err error) {
	row, err := db.New().IdempotencyGet(ctx, conn, db.IdempotencyGetParams{
		WorkspaceID: k.WorkspaceID, Operation: k.Operation, Path: k.Path, Key: k.Key,
	})
	if postgres.NotFound(err) {
		return uuid.Nil, false, nil
	}
	if err != nil {
		return uuid.Nil, false, fmt.Errorf("read idempotency key: %w", err)
	}
	if [sha256.Size]byte(row.BodyHash) != k.BodyHash {
		return uuid.Nil, false, fault.New(fault.IdempotencyMismatch, "This Idempotency-Key was used with another body within the last 24 hours; use a new key for a new request.")
	}
	return row.ResourceID, true, nil
}

// KeepTx remembers what the request made.
func (k Key) KeepTx(ctx context.Context, tx pgx.Tx, made uuid.UUID) error {
	err := db.New().IdempotencyUpsert(ctx, tx, db.IdempotencyUpsertParams{
		WorkspaceID: k.WorkspaceID, Operation: k.Operation, Path: k.Path, Key: k.Key,
		BodyHash: k.BodyHash[:], ResourceID: made,
	})
	if err != nil {
		return fmt.Errorf("keep idempotency key: %w", err)
	}
	return nil
}

// OnceTx makes something of this id in tx and remembers it, or finds what the key made
// before. Without a key (nil) it is made.
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

// lock maps the scope onto an advisory lock. Two keys that share one only make
// each other wait a second.
func (k Key) lock() int64 {
	h := sha256.New()
	for _, part := range []string{k.WorkspaceID.String(), k.Operation, k.Path, k.Key} {
		_ = binary.Write(h, binary.BigEndian, uint32(len(part)))
		h.Write([]byte(part))
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))
}
