package settings

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/web/page"
)

// TicketLife is how long a ticket is valid.
const TicketLife = 10 * time.Minute

// Ticket signs one person in once, without a password. Only weft dev issues one, for the person who
// started it. The zero value is valid and signs nobody in.
type Ticket struct {
	mu      sync.Mutex
	email   string
	hash    [sha256.Size]byte
	expires time.Time // zero: not issued, or used
}

// Issue makes the ticket valid for an account and returns its secret, which is never stored.
func (t *Ticket) Issue(email string, now time.Time) (secret string) {
	random := make([]byte, 32)
	rand.Read(random) //nolint:errcheck // crypto/rand aborts the program instead of failing
	secret = base64.RawURLEncoding.EncodeToString(random)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.email, t.hash, t.expires = email, sha256.Sum256([]byte(secret)), now.Add(TicketLife)
	return secret
}

// errTicket means that the secret of a ticket is wrong, used or expired.
var errTicket = errors.New("the ticket is not valid")

// redeem calls signIn with the account of the ticket, and uses the ticket up if that succeeds. It
// returns errTicket, or the error of signIn.
func (t *Ticket) redeem(secret string, now time.Time, signIn func(email string) error) error {
	hash := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	defer t.mu.Unlock()
	if subtle.ConstantTimeCompare(hash[:], t.hash[:]) != 1 || !now.Before(t.expires) {
		return errTicket
	}
	if err := signIn(t.email); err != nil {
		return err
	}
	t.expires = time.Time{}
	return nil
}

// openFaults are the texts of the sign-in form after a link that signed nobody in, by the value of
// the query parameter link.
var openFaults = map[string]string{
	"invalid": "This link was already used, or it has expired. Sign in, or restart weft dev for a new link.",
	"failed":  "The link could not sign you in. Open it again, or sign in.",
}

// OpenHandler serves GET /open?t=SECRET to browsers on this machine. It signs the person of the
// ticket in, and redirects to the console. Without a valid ticket, the settings show the sign-in
// form with the reason. It never logs the secret.
func OpenHandler(ticket *Ticket, people *person.Service, proxies auth.Proxies, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page.Protect(w.Header())
		w.Header().Set("Referrer-Policy", "no-referrer")
		if r.Method != http.MethodGet || !onThisMachine(r) {
			http.Error(w, "There is nothing at this path.", http.StatusNotFound)
			return
		}
		target := "/console"
		err := ticket.redeem(r.URL.Query().Get("t"), time.Now(), func(email string) error {
			session, err := people.StartSession(r.Context(), email)
			if err == nil {
				session.SetCookies(w, proxies.Secure(r))
			}
			return err
		})
		switch {
		case errors.Is(err, errTicket):
			target = "/settings?link=invalid"
		case err != nil:
			target = "/settings?link=failed"
			if fault.CodeOf(err) != fault.Unauthorized {
				log.ErrorContext(r.Context(), "the link of weft dev could not sign in", "error", err)
			}
		}
		http.Redirect(w, r, target, http.StatusSeeOther)
	})
}

// onThisMachine reports whether the peer and the Host header are loopback addresses. A name in the
// Host header could be one that a web page made resolve to this machine.
func onThisMachine(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return false
	}
	name := r.Host
	if bare, _, err := net.SplitHostPort(name); err == nil {
		name = bare
	}
	host, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && host.IsLoopback() || strings.EqualFold(name, "localhost")
}
