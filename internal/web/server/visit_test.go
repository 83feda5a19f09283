package server

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/kit/fault"
)

func (o *operations) GetWorkspace(ctx context.Context, _ api.GetWorkspaceRequestObject) (api.GetWorkspaceResponseObject, error) {
	o.saw("getWorkspace as " + string(callOf(ctx).member.Role) + " of " + callOf(ctx).workspaceID().String())
	return api.GetWorkspace200JSONResponse{}, nil
}

func (o *operations) RevokeAPIKey(context.Context, api.RevokeAPIKeyRequestObject) (api.RevokeAPIKeyResponseObject, error) {
	o.saw("revokeApiKey")
	return api.RevokeAPIKey200JSONResponse{}, nil
}

// people serves the test operations to members of the workspace with the ID executionID. The
// token of a member is their role.
func people(t *testing.T) *service {
	t.Helper()
	return start(t, func(s *service, _ *http.Server) {
		s.front.find = func(_ context.Context, p person.Proof) (person.Member, error) {
			if p.Token == "" {
				return person.Member{}, &fault.Error{Code: fault.Unauthorized, Reason: "missing_session"}
			}
			if *p.WorkspaceID == uuid.Max {
				return person.Member{}, fault.New(fault.NotFound, "No such workspace.")
			}
			return person.Member{Person: person.Person{ID: uuid.Max}, WorkspaceID: *p.WorkspaceID, Role: person.Role(p.Token)}, nil
		}
	})
}

func TestOperationsCheckRole(t *testing.T) {
	s := people(t)
	revoke := "/v1/workspaces/" + executionID + "/api-keys/" + executionID
	for _, tc := range []struct {
		method, path, role, origin string
		status                     int
		reason                     string
	}{
		{"GET", "/v1/workspaces/" + executionID, "viewer", "", 200, ""},
		{"GET", "/v1/workspaces/" + executionID, "owner", "", 200, ""},
		{"GET", "/v1/workspaces/" + executionID, "king", "", 403, "role_not_allowed"},
		{"GET", "/v1/workspaces/" + executionID, "viewer", "cross-site", 200, ""},
		{"DELETE", revoke, "viewer", "", 403, "role_not_allowed"},
		{"DELETE", revoke, "editor", "", 403, "role_not_allowed"},
		{"DELETE", revoke, "admin", "", 200, ""},
		{"DELETE", revoke, "owner", "same-origin", 200, ""},
		{"DELETE", revoke, "owner", "none", 200, ""},
		{"DELETE", revoke, "owner", "same-site", 403, "cross_origin"},
		{"DELETE", revoke, "owner", "cross-site", 403, "cross_origin"},
	} {
		got := s.do(t, tc.method, tc.path, "", "Cookie: "+person.Cookie(tc.role, false).Name+"="+tc.role, "Sec-Fetch-Site: "+tc.origin)
		if got.status != tc.status || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %d %s", tc, got.status, got.body)
		}
		if tc.reason != "" && !strings.Contains(got.body, `"reason":"`+tc.reason+`"`) {
			t.Errorf("%+v: %s", tc, got.body)
		}
		if ran := s.operations.taken(); (len(ran) == 1) != (tc.status == 200) {
			t.Errorf("%+v: ran %v", tc, ran)
		}
		if len(s.takeVerified()) > 0 {
			t.Errorf("%+v: verified the signature of a person's request", tc)
		}
	}
	if got := s.do(t, "DELETE", revoke, "", "Authorization: Bearer owner", "Sec-Fetch-Site: cross-site"); got.status != 200 {
		t.Errorf("bearer token from another site: %d", got.status)
	}
	if got := s.do(t, "HEAD", "/v1/workspaces/"+executionID, "", "Authorization: Bearer owner"); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %d %s", got.status, got.body)
	}
}

func (o *operations) ListWorkflowRuns(ctx context.Context, _ api.ListWorkflowRunsRequestObject) (api.ListWorkflowRunsResponseObject, error) {
	o.saw("listWorkflowRuns by " + string(callOf(ctx).actor().Kind) + " in " + callOf(ctx).principal.WorkspaceID.String())
	return api.ListWorkflowRuns200JSONResponse{Data: []api.WorkflowRun{}}, nil
}

