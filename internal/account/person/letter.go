package person

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/db"
)

// mailToken creates the token of a link that is mailed only to the invited address. It returns
// "" if the service doesn't mail invitations, or if the limit of the workspace or of the address
// is reached.
func (s *Service) mailToken(workspaceID uuid.UUID, email string) (token string, hash []byte) {
	if s.mail == nil || s.mails.Take(workspaceID.String()) > 0 || s.mails.Take(email) > 0 {
		return "", nil
	}
	return newToken()
}

// mailInvitation mails the link of a stored invitation, and reports whether the mail server
// accepted the mail. If the process crashes in mailInvitation, the invitation isn't mailed; the
// inviter receives no response and invites again.
func (s *Service) mailInvitation(ctx context.Context, token string) bool {
	invited, err := queries.InvitationGetByToken(ctx, s.system, hashOf(token))
	if err == nil {
		err = s.mail.Send(ctx, invited.Email, fmt.Sprintf("Invitation to the workspace %s", invited.WorkspaceName), s.letter(invited, token))
	}
	if err != nil {
		s.log.WarnContext(ctx, "could not mail an invitation", "invitation", invited.ID, "error", err)
	}
	return err == nil
}

// letter returns the text of a mailed invitation. It contains no free text of the inviter, such
// as their name, so that strangers can't send messages with it.
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
