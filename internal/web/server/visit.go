package server

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/web/contract"
)

// visit is how a person comes: from where, over what, and with which token.
type visit struct {
	client netip.Addr
	secure bool   // over https
	origin string // of the service, as the client calls it
	token  string // of the session; "" for none
	device string // the value of the device's cookie; "" for none
}

// host is that of the service, as the client calls it.
func (v visit) host() string {
	_, host, _ := strings.Cut(v.origin, "://")
	return host
}

func (f *front) visit(r *http.Request) visit {
	return visit{client: f.proxies.Client(r.RemoteAddr, r.Header), secure: f.proxies.Secure(r), origin: f.proxies.Origin(r)}
}

// recognize proves who sends the request, by the token of a session, and that they
// belong to the workspace of the path.
func (f *front) recognize(r *http.Request, operation *contract.Operation, call *call) error {
	call.visit = f.visit(r)
	token, bearer := bearerToken(r.Header)
	if !bearer {
		token = person.CookieToken(r, call.visit.secure)
		// A browser sends the cookie by itself, whoever's page makes it.
		if err := f.sameOrigin(r); err != nil {
			return err
		}
	}
	call.visit.token = token
	proof := person.Proof{Token: token, Client: call.visit.client}
	if operation.Role != "" {
		id, err := uuid.Parse(r.PathValue("workspaceId"))
		if err != nil {
			id = uuid.Max // of no workspace: who is not signed in is told that first
		}
		proof.WorkspaceID = &id
	}
	member, err := f.find(r.Context(), proof)
	if err != nil {
		return err
	}
	if member.WorkspaceID != uuid.Nil {
		if err := call.hold.move(member.WorkspaceID); err != nil {
			return err
		}
	}
	call.member = member
	telemetry.Identify(r.Context(), member.WorkspaceID, uuid.Nil)
	return nil
}

// bearerToken is the token of an Authorization header, if that is of a session.
func bearerToken(header http.Header) (token string, ok bool) {
	scheme, token, _ := strings.Cut(header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// sameOrigin refuses what would change something for a page of another site.
func (f *front) sameOrigin(r *http.Request) error {
	if err := f.foreign.Check(r); err != nil {
		return &fault.Error{
			Code: fault.Forbidden, Reason: "cross_origin", Err: err,
			Message: "A browser sent this request for a page of another site.",
		}
	}
	return nil
}
