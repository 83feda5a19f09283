package probe

import (
	"github.com/weft-automation/weft/gen/api"
)

// sessions holds one session for each person, shared by all trials: a deployment limits attempts to
// sign in, and hashing a password is slow.
type sessions struct {
	turn   chan struct{}     // held while a trial uses tokens
	tokens map[string]string // by e-mail address
}

func newSessions() *sessions {
	return &sessions{turn: make(chan struct{}, 1), tokens: map[string]string{}}
}

// SignIn returns the token of the owner's session. All trials share the session, so a case must not
// end it.
func (t *Trial) SignIn() string { return t.SignInAs(t.target.Credentials) }

// SignInAs is like SignIn, for the owner in the credentials.
func (t *Trial) SignInAs(c Credentials) string {
	shared := t.target.sessions
	select {
	case shared.turn <- struct{}{}:
	case <-t.ctx.Done():
		t.busy(t.ctx.Err())
		t.Fatalf("sign in: the case has exceeded its time limit")
	}
	defer func() { <-shared.turn }()
	if token := shared.tokens[c.AdminEmail]; token != "" {
		return token
	}
	token := t.NewSession(c)
	shared.tokens[c.AdminEmail] = token
	return token
}

// NewSession creates a session that no other trial uses, and returns its token.
func (t *Trial) NewSession(c Credentials) string {
	return Decode[api.Session](t, t.Do(t.Entry(c.AdminEmail, c.AdminPassword))).Token
}
