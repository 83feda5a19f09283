package conformance

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// matrixCases try every operation of the document that is not open as every kind of caller. The
// expected response follows from the document, so a new operation is in the matrix automatically.
var matrixCases = []Case{
	{Part: "D2.11.selects", Name: "matrix/401 what selects the signature or the session", Run: matrixSelects, Needs: owner},
	{Part: "D2.11.role", Name: "matrix/403 and 404 callers without the role", Run: matrixRefused, Needs: []probe.Need{probe.NeedOwner, probe.NeedForeign}},
	{Part: "D2.11.role", Name: "matrix/200 callers with the role", Run: matrixAdmitted, Needs: owner},
	{Part: "D2.11.selects", Name: "matrix/403 a session adds nothing to a restricted key", Run: matrixRestricted, Needs: owner},
	{Part: "D2.11.origin", Name: "matrix/403 what a page of another site sends", Run: matrixOrigin, Needs: owner},
	{Part: "D2.11.counts", Name: "matrix/200 people and programs share the limits", Run: matrixCounts, Needs: []probe.Need{probe.NeedWorkspace, probe.NeedOwner}},
	{Part: "D2.11.streams", Name: "matrix/200 a page names the workspace in the query of a stream", Run: matrixStreams, Needs: []probe.Need{probe.NeedOwner, probe.NeedForeign}},
	{Part: "D2.11.streams", Name: "matrix/200 the streams of a person end with the session and the membership", Run: matrixStreamsEnd, Needs: []probe.Need{probe.NeedOwner, probe.NeedNear}},
	{Part: "D2.11.audited", Name: "matrix/200 the audit log names the person", Run: matrixAudited, Needs: owner},
}

// headerWorkspace names the workspace of a person's request.
const headerWorkspace = "Weft-Workspace"

// caller changes a request into one of the caller.
type caller func(probe.Request) probe.Request

// nobody sends requests without credentials. A header is NAME: VALUE.
func nobody(headers ...string) caller {
	return func(r probe.Request) probe.Request {
		r.Unsigned, r.Sign = true, probe.Signing{}
		return headed(r, headers...)
	}
}

// somebody sends requests with the session of a person.
func somebody(token string, headers ...string) caller {
	return nobody(append(headers, "Authorization: Bearer "+token)...)
}

// keyholder sends signed requests.
func keyholder(as probe.Signing, headers ...string) caller {
	return func(r probe.Request) probe.Request {
		r.Unsigned, r.Sign = false, as
		return headed(r, headers...)
	}
}

