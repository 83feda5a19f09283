// Package accesstoken has the current access tokens of variables of the kind oauth2.
//
// A token is fetched when it is first needed, and again before it expires. It is stored sealed with its
// variable. One fetch serves all who wait for it, in all processes: the row of the variable says which
// fetch is in progress. No connection to the database is held while a server is asked.
package accesstoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/environment"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/kit/wait"
	"github.com/weft-automation/weft/internal/platform/egress"
	"github.com/weft-automation/weft/internal/platform/postgres"
	"github.com/weft-automation/weft/internal/secret/seal"
)

const (
	patience  = fetchTimeout + 5*time.Second // after that, the process that fetches counts as lost
	recheck   = 50 * time.Millisecond        // how often a process looks for the outcome of another one's fetch
	youngest  = 30 * time.Second             // a younger token is not dropped: its server knows no better one
	early     = time.Minute                  // before its end, a token is fetched again
	quiet     = time.Second                  // a failure that may pass counts for those who come later
	quietLong = 10 * time.Second             // another failure, and one while the old token lives

	// Replaced tokens are kept to be hidden from what calls that used them show.
	maxReplaced      = 20
	maxReplacedBytes = 64 << 10
)

// Error says why a variable has no token. It contains nothing of an answer but its status and the word of
// the RFC in it.
type Error struct {
	Reason    string `json:"reason"`
	Status    int    `json:"status,omitempty"` // of the answer of the token address; 0: none
	Word      string `json:"word,omitempty"`   // its `error`; empty: none that the RFC has
	Retryable bool   `json:"retryable,omitempty"`
}

func (e *Error) Error() string { return e.Reason }

func final(format string, args ...any) *Error { return &Error{Reason: fmt.Sprintf(format, args...)} }

func passing(format string, args ...any) *Error {
	return &Error{Reason: fmt.Sprintf(format, args...), Retryable: true}
}

// Token is the current token of a variable.
type Token struct {
	Value    string
	Number   int64    // distinguishes it from earlier and later ones
	Replaced []string // earlier tokens, which calls may have used
}

// Source has the tokens of variables. It is safe for concurrent use.
type Source struct {
	db      postgres.DB
	keyring *seal.Keyring
	guard   *egress.Guard
	flights singleflight.Group
}

// New returns a Source that uses db, which sees all workspaces.
func New(db postgres.DB, keyring *seal.Keyring, guard *egress.Guard) *Source {
	return &Source{db: db, keyring: keyring, guard: guard}
}

// content is what is sealed of a token.
type content struct {
	Token    string   `json:"token"`
	Replaced []string `json:"replaced,omitempty"`
}

// place is a variable, by its name.
type place struct {
	workspaceID uuid.UUID
	name        string
}

// Get returns the token of a variable, as the variable is now. It fetches one if one is missing, and if it
// soon expires. If that fails while the old token lives, it returns the old one, and otherwise an *Error.
func (s *Source) Get(ctx context.Context, workspaceID uuid.UUID, name string) (Token, error) {
	p := place{workspaceID, name}
	row, err := s.read(ctx, p)
	if err != nil {
		return Token{}, err
	}
	if row.Fresh || row.Alive && (row.Fetching || row.Quiet) {
		return s.open(p, row)
	}
	flight := s.flights.DoChan(workspaceID.String()+" "+name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*patience) // it serves others too
		defer cancel()
		return s.refresh(ctx, p)
	})
	select {
	case <-ctx.Done():
		return Token{}, ctx.Err()
	case outcome := <-flight:
		token, _ := outcome.Val.(Token)
		return token, outcome.Err
	}
}

// Drop makes a token expire that a server refused, unless it is younger than 30 seconds or replaced already.
func (s *Source) Drop(ctx context.Context, workspaceID uuid.UUID, name string, number int64) error {
	_, err := db.New().TokenDrop(ctx, s.db, db.TokenDropParams{WorkspaceID: workspaceID, Name: name, TokenNumber: number, Age: youngest})
	if err != nil {
		return fmt.Errorf("drop an access token: %w", err)
	}
	return nil
}

func (s *Source) read(ctx context.Context, p place) (row db.TokenGetRow, err error) {
	row, err = db.New().TokenGet(ctx, s.db, db.TokenGetParams{WorkspaceID: p.workspaceID, Name: p.name})
	switch {
	case postgres.NotFound(err):
		return row, final("the variable was deleted")
	case err != nil:
		return row, fmt.Errorf("read an access token: %w", err)
	case row.Kind != environment.KindToken:
		return row, final("the variable is not an access token any more")
	}
	return row, nil
}