// One rule decides how a request of an operation that accepts both authenticates: any signing header
// selects the signature, otherwise Weft-Workspace selects the session (decisions 2.11).
func TestSigningHeadersOrWeftWorkspaceSelectHowToAuthenticate(t *testing.T) {
	s := people(t)
	const runsPath, streamPath, byQuery = "/v1/sdk/workflows/executions", getPath + "/stream", "?workspace=" + executionID
	const unsigned, bearer, in = "X-Api-Key: ", "Authorization: Bearer viewer", "Weft-Workspace: " + executionID
	person, key := "listWorkflowRuns by user in "+executionID, "listWorkflowRuns by api_key in "+uuid.Max.String()
	for _, tc := range []struct {
		path   string // by default that of listWorkflowRuns
		header []string
		status int
		ran    string
		reason string
	}{
		{header: nil, status: 200, ran: key},
		{header: []string{bearer, in}, status: 200, ran: key},
		{header: []string{unsigned, bearer, in}, status: 200, ran: person},
		{header: []string{unsigned, "Cookie: weft_session=viewer", in}, status: 200, ran: person},
		{header: []string{unsigned, bearer}, status: 401, reason: "missing_api_key"},
		{header: []string{unsigned, in, bearer, "X-Sdk-Signature: x"}, status: 401, reason: "missing_api_key"},
		{header: []string{unsigned, in, bearer, "X-Sdk-Timestamp: 1"}, status: 401, reason: "missing_api_key"},
		{header: []string{unsigned, in}, status: 401, reason: "missing_session"},
		{header: []string{unsigned, in, "Authorization: Bearer king"}, status: 403, reason: "role_not_allowed"},
		{header: []string{unsigned, bearer, "Weft-Workspace: x"}, status: 404},
		{header: []string{unsigned, bearer, in + "," + executionID}, status: 404},
		{path: runsPath + "?workspace=" + executionID, header: []string{unsigned, bearer}, status: 401, reason: "missing_api_key"},
		{path: streamPath, header: []string{unsigned, bearer}, status: 401, reason: "missing_api_key"},
		{path: streamPath + byQuery, header: []string{unsigned, bearer}, status: 404, ran: "streamComponentExecution"},
		{path: streamPath + byQuery, header: []string{unsigned, "Cookie: weft_session=viewer", "Sec-Fetch-Site: same-origin"}, status: 404, ran: "streamComponentExecution"},
		{path: streamPath + byQuery, header: []string{unsigned, "Cookie: weft_session=viewer", "Sec-Fetch-Site: same-site"}, status: 403, reason: "cross_origin"},
		{path: streamPath + byQuery, header: []string{unsigned, "Cookie: weft_session=viewer", "Origin: https://elsewhere.example"}, status: 403, reason: "cross_origin"},
		{path: streamPath + byQuery, header: []string{unsigned, bearer, "Weft-Workspace: x"}, status: 404},
		{path: streamPath + byQuery + "&workspace=x", header: []string{unsigned, bearer}, status: 404},
		{path: streamPath + byQuery, header: []string{bearer}, status: 404, ran: "streamComponentExecution"},
		{path: streamPath + byQuery, header: []string{unsigned, bearer, "X-Sdk-Signature: x"}, status: 401, reason: "missing_api_key"},
		{path: streamPath + byQuery, header: []string{unsigned}, status: 401, reason: "missing_session"},
	} {
		got := s.do(t, "GET", cmp.Or(tc.path, runsPath), "", tc.header...)
		ran := strings.Join(s.operations.taken(), ", ")
		if got.status != tc.status || ran != tc.ran || !strings.Contains(got.body, tc.reason) {
			t.Errorf("%s %q: got %d %s, ran %q; want %d %s, %q", tc.path, tc.header, got.status, got.body, ran, tc.status, tc.reason, tc.ran)
		}
	}
}

func TestPersonRequestUsesWorkspaceOfPath(t *testing.T) {
	s := people(t)
	for _, id := range []string{executionID, strings.ToUpper(executionID)} {
		s.do(t, "GET", "/v1/workspaces/"+id, "", "Authorization: Bearer editor")
		if ran := s.operations.taken(); len(ran) != 1 || ran[0] != "getWorkspace as editor of "+executionID {
			t.Errorf("%s: ran %v", id, ran)
		}
	}
	if got := s.do(t, "GET", "/v1/workspaces/x", "", "Authorization: Bearer editor"); got.status != 404 {
		t.Errorf("malformed ID: %d", got.status)
	}
}
