package person_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/account/plan"
	"github.com/weft-automation/weft/internal/account/workspace"
	"github.com/weft-automation/weft/internal/kit/fault"
)

func TestASessionIsValidUntilItExpires(t *testing.T) {
	b := setup(t)
	token := b.signIn(t, " GRACE@example.org ", password)
	m, err := b.Find(t.Context(), person.Proof{Token: token, Client: home})
	if err != nil || m.ID != b.owner.ID || m.Email != "grace@example.org" || m.WorkspaceID != uuid.Nil || m.Role != "" {
		t.Fatalf("%+v, %v", m, err)
	}
	if left := time.Until(m.ExpiresAt); left < 335*time.Hour || left > 337*time.Hour {
		t.Errorf("the session ends in %v", left)
	}
	m, err = b.Find(t.Context(), person.Proof{Token: token, Client: home, WorkspaceID: &b.workspace})
	if err != nil || m.Role != person.Owner || m.WorkspaceID != b.workspace {
		t.Errorf("%+v, %v", m, err)
	}
	for _, other := range []uuid.UUID{uuid.Max, uuid.Nil} {
		_, err = b.Find(t.Context(), person.Proof{Token: token, Client: home, WorkspaceID: &other})
		refused(t, "another workspace", err, fault.NotFound, "")
	}

	ends := map[string]func(string){
		"signed out":  func(token string) { _ = b.SignOut(t.Context(), token) },
		"expired":     func(string) { b.exec(t, "UPDATE sessions SET expires_at = now()") },
		"disabled":    func(string) { b.exec(t, "UPDATE users SET disabled_at = now()") },
		"never begun": func(string) { b.exec(t, "DELETE FROM sessions") },
	}
	for name, end := range ends {
		token := b.signIn(t, "grace@example.org", password)
		end(token)
		_, err := b.Find(t.Context(), person.Proof{Token: token, Client: home})
		refused(t, name, err, fault.Unauthorized, "invalid_session")
		b.exec(t, "UPDATE users SET disabled_at = NULL")
	}
	_, err = b.Find(t.Context(), person.Proof{Client: home})
	refused(t, "no token", err, fault.Unauthorized, "missing_session")
}

func TestASessionRecordsWhenItWasLastUsed(t *testing.T) {
	b := setup(t)
	token := b.signIn(t, "grace@example.org", password)
	b.exec(t, "UPDATE sessions SET seen_at = now() - interval '1 hour'")
	if _, err := b.Find(t.Context(), person.Proof{Token: token, Client: home}); err != nil {
		t.Fatal(err)
	}
	var ago time.Duration
	if err := b.pool.QueryRow(t.Context(), "SELECT now() - seen_at FROM sessions").Scan(&ago); err != nil || ago > time.Minute {
		t.Errorf("seen %v ago, %v", ago, err)
	}
}

// The time of last use is informational: a read-only database can't store it, but still
// authenticates.
func TestASessionIsFoundInAReadOnlyDatabase(t *testing.T) {
	b := setup(t)
	token := b.signIn(t, "grace@example.org", password)
	b.exec(t, "UPDATE sessions SET seen_at = now() - interval '1 hour'")
	b.exec(t, "CREATE TRIGGER frozen BEFORE UPDATE ON sessions FOR EACH ROW EXECUTE FUNCTION refuse_change()")
	if _, err := b.Find(t.Context(), person.Proof{Token: token, Client: home}); err != nil {
		t.Error(err)
	}
}

// A host whose attempts fail all the time doesn't prevent others from signing in.
func TestOneHostLocksNobodyOut(t *testing.T) {
	b := setup(t)
	b.cheapen(t)
	fail := func() {
		_, err := b.SignIn(t.Context(), person.Credentials{Email: "grace@example.org", Password: "wrong", Client: netip.MustParseAddr("198.51.100.7")})
		refused(t, "a failure", err, fault.Unauthorized, "invalid_credentials")
	}
	for range 20 {
		fail()
	}
	for range 3 { // each time that the client is admitted again
		b.wait(10 * time.Minute)
		fail()
		b.signIn(t, "grace@example.org", password)
	}
}