// headed returns the request with more headers.
func headed(r probe.Request, headers ...string) probe.Request {
	if r.Header = r.Header.Clone(); r.Header == nil {
		r.Header = http.Header{}
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// attempt is a request of an operation, without credentials.
type attempt struct {
	operation *probe.Operation
	request   probe.Request
}

// guarded returns a request of every operation that is not open. Those of signed operations are
// about resources that exist.
func guarded(t *probe.Trial) []attempt {
	var list []attempt
	requests, _ := signed(t, probe.RandomUUID(), probe.Signing{})
	for _, request := range requests {
		operation := t.Target().Spec.Find(request.Method, request.Path)
		list = append(list, attempt{operation, refusable(request)})
	}
	for _, operation := range peoples(t) {
		list = append(list, attempt{operation, to(operation, t.Target().WorkspaceID)})
	}
	return list
}

// denial is the expected status and reason of a refused request. The zero value means that the
// request is admitted.
type denial struct {
	status int
	reason string
}

var (
	unsigned   = denial{http.StatusUnauthorized, "missing_api_key"}
	signedOut  = denial{http.StatusUnauthorized, "missing_session"}
	mistaken   = denial{http.StatusUnauthorized, "invalid_credentials"}
	powerless  = denial{http.StatusForbidden, "role_not_allowed"}
	crossing   = denial{http.StatusForbidden, "cross_origin"}
	keyLimited = denial{http.StatusForbidden, ""} // the reason depends on the operation
	unknown    = denial{http.StatusNotFound, ""}
)

// try sends a request and compares the response with what is expected. An admitted request about an
// unknown resource is 400 or 404, and one whose resource is in another state is 409.
func try(t *probe.Trial, name string, as caller, a attempt, want denial) {
	if want == (denial{}) && a.operation.ID == "streamWorkspace" {
		a.request.Method = http.MethodHead // the stream does not end
	}
	answer := t.Do(as(a.request))
	name += ": " + a.operation.ID
	if want == (denial{}) {
		admitted := answer.Status == http.StatusOK || answer.Status == http.StatusConflict
		if !a.operation.Signed() {
			admitted = answer.Status != http.StatusUnauthorized && answer.Status != http.StatusForbidden
		}
		t.Check(admitted, "%s: got %d %s, want it admitted", name, answer.Status, answer.Body)
		return
	}
	t.Check(answer.Status == want.status, "%s: got %d %s, want %d %s", name, answer.Status, answer.Body, want.status, want.reason)
	p := t.Problem(answer, want.status, map[int]string{401: "UNAUTHORIZED", 403: "FORBIDDEN", 404: "NOT_FOUND"}[want.status])
	if want != keyLimited {
		t.Equal(name+": reason", probe.Reason(p), want.reason)
	}
}

// depending returns the denial for an operation that accepts only a signature, only a session, or
// both.
func depending(o *probe.Operation, signature, session, both denial) denial {
	switch {
	case o.Signed() && o.Person():
		return both
	case o.Signed():
		return signature
	}
	return session
}

func matrixSelects(t *probe.Trial) {
	boss, in := t.SignIn(), headerWorkspace+": "+t.Target().WorkspaceID
	session := "Authorization: Bearer " + boss
	wrong := probe.Signing{Method: "TRACE"}
	for _, a := range guarded(t) {
		o := a.operation
		try(t, "nobody", nobody(), a, depending(o, unsigned, signedOut, unsigned))
		try(t, "nobody in a workspace", nobody(in), a, depending(o, unsigned, signedOut, signedOut))
		if !o.Signed() {
			try(t, "key", keyholder(probe.Signing{}), a, signedOut)
			continue
		}
		try(t, "session without a workspace", somebody(boss), a, unsigned)
		try(t, "wrong signature and session", keyholder(wrong, session, in), a, mistaken)
		for _, header := range []string{"X-Api-Key", "X-Sdk-Timestamp", "X-Sdk-Signature"} {
			answer := t.Do(somebody(boss, in, header+": 1")(a.request))
			t.Check(strings.HasPrefix(probe.Reason(t.Problem(answer, http.StatusUnauthorized, "UNAUTHORIZED")), "missing_"), "%s with %s: %s", o.ID, header, answer.Body)
		}
	}
}

func matrixRefused(t *probe.Trial) {
	boss, foreigner := t.SignIn(), t.SignInAs(*t.Target().Foreign)
	own, foreign := headerWorkspace+": "+t.Target().WorkspaceID, headerWorkspace+": "+t.Target().Foreign.WorkspaceID
	viewer, _ := member(t, boss, "viewer")
	list := guarded(t)
	for _, a := range list {
		o := a.operation
		if o.Role() != "" {
			try(t, "the owner of another workspace", somebody(foreigner, own), a, unknown)
		}
		if !o.Signed() {
			continue
		}
		try(t, "a foreign workspace", somebody(boss, foreign), a, depending(o, unsigned, denial{}, unknown))
		try(t, "a malformed workspace", somebody(boss, headerWorkspace+": x"), a, depending(o, unsigned, denial{}, unknown))
		if !o.Person() {
			try(t, "a session", somebody(boss, own), a, unsigned)
		}
	}
	editor, _ := member(t, boss, "editor")
	for _, a := range list {
		if role := a.operation.Role(); role != "" && role != "viewer" {
			try(t, "viewer", somebody(viewer, own), a, powerless)
			if role != "editor" {
				try(t, "editor", somebody(editor, own), a, powerless)
			}
		}
	}
}

// matrixAdmitted calls every operation as each caller that may use it. Each caller gets new
// resources, because the requests change and delete them.
func matrixAdmitted(t *probe.Trial) {
	boss, own := t.SignIn(), headerWorkspace+": "+t.Target().WorkspaceID
	roles := []string{"viewer", "editor", "admin", "owner"}
	for rank, role := range roles {
		token := boss
		if role != "owner" {
			token, _ = member(t, boss, role)
		}
		for _, a := range guarded(t) {
			if a.operation.Role() != "" && slices.Index(roles, a.operation.Role()) <= rank {
				try(t, role, somebody(token, own), a, denial{})
			}
		}
	}
	for _, a := range guarded(t) {
		if a.operation.Signed() {
			try(t, "key", keyholder(probe.Signing{}), a, denial{})
		}
	}
	// A browser sends the cookie.
	request := nobody(own, "Cookie: "+cookie(boss).Get("Cookie"))(probe.Request{Path: workflows + "/executions"})
	t.Equal("with a cookie", t.Do(request).Status, http.StatusOK)
}

func matrixRestricted(t *probe.Trial) {
	boss := t.SignIn()
	list := guarded(t)
	other := decodeWorkflow(t, t.Post(workflows, drawn("listed"))).ID
	as, _, revoke := restrictedKey(t, boss, other)
	defer revoke()
	both := keyholder(as, "Authorization: Bearer "+boss, headerWorkspace+": "+t.Target().WorkspaceID)
	for _, a := range list {
		if !a.operation.Signed() {
			continue
		}
		want := denial{}
		switch template := a.operation.Template; {
		case a.operation.Unrestricted(), strings.Contains(template, "{workflowId}"), strings.Contains(template, "{runId}"),
			strings.Contains(template, "{scheduleId}"), strings.Contains(template, "{hookId}"):
			want = keyLimited
		case strings.Contains(template, "{executionId}"):
			want = unknown
		}
		try(t, "restricted key", keyholder(as), a, want)
		try(t, "restricted key and session", both, a, want)
	}
}

func matrixOrigin(t *probe.Trial) {
	boss, own := t.SignIn(), headerWorkspace+": "+t.Target().WorkspaceID
	for _, a := range guarded(t) {
		if !a.operation.Signed() || !a.operation.Person() || a.request.Method == http.MethodGet && !a.operation.Stream() {
			continue
		}
		for _, header := range []string{"Sec-Fetch-Site: cross-site", "Origin: https://elsewhere.example"} {
			try(t, "page of another site", nobody(own, header, "Cookie: "+cookie(boss).Get("Cookie")), a, crossing)
		}
	}
}

// byQuery returns the request with a workspace in its query.
func byQuery(a attempt, workspaceID string) attempt {
	a.request.Path += "?workspace=" + workspaceID
	return a
}

func matrixStreams(t *probe.Trial) {
	boss, foreigner, own := t.SignIn(), t.SignInAs(*t.Target().Foreign), t.Target().WorkspaceID
	page := nobody("Cookie: "+cookie(boss).Get("Cookie"), "Sec-Fetch-Site: same-origin", "Prefer: handling=strict")
	for _, a := range guarded(t) {
		switch o := a.operation; {
		case o.Stream():
			try(t, "nobody", nobody(), byQuery(a, own), signedOut)
			try(t, "a page", page, byQuery(a, own), denial{})
			try(t, "a session", somebody(boss), byQuery(a, own), denial{})
			try(t, "the owner of another workspace", somebody(foreigner), byQuery(a, own), unknown)
			try(t, "a foreign workspace", somebody(boss), byQuery(a, t.Target().Foreign.WorkspaceID), unknown)
			try(t, "a malformed workspace", somebody(boss), byQuery(a, "x"), unknown)
			try(t, "a foreign workspace in the header", somebody(boss, headerWorkspace+": "+t.Target().Foreign.WorkspaceID), byQuery(a, own), unknown)
			try(t, "key", keyholder(probe.Signing{}), byQuery(a, own), denial{})
			try(t, "wrong signature and session", keyholder(probe.Signing{Method: "TRACE"}, "Authorization: Bearer "+boss), byQuery(a, own), mistaken)
		case o.Signed():
			try(t, "session and a workspace in the query", somebody(boss), byQuery(a, own), unsigned)
		}
	}
}

// matrixStreamsEnd opens a stream for each way to lose access, and then one more that stays.
func matrixStreamsEnd(t *probe.Trial) {
	boss, own := t.SignIn(), t.Target().WorkspaceID
	url, letGo, asked := held(t)
	path := probe.Execution(t.Execute(probe.Fetch(url)).ID.String()) + "/stream?workspace=" + own
	t.Until("the upstream is asked", 20*time.Second, asked)
	open := func(token string) *probe.Stream {
		stream := t.StreamOf(nobody("Cookie: " + cookie(token).Get("Cookie"))(probe.Request{Path: path}))
		_, ok := stream.Next()
		t.Check(ok, "the stream ended before the execution")
		return stream
	}
	leaver, id := member(t, boss, "viewer")
	closer, _ := member(t, boss, "viewer")
	left, closed, stays := open(leaver), open(closer), open(boss)
	within(t, boss, http.MethodDelete, "/members/"+id, nil)
	t.Equal("sign out", t.Do(probe.Request{Method: http.MethodDelete, Path: "/v1/sessions/current", Bearer: closer}).Status, http.StatusOK)
	lost := time.Now()
	t.Equal("events after leaving", len(left.Rest()), 0)
	t.Equal("events after signing out", len(closed.Rest()), 0)
	t.Soon(time.Since(lost), 5*time.Second, "the streams ended %v after the access", time.Since(lost))
	letGo()
	t.Equal("events of the owner", len(stays.Rest()), 1)
}

// matrixCounts sends every operation that accepts both as a person, whose requests count like signed
// ones.
func matrixCounts(t *probe.Trial) {
	as := customer(t, "professional")
	person := somebody(t.SignInAs(*as.As), headerWorkspace+": "+as.As.WorkspaceID)
	requests, before := signed(t, probe.RandomUUID(), as)
	left := 45_000 - before
	for _, request := range requests {
		operation := t.Target().Spec.Find(request.Method, request.Path)
		if !operation.Person() {
			continue
		}
		answer := t.Do(person(request))
		left -= operation.Cost()
		t.Equal("left of the hour after "+operation.ID, rates(t, answer, "RateLimit")["hour"]["r"], left)
	}
}

func matrixAudited(t *probe.Trial) {
	boss := t.SignIn()
	request := probe.Request{Method: http.MethodPost, Path: workflows, Body: t.JSON(drawn("by a person"))}
	answer := t.Do(somebody(boss, headerWorkspace+": "+t.Target().WorkspaceID)(request))
	id := decodeWorkflow(t, answer).ID
	page := events(t, boss, "?limit=100")
	at := slices.IndexFunc(page.Data, func(e api.AuditEvent) bool { return e.Subject != nil && e.Subject.ID == id })
	t.Check(at >= 0, "the workflow %s is not in the log", id)
	actor := page.Data[at].Actor
	t.Check(actor.Kind == api.AuditActorKindUser && actor.Name != nil && *actor.Name == t.Target().AdminEmail, "actor %s", t.JSON(actor))
}
