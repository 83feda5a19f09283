package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/weft-automation/weft/gen/api"
)

// register records what requests have created, so that End can remove it.
type register struct {
	mu    sync.Mutex
	undos [len(creations) + 1][]Request // by the index in creations; the sessions are last
	atEnd []func(context.Context) error
}

// creations lists the operations that create something that stays active, in the order in which End
// removes it: schedules and hooks before their workflows.
var creations = [...]creation{
	{"createSchedule", ofID},
	{"createHook", ofID},
	{"createWorkflow", ofID},
	{"setEnvironmentVariable", itself},
	{"setWorkspaceEnvironmentVariable", itself},
	{"createInvitation", ofID},
	{"acceptInvitation", ofMember},
	{"createApiKey", ofID},
	{"rotateApiKey", ofSuccessor},
}

// creation is an operation with the function that returns the path to DELETE, or "" if
// there is nothing to remove.
type creation struct {
	operation string
	undo      func(path string, body []byte) string
}

// creates reports whether the operation creates something that End removes.
func creates(operation *Operation) bool {
	return operation != nil && (operation.SignsIn() || slices.ContainsFunc(creations[:], func(c creation) bool { return c.operation == operation.ID }))
}

func itself(path string, _ []byte) string { return path }

func ofID(path string, body []byte) string {
	var made struct{ ID string }
	if json.Unmarshal(body, &made) != nil || made.ID == "" {
		return ""
	}
	return path + "/" + made.ID
}

// ofSuccessor returns the path of the key that replaces a rotated one.
func ofSuccessor(path string, body []byte) string {
	workspace, _, _ := strings.Cut(path, "/api-keys/")
	return ofID(workspace+"/api-keys", body)
}

// ofMember returns the path of the member who accepted an invitation. Cases invite only new people,
// who have one workspace.
func ofMember(_ string, body []byte) string {
	var session api.Session
	if json.Unmarshal(body, &session) != nil || len(session.Workspaces) != 1 {
		return ""
	}
	return Workspace(session.Workspaces[0].ID.String()) + "/members/" + session.User.ID.String()
}

// note records what a request has created.
func (made *register) note(operation *Operation, r Request, answer Answer) {
	if !creates(operation) || answer.Status >= http.StatusMultipleChoices {
		return
	}
	made.mu.Lock()
	defer made.mu.Unlock()
	add := func(rank int, undo Request) {
		undo.Method, undo.Unchecked = http.MethodDelete, true
		made.undos[rank] = append(made.undos[rank], undo)
	}
	var session api.Session
	if operation.SignsIn() && json.Unmarshal(answer.Body, &session) == nil {
		add(len(creations), Request{Path: Current, Bearer: session.Token})
	}
	path, _, _ := strings.Cut(r.Path, "?")
	for rank, c := range creations {
		if c.operation != operation.ID {
			continue
		}
		if undo := c.undo(path, answer.Body); undo != "" {
			add(rank, Request{Path: undo, Bearer: r.Bearer, Sign: Signing{As: r.Sign.As}})
		}
	}
}

// AtEnd registers a function that removes what was created without a request. End calls it last.
func (t *Target) AtEnd(remove func(context.Context) error) {
	t.made.mu.Lock()
	defer t.made.mu.Unlock()
	t.made.atEnd = append(t.made.atEnd, remove)
}

// End removes what requests to the target have created and what is still active. It deletes
// schedules, hooks and variables, archives workflows, revokes invitations and keys, removes members,
// and signs out. The error lists what is left.
func (t *Target) End(ctx context.Context) error {
	t.signInToRemove(ctx) // before the snapshot, so that the session is in it
	t.made.mu.Lock()
	undos, atEnd := t.made.undos, t.made.atEnd
	t.made.undos, t.made.atEnd = [len(creations) + 1][]Request{}, nil
	t.made.mu.Unlock()
	var left []error
	for rank := range undos {
		left = append(left, t.removeAll(ctx, undos[rank])...)
	}
	for _, remove := range atEnd {
		left = append(left, remove(ctx))
	}
	return errors.Join(left...)
}

// signInToRemove signs the owner in if remove will need that.
func (t *Target) signInToRemove(ctx context.Context) {
	t.made.mu.Lock()
	all := slices.Concat(t.made.undos[:]...)
	t.made.mu.Unlock()
	if slices.ContainsFunc(all, t.needsOwner) {
		trial := &Trial{ctx: ctx, target: t, address: anyAddress()}
		_ = Caught(func() { trial.SignIn() }) // remove reports the error
	}
}

// needsOwner reports whether the owner's session removes something.
func (t *Target) needsOwner(undo Request) bool {
	return t.AdminPassword != "" && strings.HasPrefix(undo.Path, Workspace(t.WorkspaceID)+"/")
}

// removeAll sends the requests, several in parallel, and returns the errors of those that failed.
func (t *Target) removeAll(ctx context.Context, undos []Request) (left []error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 8)
	done := map[string]bool{}
	for _, undo := range undos {
		id := undo.Path + " " + undo.Bearer
		if done[id] {
			continue // a variable that was set twice, or a repeat with the same Idempotency-Key
		}
		done[id] = true
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := t.remove(ctx, undo); err != nil {
				mu.Lock()
				defer mu.Unlock()
				left = append(left, fmt.Errorf("%s: %w", undo.name(), err))
			}
		})
	}
	all.Wait()
	return left
}

// remove sends the request. In the target's own workspace it uses the target's key or its owner's
// session, because those of the case may be revoked.
func (t *Target) remove(ctx context.Context, undo Request) error {
	if undo.Sign.As != nil && undo.Sign.As.WorkspaceID == t.WorkspaceID {
		undo.Sign.As = nil
	}
	trial := &Trial{ctx: ctx, target: t, address: anyAddress()}
	return Caught(func() {
		if t.needsOwner(undo) {
			undo.Bearer = trial.SignIn()
		}
		answer := trial.Do(undo)
		gone := answer.Status == http.StatusNotFound || answer.accepted() || undo.Path == Current && answer.Status == http.StatusUnauthorized
		trial.Check(answer.Status == http.StatusOK || gone, "got %d: %s", answer.Status, answer.Body)
	})
}

// accepted reports whether a revocation was rejected because the invitation was accepted. Its member is
// removed separately.
func (a Answer) accepted() bool {
	var problem api.Problem
	return a.Status == http.StatusConflict && json.Unmarshal(a.Body, &problem) == nil && Reason(problem) == "invitation_accepted"
}