func (s *Source) open(p place, row db.TokenGetRow) (Token, error) {
	kept, err := s.content(p, row)
	return Token{Value: kept.Token, Number: row.TokenNumber, Replaced: kept.Replaced}, err
}

func (s *Source) content(p place, row db.TokenGetRow) (kept content, err error) {
	if row.SealedToken == nil {
		return kept, nil
	}
	plain, err := s.keyring.Open(row.SealedToken, environment.TokenAt(p.workspaceID, row.ID))
	if err != nil {
		return kept, fmt.Errorf("open an access token: %w", err)
	}
	if json.Unmarshal(plain, &kept) != nil {
		return kept, errors.New("decode an access token") // the cause may contain it
	}
	return kept, nil
}

// refresh fetches the token of a variable, or waits for the outcome of a fetch that is in progress.
func (s *Source) refresh(ctx context.Context, p place) (Token, error) {
	var awaited *uuid.UUID
	for {
		row, err := s.read(ctx, p)
		if err != nil {
			return Token{}, err
		}
		ended := awaited != nil && row.LastFetchID != nil && *row.LastFetchID == *awaited
		failed := row.FetchError != nil && (row.Quiet || ended)
		switch {
		case row.Fresh, row.Alive && (failed || row.Fetching), ended && !failed: // the last one may have a very short life
			return s.open(p, row)
		case failed:
			return Token{}, stored(row.FetchError)
		case row.FetchID != nil && row.Fetching:
			awaited = row.FetchID
			if err := wait.For(ctx, recheck); err != nil {
				return Token{}, err
			}
			continue
		}
		if awaited, err = s.fetch(ctx, p, row); err != nil {
			return Token{}, err
		}
	}
}

// stored returns the error of a fetch that failed.
func stored(raw []byte) error {
	var why Error
	if json.Unmarshal(raw, &why) != nil {
		return passing("the token address failed")
	}
	return &why
}

// fetch fetches a token and stores the outcome, unless another fetch began first. It returns the ID of the fetch.
func (s *Source) fetch(ctx context.Context, p place, row db.TokenGetRow) (*uuid.UUID, error) {
	client, err := environment.OpenClient(s.keyring, p.workspaceID, row.ID, row.Sealed)
	if err != nil {
		return nil, fmt.Errorf("open the client of an access token: %w", err)
	}
	before, err := s.content(p, row)
	if err != nil {
		return nil, err
	}
	id, err := uuid7.New()
	if err != nil {
		return nil, err
	}
	q := db.New()
	claimed, err := q.TokenClaim(ctx, s.db, db.TokenClaimParams{
		WorkspaceID: p.workspaceID, ID: row.ID, FetchID: id, Patience: patience, Sealed: row.Sealed, LastFetchID: row.LastFetchID,
	})
	if err != nil || claimed == 0 {
		return nil, err
	}
	start := time.Now()
	got, why := fetch(egress.WithTenant(ctx, p.workspaceID.String()), s.guard, client)
	if why != nil {
		reason, err := json.Marshal(why)
		if err != nil {
			return nil, err
		}
		pause := quiet
		if !why.Retryable || row.Alive {
			pause = quietLong
		}
		_, err = q.TokenFail(ctx, s.db, db.TokenFailParams{WorkspaceID: p.workspaceID, ID: row.ID, FetchID: id, FetchError: reason, Quiet: pause})
		return &id, err
	}
	plain, err := strictjson.Encode(before.replacedBy(got.token))
	if err != nil {
		return nil, errors.New("encode an access token") // the cause may contain it
	}
	sealed, err := s.keyring.Seal(plain, environment.TokenAt(p.workspaceID, row.ID))
	if err != nil {
		return nil, fmt.Errorf("seal an access token: %w", err)
	}
	alive := got.life - time.Since(start)
	_, err = q.TokenStore(ctx, s.db, db.TokenStoreParams{
		WorkspaceID: p.workspaceID, ID: row.ID, FetchID: id, SealedToken: sealed, FreshFor: alive - min(early, got.life/2), AliveFor: alive,
	})
	return &id, err
}

// replacedBy returns the content with a new token, and with as many earlier ones as are kept.
func (c content) replacedBy(token string) content {
	fresh, size := content{Token: token}, 0
	for _, one := range append([]string{c.Token}, c.Replaced...) {
		if size += len(one); one != "" && one != token && len(fresh.Replaced) < maxReplaced && size <= maxReplacedBytes {
			fresh.Replaced = append(fresh.Replaced, one)
		}
	}
	return fresh
}
