package hook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/notify"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// deliveryMarks returns the digests by which a repeated delivery is recognized; none if each
// delivery starts a run. It returns INVALID_INPUT if the delivery has no ID, but must have one.
func deliveryMarks(v api.Verification, d Delivery, input json.RawMessage) ([][]byte, error) {
	if v.DeliveryHeader != nil {
		return headerMarks(v, d)
	}
	if v.DeliveryField != nil {
		id, err := idIn(input, *v.DeliveryField)
		if err != nil {
			return nil, err
		}
		if id != "" {
			return [][]byte{mark("field", []byte(id))}, nil
		}
		// The senders of presets have deliveries without an ID, such as Slack's commands.
		if v.Preset == nil || *v.DeliveryField != value(presets[*v.Preset].DeliveryField, "") {
			return nil, fault.InvalidAt("/body"+*v.DeliveryField, "must be the ID of the delivery: a string or a number")
		}
	}
	if textOf(v).Timed() { // a sender that delivers again signs another timestamp
		return [][]byte{mark("body", signedBytes(v, d.Header, d.Body))}, nil
	}
	return nil, nil
}

// mark returns a digest that differs from that of a header, which contains no NUL.
func mark(kind string, text []byte) []byte {
	sum := sha256.Sum256(append([]byte("\x00"+kind+" "), text...))
	return sum[:]
}

// headerMarks returns a digest of the ID in the header and, if the signature does not cover the ID,
// one of what it covers. Without the second digest, an attacker could replay a captured delivery
// with a different ID. A hook can be configured to accept such replays.
func headerMarks(v api.Verification, d Delivery) ([][]byte, error) {
	ids := deliveryIDs(v, d.Header)
	if len(ids) != 1 || ids[0] == "" {
		return nil, fault.InvalidAt("/header/"+*v.DeliveryHeader, "must be sent exactly once, with the ID of the delivery")
	}
	named := sha256.Sum256([]byte(ids[0]))
	all := [][]byte{named[:]}
	if !signsID(v) && v.AcceptRepeatedBodies == nil {
		all = append(all, mark("body", signedBytes(v, d.Header, d.Body)))
	}
	return all, nil
}

// idIn returns the string or number at a pointer into the body of a run's input, or "" if there is
// no such value.
func idIn(input json.RawMessage, pointer string) (string, error) {
	var of struct{ Body any }
	decoder := json.NewDecoder(bytes.NewReader(input))
	decoder.UseNumber()
	if err := decoder.Decode(&of); err != nil {
		return "", fmt.Errorf("decode the body of a delivery: %w", err)
	}
	at := of.Body
	for _, token := range fault.Tokens(pointer) {
		switch parent := at.(type) {
		case map[string]any:
			at = parent[token]
		case []any:
			at = nil
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(parent) {
				at = parent[i]
			}
		default:
			at = nil
		}
	}
	switch id := at.(type) {
	case string:
		return id, nil
	case json.Number:
		return id.String(), nil
	}
	return "", nil
}

// delivery is the claim of the run that a delivery starts.
type delivery struct {
	key   notify.Key
	marks [][]byte
}

// Find returns the run of an earlier identical delivery.
func (d delivery) Find(ctx context.Context, conn postgres.DB) (uuid.UUID, bool, error) {
	made, err := db.New().HookDeliveryGet(ctx, conn, db.HookDeliveryGetParams{WorkspaceID: d.key.WorkspaceID, HookID: d.key.ID, Marks: d.marks})
	if postgres.NotFound(err) {
		return uuid.Nil, false, nil
	}
	if err != nil {
		return uuid.Nil, false, fmt.Errorf("find an earlier delivery: %w", err)
	}
	return made, true, nil
}

// ClaimTx waits for transactions that accept the same delivery, then calls Find. All transactions
// lock the ID before the body, so they cannot deadlock.
func (d delivery) ClaimTx(ctx context.Context, tx pgx.Tx) (uuid.UUID, bool, error) {
	for _, mark := range d.marks {
		scope := fmt.Sprintf("delivery %s %x", d.key.ID, mark)
		if err := db.New().LockName(ctx, tx, scope); err != nil {
			return uuid.Nil, false, fmt.Errorf("lock a delivery: %w", err)
		}
	}
	return d.Find(ctx, tx)
}

// KeepTx stores which run the delivery started.
func (d delivery) KeepTx(ctx context.Context, conn db.DBTX, made uuid.UUID) error {
	err := db.New().HookDeliveryInsert(ctx, conn, db.HookDeliveryInsertParams{WorkspaceID: d.key.WorkspaceID, HookID: d.key.ID, Marks: d.marks, RunID: made})
	if err != nil {
		return fmt.Errorf("store a delivery: %w", err)
	}
	return nil
}
