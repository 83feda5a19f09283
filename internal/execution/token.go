package execution

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weft-automation/weft/internal/account/accesstoken"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// callWithTokens calls the component of an attempt, with the access tokens that it refers to. If the
// component's server refuses one of them, it calls once more with a fresh one, whatever the method is: a
// refused call has no effect. called is the call that was made last.
func (a attempt) callWithTokens(ctx context.Context, c component.Call) (result component.Result, called component.Call, stopped bool, err error) {
	called, used, err := a.putTokens(ctx, c)
	if err != nil {
		return result, called, ctx.Err() != nil, err
	}
	start := a.now()
	result, stopped, err = a.call(ctx, called, 0)
	if len(used) == 0 || stopped || !a.entry.Unauthorized(result, err) {
		return result, called, stopped, err
	}
	spent := a.now().Sub(start)
	for name, token := range used {
		if err := a.Tokens.Drop(ctx, a.row.WorkspaceID, name, token.Number); err != nil {
			a.log.WarnContext(ctx, "could not drop an access token", "error", err)
		}
	}
	fresh, now, failed := a.putTokens(ctx, c)
	if failed != nil {
		return component.Result{}, called, ctx.Err() != nil, failed
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(name string) bool { return used[name].Number != now[name].Number }) {
		return result, called, false, err
	}
	for _, token := range used {
		fresh.Secrets = append(fresh.Secrets, token.Value)
	}
	result, stopped, err = a.call(ctx, fresh, spent)
	return result, fresh, stopped, err
}

// putTokens returns a call with the current access tokens in the places of their marks, and the tokens.
func (a attempt) putTokens(ctx context.Context, c component.Call) (component.Call, map[string]accesstoken.Token, error) {
	used := map[string]accesstoken.Token{}
	for _, name := range slices.Sorted(maps.Keys(a.tokens)) {
		if a.Tokens == nil {
			return c, nil, errors.New("this process has no access tokens")
		}
		token, err := a.Tokens.Get(ctx, a.row.WorkspaceID, name)
		if err != nil && ctx.Err() != nil { // as if the component had failed, which says what was sent
			return c, nil, asError(err).With(map[string]string{"sent": egress.SentNo})
		}
		if err != nil {
			return c, nil, unavailable(name, err)
		}
		used[name] = token
		c.PutToken(a.tokens[name], token.Value)
		c.Secrets = append(c.Secrets, token.Replaced...)
	}
	return c, used, nil
}

// tokenDetails are the public details of a variable without an access token.
type tokenDetails struct {
	Class    string `json:"class"`
	Variable string `json:"variable"`
	Status   int    `json:"status,omitempty"` // of the answer of the token address
	Error    string `json:"error,omitempty"`  // its `error`, if it is one of the RFC
	Sent     string `json:"sent"`
}

// unavailable returns the failure of an attempt without an access token. Nothing was sent.
func unavailable(name string, err error) *component.Error {
	details := tokenDetails{Class: "credential", Variable: name, Sent: egress.SentNo}
	failed := &component.Error{Code: component.CodeCredential, Retryable: true, Err: err, Message: fmt.Sprintf("there is no access token of the variable %s: it cannot be read at the moment", name)}
	if why, ok := errors.AsType[*accesstoken.Error](err); ok {
		details.Status, details.Error = why.Status, why.Word
		failed.Retryable, failed.Err = why.Retryable, nil
		failed.Message = fmt.Sprintf("there is no access token of the variable %s: %s", name, why.Reason)
	}
	return failed.With(details)
}