func TestFailedSignInsRevealNothing(t *testing.T) {
	b := setup(t)
	off := b.member(t, "off@example.org", person.Viewer)
	b.exec(t, "UPDATE users SET disabled_at = now() WHERE id = $1", off.ID)
	var texts []string
	for name, c := range map[string]person.Credentials{
		"a wrong password":    {Email: "grace@example.org", Password: "wrong"},
		"an unknown address":  {Email: "nobody@example.org", Password: password},
		"no address":          {Email: "x", Password: password},
		"beyond ASCII":        {Email: "grac\u0130@example.org", Password: password},
		"an account disabled": {Email: "off@example.org", Password: password},
	} {
		c.Client = home
		_, err := b.SignIn(t.Context(), c)
		refused(t, name, err, fault.Unauthorized, "invalid_credentials")
		texts = append(texts, fmt.Sprint(err))
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("%q and %q differ", text, texts[0])
		}
	}
}

func TestAttemptsAreLimitedByAddressAndByAccount(t *testing.T) {
	b := setup(t)
	b.cheapen(t)
	fail := func(email string, client int) error {
		from := netip.AddrFrom4([4]byte{198, 18, byte(client >> 8), byte(client)})
		_, err := b.SignIn(t.Context(), person.Credentials{Email: email, Password: "wrong", Client: from})
		return err
	}
	for i := range 20 { // one address, many accounts
		refused(t, "a failure", fail(fmt.Sprintf("u%d@example.org", i), 1), fault.Unauthorized, "invalid_credentials")
	}
	refused(t, "the 21st of an address", fail("u@example.org", 1), fault.RateLimited, "sign_in_attempts")
	for range 20 { // one address, one account
		refused(t, "a failure", fail("grace@example.org", 2), fault.Unauthorized, "invalid_credentials")
	}
	b.wait(time.Minute) // further attempts from the address are allowed, but not at this account
	refused(t, "the 21st failure of an address at one account", fail("Grace@example.org", 2), fault.RateLimited, "sign_in_attempts")
	refused(t, "at another account", fail("u@example.org", 2), fault.Unauthorized, "invalid_credentials")
	var recorded int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM audit_events WHERE action = 'sign_in.limited'").Scan(&recorded); err != nil || recorded != 0 {
		t.Errorf("the response waited for the audit log, %v", err)
	}
	limited := fmt.Sprintf(`sign_in.limited %s {"email": "grace@example.org"}`, b.owner.ID)
	if recorded := b.events(t, "sign_in.limited"); !slices.Equal(recorded, []string{limited}) {
		t.Errorf("the audit log has %q", recorded)
	}
	for range 30 { // successes don't count as failures
		b.signIn(t, "grace@example.org", password)
	}
	for i := range 100 {
		_, err := b.Find(t.Context(), person.Proof{Token: fmt.Sprint(i), Client: home})
		refused(t, "a token", err, fault.Unauthorized, "invalid_session")
	}
	_, err := b.Find(t.Context(), person.Proof{Token: b.signIn(t, "grace@example.org", password), Client: home})
	refused(t, "the 101st token", err, fault.RateLimited, "failed_authentications")
}

func TestFailuresFromManyAddressesLockNobodyOut(t *testing.T) {
	b := setup(t)
	b.cheapen(t)
	for i := range 14 * 20 {
		from := netip.AddrFrom4([4]byte{198, 18, 0, byte(i % 14)})
		_, err := b.SignIn(t.Context(), person.Credentials{Email: "grace@example.org", Password: "wrong", Client: from})
		refused(t, "a failure", err, fault.Unauthorized, "invalid_credentials")
	}
	b.signIn(t, "grace@example.org", password)
}

func TestKnownDeviceSignsInWhereItsAddressIsLimited(t *testing.T) {
	b := setup(t)
	b.cheapen(t)
	b.member(t, "ada@example.org", person.Viewer)
	office := netip.MustParseAddr("192.0.2.2")
	signIn := func(email, password, device string) (person.Session, error) {
		return b.SignIn(t.Context(), person.Credentials{Email: email, Password: password, Client: office, Device: device})
	}
	known, err := b.SignIn(t.Context(), person.Credentials{Email: "grace@example.org", Password: password, Client: home})
	if err != nil || known.Device == "" {
		t.Fatalf("the device %q, %v", known.Device, err)
	}
	for range 20 {
		_, err := signIn("grace@example.org", "wrong", "")
		refused(t, "a failure", err, fault.Unauthorized, "invalid_credentials")
	}
	_, err = signIn("grace@example.org", password, "")
	refused(t, "an unknown device", err, fault.RateLimited, "sign_in_attempts")
	_, err = signIn("grace@example.org", password, known.Device+"A")
	refused(t, "a forged cookie", err, fault.RateLimited, "sign_in_attempts")
	_, err = signIn("ada@example.org", password, known.Device)
	refused(t, "the device of another account", err, fault.RateLimited, "sign_in_attempts")
	again, err := signIn("grace@example.org", password, known.Device)
	if err != nil || again.Device != known.Device {
		t.Errorf("the known device: %v", err)
	}
	for range 20 {
		_, err := signIn("grace@example.org", "wrong", known.Device)
		refused(t, "a failure of the device", err, fault.Unauthorized, "invalid_credentials")
	}
	_, err = signIn("grace@example.org", password, known.Device)
	refused(t, "the 21st of the device", err, fault.RateLimited, "sign_in_attempts")
}

