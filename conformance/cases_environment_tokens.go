package conformance

import (
	"net/http"
	"strings"
	"sync"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

const tokenAddress = "https://auth.shop.example/token"

// client returns a variable that is an access token, with all of its fields and further ones.
func client(more object) object {
	body := object{
		"kind": "oauth2", "tokenUrl": tokenAddress, "clientId": "weft", "clientSecret": "client-canary-55d1", "scope": "a b", "audience": "shop", "clientAuth": "body",
	}
	for name, value := range more {
		body[name] = value
	}
	return body
}

// shownAsToken checks the record of what client returns.
func shownAsToken(t *probe.Trial, v api.EnvironmentVariable, name string) {
	shownAs(t, v, name, nil, true, "")
	t.Equal("kind", string(v.Kind), "oauth2")
	for what, field := range map[string]struct {
		got  *string
		want string
	}{"tokenUrl": {v.TokenURL, tokenAddress}, "clientId": {v.ClientID, "weft"}, "scope": {v.Scope, "a b"}, "audience": {v.Audience, "shop"}, "clientAuth": {v.ClientAuth, "body"}} {
		t.Check(field.got != nil && *field.got == field.want, "%s is %v", what, field.got)
	}
	t.Check(!strings.Contains(string(t.JSON(v)), "canary"), "the client secret is shown: %s", t.JSON(v))
}

func tokenLife(t *probe.Trial) {
	name := variableName()
	shownAsToken(t, setVariable(t, name, client(nil)), name)
	shownAsToken(t, listedVariable(t, name, ofKey(t)), name)
	shownAsToken(t, setVariable(t, name, client(object{"clientSecret": nil, "value": nil})), name)
	shownAsToken(t, probe.Decode[api.EnvironmentVariable](t, deleteVariable(t, name)), name)
	least := setVariable(t, name, object{"kind": "oauth2", "tokenUrl": tokenAddress, "clientId": "weft", "clientSecret": "s"})
	t.Check(least.ClientAuth != nil && *least.ClientAuth == "header" && least.Scope == nil && least.Audience == nil, "%s", t.JSON(least))
	value := setVariable(t, name, object{"kind": "value", "value": "x", "secret": false})
	shownAs(t, value, name, new("x"), false, "")
	t.Check(value.Kind == "value" && value.TokenURL == nil && value.ClientID == nil && value.ClientAuth == nil, "%s", t.JSON(value))
	shownAs(t, setVariable(t, name, object{"kind": nil, "value": "y"}), name, new("y"), false, "")
	deleteVariable(t, name)
}

func memberTokens(t *probe.Trial) {
	boss, name := t.SignIn(), variableName()
	path := "/environment-variables/" + name
	shownAsToken(t, probe.Decode[api.EnvironmentVariable](t, within(t, boss, http.MethodPut, path, client(nil))), name)
	shownAsToken(t, listedVariable(t, name, func(query string) probe.Answer {
		return within(t, boss, http.MethodGet, "/environment-variables"+query, nil)
	}), name)
	t.Equal("reason", probe.Reason(t.Problem(within(t, boss, http.MethodPut, path, object{"value": "x"}), http.StatusConflict, "CONFLICT")), "variable_is_token")
	shownAsToken(t, probe.Decode[api.EnvironmentVariable](t, within(t, boss, http.MethodDelete, path, nil)), name)
}

func tokenFaults(t *probe.Trial) {
	name := variableName()
	put := func(body object) probe.Answer {
		return t.Do(probe.Request{Method: http.MethodPut, Path: variables + "/" + name, Body: t.JSON(body)})
	}
	refused := func(body object, pointer string) {
		t.Equal("pointers of "+string(t.JSON(body)), probe.Pointers(t.Problem(put(body), http.StatusBadRequest, "INVALID_INPUT")), []string{pointer})
	}
	refused(client(object{"tokenUrl": nil}), "/tokenUrl")
	refused(client(object{"clientId": nil}), "/clientId")
	refused(client(object{"clientSecret": nil}), "/clientSecret") // no secret is stored
	refused(client(object{"value": "x"}), "/value")
	refused(client(object{"secret": false}), "/secret")
	refused(client(object{"clientAuth": "query"}), "/clientAuth")
	refused(client(object{"kind": "password"}), "/kind")
	refused(object{"value": "x", "tokenUrl": tokenAddress}, "/tokenUrl")
	refused(object{"kind": nil, "value": "x", "clientSecret": "y"}, "/clientSecret")
	for _, address := range []string{"ftp://auth.shop.example/", "auth.shop.example/token", tokenAddress + "#", "https:///token", "https://10.1.2.3/token", "https://[fd00::1]/token", "https://169.254.169.254/token"} {
		refused(client(object{"tokenUrl": address}), "/tokenUrl")
	}
	setVariable(t, name, client(nil))
	for _, address := range []string{"https://auth.shop.example:8443/token", "https://other.shop.example/token"} {
		refused(client(object{"tokenUrl": address, "clientSecret": nil}), "/clientSecret")
	}
	t.Equal("reason", probe.Reason(t.Problem(put(object{"value": "x"}), http.StatusConflict, "CONFLICT")), "variable_is_token")
	shownAsToken(t, listedVariable(t, name, ofKey(t)), name)
	deleteVariable(t, name)
}

func tokenOfRun(t *probe.Trial) {
	const token = "token-canary-03f7a9"
	var mu sync.Mutex
	var fetched, called []string
	upstream := t.Upstream(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/token" {
			called = append(called, r.Header.Get("Authorization"))
			return
		}
		_ = r.ParseForm()
		user, password, _ := r.BasicAuth()
		fetched = append(fetched, r.Method+" "+user+" "+password+" "+r.PostForm.Encode())
		_, _ = w.Write([]byte(`{"access_token":"` + token + `","token_type":"Bearer","expires_in":3600}`))
	})
	name := variableName()
	setVariable(t, name, object{"kind": "oauth2", "tokenUrl": upstream + "/token", "clientId": "we:ft", "clientSecret": "client-canary-55d1", "scope": "a"})
	call := having(set("call", "API_CALL", object{"apiUrl": upstream + "/orders", "method": "GET"}), "input", object{"headers": object{"Authorization": "Bearer {{env." + name + "}}"}})
	id := draw(t, []object{call}, []string{"start next call"})
	for range 2 {
		run := ran(t, id, "COMPLETED", nil)
		t.Check(!strings.Contains(string(t.JSON(run)), "canary"), "%s", t.JSON(run))
	}
	deleteVariable(t, name)
	gone := ran(t, id, "FAILED", nil)
	t.Check(runError(t, gone.Error).Code == "MISSING_VALUE", "%s", gone.Error)
	mu.Lock()
	defer mu.Unlock()
	t.Equal("requests to the token address", fetched, []string{"POST we%3Aft client-canary-55d1 grant_type=client_credentials&scope=a"})
	t.Equal("calls", called, []string{"Bearer " + token, "Bearer " + token})
}

func tokenMisplaced(t *probe.Trial) {
	name := variableName()
	setVariable(t, name, client(nil))
	defer deleteVariable(t, name)
	for _, c := range []object{
		having(use("c", "RESPOND"), "input", object{"output": "{{env." + name + "}}"}),
		set("c", "TRANSFORM", object{"expression": "env." + name}),
		set("c", "API_CALL", object{"apiUrl": "https://{{env." + name + "}}.shop.example/", "method": "GET"}),
	} {
		p := t.Problem(t.Post(workflows, sketch([]object{c}, nil)), http.StatusUnprocessableEntity, "INVALID_INPUT")
		t.Check(strings.Contains(p.Message, "access token") && strings.HasPrefix(probe.Pointers(p)[0], "/components/0"), "%s", t.JSON(p))
	}
}
