package console

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
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

// redeem uses the ticket up and returns its account. It returns "" if the secret is wrong, used or
// expired.
func (t *Ticket) redeem(secret string, now time.Time) (email string) {
	hash := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	defer t.mu.Unlock()
	if subtle.ConstantTimeCompare(hash[:], t.hash[:]) != 1 || !now.Before(t.expires) {
		return ""
	}
	t.expires = time.Time{}
	return t.email
}

// OpenHandler serves GET /open?t=SECRET to browsers on this machine. It signs the person of the
// ticket in, and redirects to the settings. Without a valid ticket, the settings show the sign-in
// form. It never logs the secret.
func OpenHandler(ticket *Ticket, people *person.Service, proxies auth.Proxies, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		w.Header().Set("Referrer-Policy", "no-referrer")
		if r.Method != http.MethodGet || !onThisMachine(r) {
			http.Error(w, "There is nothing at this path.", http.StatusNotFound)
			return
		}
		if email := ticket.redeem(r.URL.Query().Get("t"), time.Now()); email != "" {
			session, err := people.StartSession(r.Context(), email)
			switch {
			case err == nil:
				session.SetCookies(w, proxies.Secure(r))
			case fault.CodeOf(err) != fault.Unauthorized:
				log.ErrorContext(r.Context(), "the link of weft dev could not sign in", "error", err)
			}
		}
		http.Redirect(w, r, "/settings", http.StatusSeeOther)
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
