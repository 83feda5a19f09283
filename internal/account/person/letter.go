package person

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
)

// mailToken makes the token of a link that is mailed to the invited address only. It returns
// "" if invitations are not mailed, or too many were: what a workspace and what strangers
// send to one address is bounded.
func (s *Service) mailToken(workspaceID uuid.UUID, email string) (token string, hash []byte) {
	if s.mail == nil || s.mails.Take(workspaceID.String()) > 0 || s.mails.Take(email) > 0 {
		return "", nil
	}
	return newToken()
}

// mailInvitation mails the link of an invitation that was just stored, and reports whether
// the server accepted it. A process that dies here leaves an invitation that was not mailed;
// its inviter got no answer and makes another one.
func (s *Service) mailInvitation(ctx context.Context, token string) bool {
	invited, err := queries.InvitationGetByToken(ctx, s.system, hashOf(token))
	if err == nil {
		err = s.mail.Send(ctx, invited.Email, fmt.Sprintf("Invitation to the workspace %s", invited.WorkspaceName), s.letter(invited, token))
	}
	if err != nil {
		s.log.WarnContext(ctx, "an invitation was not mailed", "invitation", invited.ID, "error", err)
	}
	return err == nil
}

// letter is the text of a mailed invitation. It quotes nothing that an inviter can choose
// freely, such as their name, so that mails cannot carry messages from strangers.
func (s *Service) letter(invited db.InvitationGetByTokenRow, token string) string {
	by := "A member"
	if invited.ByEmail != nil {
		by = *invited.ByEmail
	}
	return fmt.Sprintf(`%s invites you to the workspace %s, as %s.

To accept, open this link by %s:

%s

The link works once. It proves that this e-mail address is yours, so do not pass it on.
If you did not expect this invitation, ignore this message.
`, by, invited.WorkspaceName, invited.Role, invited.ExpiresAt.UTC().Format("2 January 2006, 15:04 UTC"), invitationURL(s.publicURL, token))
}
