package person

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
	"github.com/weft-automation/weft/internal/account/revocation"
	"github.com/weft-automation/weft/internal/platform/postgres"
)

// ErrSignedOut is the cause for which a stream's context is canceled when its session ends, or when
// its person is no longer a member of the workspace.
var ErrSignedOut = errors.New("the session ended, or the person left the workspace")

// watchedSession identifies a session in a workspace.
type watchedSession struct {
	tokenHash   string
	workspaceID uuid.UUID
}

// watchSessions returns a Watch that cancels the streams of sessions that have ended, and of
// persons who are no longer members.
func watchSessions(system postgres.DB) *revocation.Watch[watchedSession] {
	return revocation.New(ErrSignedOut, func(ctx context.Context, sessions []watchedSession) ([]watchedSession, error) {
		var p db.SessionListInactiveParams
		for _, session := range sessions {
			p.TokenHashes, p.WorkspaceIds = append(p.TokenHashes, []byte(session.tokenHash)), append(p.WorkspaceIds, session.workspaceID)
		}
		rows, err := queries.SessionListInactive(ctx, system, p)
		over := make([]watchedSession, len(rows))
		for i, row := range rows {
			over[i] = watchedSession{string(row.TokenHash), row.WorkspaceID}
		}
		return over, err
	})
}

// UntilSignedOut returns a context for a stream that a person opened with the token of a session. It
// is canceled with ErrSignedOut within 5 s after the session ends or the person is no longer a
// member of the workspace. The caller must call stop.
func (s *Service) UntilSignedOut(ctx context.Context, token string, workspaceID uuid.UUID) (_ context.Context, stop context.CancelFunc) {
	return s.watched.Until(ctx, watchedSession{string(hashOf(token)), workspaceID})
}
