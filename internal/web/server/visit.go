package server

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/account/auth"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/telemetry"
	"github.com/weft-automation/weft/internal/web/contract"
)

// visit is what is known about a person's connection: the address, the scheme and the cookies.
type visit struct {
	client netip.Addr
	secure bool   // over https
	origin string // of the service, as the client reaches it
	token  string // of the session; "" without one
	device string // the value of the device cookie; "" without one
}

// host returns the host of the service, as the client reaches it.
func (v visit) host() string {
	_, host, _ := strings.Cut(v.origin, "://")
	return host
}

func (f *front) visit(r *http.Request) visit {
	return visit{client: f.proxies.Client(r.RemoteAddr, r.Header), secure: f.proxies.Secure(r), origin: f.proxies.Origin(r)}
}

// headerWorkspace names the workspace in which a person calls an operation whose path names none.
const (
	headerWorkspace = "Weft-Workspace"
	queryWorkspace  = "workspace" // of event streams
)

// bySession reports whether a request authenticates by a session. If the operation accepts both a
// session and a signature, naming a workspace selects the session, and any signing header selects
// the signature (decisions 2.11). A session without a workspace is an unsigned request.
func bySession(r *http.Request, operation *contract.Operation) bool {
	if !operation.Signed {
		return operation.Person
	}
	return operation.Person && namedWorkspaces(r, operation) != nil && !auth.Signing(r.Header)
}

// namedWorkspaces returns the values of Weft-Workspace. An event stream may name the workspace by the
// query parameter instead, because a browser's EventSource sends no headers.
func namedWorkspaces(r *http.Request, operation *contract.Operation) []string {
	names := r.Header[headerWorkspace]
	if names == nil && operation.Stream() {
		names = r.URL.Query()[queryWorkspace]
	}
	return names
}

// workspaceOf returns the workspace that a person's request names, or uuid.Max, which matches no
// workspace: UNAUTHORIZED takes precedence over NOT_FOUND.
func workspaceOf(r *http.Request, operation *contract.Operation) uuid.UUID {
	text := r.PathValue("workspaceId")
	if operation.Signed {
		text = strings.Join(namedWorkspaces(r, operation), ",") // more than one is malformed
	}
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Max
	}
	return id
}

// recognize authenticates a person by the token of their session and records them in call. If the
// request names a workspace, they must be a member of it. It returns UNAUTHORIZED, FORBIDDEN or
// NOT_FOUND otherwise.
func (f *front) recognize(r *http.Request, operation *contract.Operation, call *call) error {
	call.visit = f.visit(r)
	token, bearer := bearerToken(r.Header)
	if !bearer {
		token = person.CookieToken(r, call.visit.secure)
		// Browsers also send the cookie with requests that pages of other sites make.
		if err := f.sameOrigin(r, operation); err != nil {
			return err
		}
	}
	call.visit.token = token
	proof := person.Proof{Token: token, Client: call.visit.client}
	if operation.Role != "" {
		proof.WorkspaceID = new(workspaceOf(r, operation))
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
	if operation.Signed {
		call.principal = auth.Principal{WorkspaceID: member.WorkspaceID}
	}
	telemetry.Identify(r.Context(), member.WorkspaceID, uuid.Nil)
	return nil
}

// bearerToken returns the token of an Authorization header, and reports whether its scheme is
// Bearer.
func bearerToken(header http.Header) (token string, ok bool) {
	scheme, token, _ := strings.Cut(header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// sameOrigin returns FORBIDDEN if a browser sent a request that may change something, or opens a
// stream, on behalf of a page of a different site. The page could not read the stream, but open
// streams count against the limits of the workspace.
func (f *front) sameOrigin(r *http.Request, operation *contract.Operation) error {
	if operation.Stream() {
		asChange := *r
		asChange.Method = http.MethodPost
		r = &asChange
	}
	if err := f.crossOrigin.Check(r); err != nil {
		return &fault.Error{
			Code: fault.Forbidden, Reason: "cross_origin", Err: err,
			Message: "A browser sent this request from a page of another site. Send it from the same origin.",
		}
	}
	return nil
}