func TestAddressOfAnEarlierSignInHasItsOwnLimits(t *testing.T) {
	b := setup(t)
	b.cheapen(t)
	b.member(t, "ada@example.org", person.Viewer)
	b.signIn(t, "grace@example.org", password)
	for i := range 20 { // a neighbour behind the same address
		_, err := b.SignIn(t.Context(), person.Credentials{Email: fmt.Sprintf("u%d@example.org", i), Password: "wrong", Client: home})
		refused(t, "a failure", err, fault.Unauthorized, "invalid_credentials")
	}
	_, err := b.SignIn(t.Context(), person.Credentials{Email: "ada@example.org", Password: password, Client: home})
	refused(t, "a person who did not sign in there", err, fault.RateLimited, "sign_in_attempts")
	b.signIn(t, "grace@example.org", password)
}

func TestRequestsWithOneSessionAreLimited(t *testing.T) {
	b := setup(t)
	token, other := b.signIn(t, "grace@example.org", password), b.signIn(t, "grace@example.org", password)
	find := func(token string) error {
		_, err := b.Find(t.Context(), person.Proof{Token: token, Client: home})
		return err
	}
	for range 1000 {
		if err := find(token); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 { // the limit of the address
		refused(t, "the next request", find(token), fault.RateLimited, "session_requests")
	}
	if err := find(other); err != nil {
		t.Errorf("another session: %v", err)
	}
}

func TestSessionsOfAPersonAreBounded(t *testing.T) {
	b := setup(t)
	first := b.signIn(t, "grace@example.org", password)
	b.exec(t, `INSERT INTO sessions (token_hash, user_id, expires_at)
		SELECT sha256(n::text::bytea), $1, now() + interval '1 day' FROM generate_series(1, 250) n`, b.owner.ID)
	latest := b.signIn(t, "grace@example.org", password)
	var kept int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM sessions").Scan(&kept); err != nil || kept != 200 {
		t.Errorf("%d sessions, %v", kept, err)
	}
	_, err := b.Find(t.Context(), person.Proof{Token: first, Client: home})
	refused(t, "the oldest session", err, fault.Unauthorized, "invalid_session")
	if _, err := b.Find(t.Context(), person.Proof{Token: latest, Client: home}); err != nil {
		t.Error(err)
	}
}

func TestAU13NoTableHoldsAPasswordOrAToken(t *testing.T) {
	b := setup(t)
	token := b.signIn(t, "grace@example.org", password)
	made, err := b.Invite(b.scope(t), b.owner, "ada@example.org", person.Editor)
	if err != nil {
		t.Fatal(err)
	}
	session, err := b.SignIn(t.Context(), person.Credentials{Email: "grace@example.org", Password: password, Client: home})
	if err != nil {
		t.Fatal(err)
	}
	var dump strings.Builder
	for _, table := range []string{"users", "sessions", "invitations", "members", "audit_events"} {
		rows, err := b.pool.Query(t.Context(), "SELECT row_to_json(t)::text || encode(convert_to(t::text, 'UTF8'), 'escape') FROM "+table+" t")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&dump, values...)
		}
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("made", "invitation", made, "session", session)
	fmt.Fprintf(&log, "%v %+v %#v %s %v %+v %#v %s", made, made, made, made, session, session, session, session)
	if dump.Len() < 1000 || !strings.Contains(dump.String(), "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("the dump is incomplete: %.300s", dump.String())
	}
	for _, secret := range []string{password, token, made.Token, session.Token} {
		if strings.Contains(dump.String(), secret) {
			t.Error("a table holds a secret")
		}
		if strings.Contains(log.String(), secret) {
			t.Errorf("printing shows a secret: %s", log.String())
		}
	}
}

