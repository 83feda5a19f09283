package person_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weft-automation/weft/internal/account/person"
)

func TestStreamsOfAPersonEndWithTheSessionOrTheMembership(t *testing.T) {
	b := setup(t)
	stays, stop := b.UntilSignedOut(t.Context(), b.signIn(t, "grace@example.org", password), b.workspace)
	defer stop()
	const ofUser = " WHERE user_id = (SELECT id FROM users WHERE email = $1)"
	for name, end := range map[string]func(token, email string){
		"out":      func(token, _ string) { _ = b.SignOut(t.Context(), token) },
		"expired":  func(_, email string) { b.exec(t, "UPDATE sessions SET expires_at = now()"+ofUser, email) },
		"disabled": func(_, email string) { b.exec(t, "UPDATE users SET disabled_at = now() WHERE email = $1", email) },
		"removed":  func(_, email string) { b.exec(t, "DELETE FROM members"+ofUser, email) },
	} {
		email := name + "@example.org"
		b.member(t, email, person.Viewer)
		token := b.signIn(t, email, password)
		stream, stop := b.UntilSignedOut(t.Context(), token, b.workspace)
		end(token, email)
		<-stream.Done()
		if cause := context.Cause(stream); !errors.Is(cause, person.ErrSignedOut) {
			t.Errorf("%s: ended by %v", name, cause)
		}
		stop()
	}
	if stays.Err() != nil {
		t.Errorf("the stream of another session ended by %v", context.Cause(stays))
	}
}