func TestANewPasswordKeepsRolesAndIsRecordedInAllWorkspaces(t *testing.T) {
	b := setup(t)
	ada := b.member(t, "ada@example.org", person.Viewer)
	token := b.signIn(t, "ada@example.org", password)
	b.exec(t, "UPDATE users SET disabled_at = now() WHERE id = $1", ada.ID)
	const another = "another long password"
	if got, err := person.SetPassword(t.Context(), b.pool, "Ada@example.org", another, true); err != nil || got != ada.Person {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err := b.Find(t.Context(), person.Proof{Token: token, Client: home})
	refused(t, "the old session", err, fault.Unauthorized, "invalid_session")
	m, err := b.Find(t.Context(), person.Proof{Token: b.signIn(t, "ada@example.org", another), Client: home, WorkspaceID: &b.workspace})
	if err != nil || m.Role != person.Viewer {
		t.Errorf("%+v, %v", m, err)
	}
	// As the owner of another workspace too: both audit logs record the next password.
	other, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "Other", Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []uuid.UUID{other, b.workspace} {
		if _, err := person.CreateOwner(t.Context(), b.pool, id, person.Account{Email: "ada@example.org", Existing: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := person.SetPassword(t.Context(), b.pool, "ada@example.org", password, false); err != nil {
		t.Fatal(err)
	}
	changed := fmt.Sprintf(`password.changed %s {"email": "ada@example.org"}`, ada.ID)
	promoted := fmt.Sprintf(`member.changed %s {"role": "owner", "email": "ada@example.org", "before": "viewer"}`, ada.ID)
	if got := b.events(t, "password.changed", "member.changed"); !slices.Equal(got, []string{changed, promoted, changed}) {
		t.Errorf("the events are %q", got)
	}
	_, err = person.SetPassword(t.Context(), b.pool, "nobody@example.org", another, false)
	refused(t, "nobody", err, fault.NotFound, "")
	_, err = person.SetPassword(t.Context(), b.pool, "ada@example.org", "short", false)
	refused(t, "a short one", err, fault.InvalidInput, "")
}

// The old password is verified. Before the session is stored, the password changes.
func TestAPasswordChangedMeanwhileStartsNoSession(t *testing.T) {
	b := setup(t)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := person.SetPassword(t.Context(), tx, "grace@example.org", "another long password", false); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := b.SignIn(context.WithoutCancel(t.Context()), person.Credentials{Email: "grace@example.org", Password: password, Client: home})
		answer <- err
	}()
	b.waiting(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	refused(t, "the old password", <-answer, fault.Unauthorized, "invalid_credentials")
	var sessions int
	if err := b.pool.QueryRow(t.Context(), "SELECT count(*) FROM sessions").Scan(&sessions); err != nil || sessions != 0 {
		t.Errorf("%d sessions, %v", sessions, err)
	}
}

func TestMakingAnExistingAccountAnOwnerChangesNothingElse(t *testing.T) {
	b := setup(t)
	token := b.signIn(t, "grace@example.org", password)
	other, err := workspace.Create(t.Context(), b.pool, workspace.CreateParams{Name: "Other", Plan: plan.Starter})
	if err != nil {
		t.Fatal(err)
	}
	again, err := person.CreateOwner(t.Context(), b.pool, other, person.Account{Email: "Grace@example.org", Name: "Other", Password: "another long password", Existing: true})
	if err != nil || again != b.owner.Person {
		t.Fatalf("%+v, %v", again, err)
	}
	if m, err := b.Find(t.Context(), person.Proof{Token: token, Client: home, WorkspaceID: &other}); err != nil || m.Role != person.Owner {
		t.Errorf("the earlier session: %+v, %v", m, err)
	}
	b.signIn(t, "grace@example.org", password)
	if got := b.events(t, "password.changed"); len(got) != 0 {
		t.Errorf("the events are %q", got)
	}
	for email, want := range map[string]bool{"GRACE@example.org": true, "a@b.example": false} {
		if has, _, err := person.HasAccount(t.Context(), b.pool, email); err != nil || has != want {
			t.Errorf("%s has an account: %v, %v", email, has, err)
		}
	}
	for pointer, a := range map[string]person.Account{
		"email":    {Email: "grace", Name: "Grace", Password: password},
		"name":     {Email: "a@b.example", Name: " ", Password: password},
		"name ":    {Email: "a@b.example", Name: "a\x00b", Password: password},
		"password": {Email: "a@b.example", Name: "Grace", Password: "too short"},
	} {
		_, err := person.CreateOwner(t.Context(), b.pool, b.workspace, a)
		refused(t, pointer, err, fault.InvalidInput, "")
	}
}
