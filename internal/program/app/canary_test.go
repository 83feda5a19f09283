package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules"
)

// record records the body of a request.
func (b *logBook) record(r *http.Request) { _, _ = io.Copy(b, r.Body) }

// tracing is a lock that a test holds while it exports spans. A process has only one provider of
// spans, that of the service started last.
var tracing sync.Mutex

// startTraced starts a service and records its traces until the test ends. The traces are complete
// once the service has stopped.
func startTraced(t *testing.T) (*whole, *logBook) {
	t.Helper()
	tracing.Lock()
	t.Cleanup(tracing.Unlock)
	traces := &logBook{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { traces.record(r) }))
	t.Cleanup(collector.Close)
	return startWhole(t, func(cfg *Config) { cfg.TraceEndpoint = collector.URL }), traces
}

// The canaries of fields that accept only a private key (EVM and age), and of fields that accept an
// error code.
const (
	canaryCode     = "C4N4RY_5ECRET_9F27"
	canaryKey      = "0x5ec2e7c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c4a9c45ec2"
	canaryIdentity = "AGE-SECRET-KEY-184JMZMVQH3E6U0PSL869004Y3U2NYV7R30EU99CSEDNPH02YUVFSZW44VU"
)

// expectNone checks that the text contains none of the secrets.
func expectNone(t *testing.T, where, text string, secrets []string) {
	t.Helper()
	if len(text) == 0 {
		t.Errorf("%s is empty, so this proves nothing", where)
	}
	for _, secret := range append([]string{canaryCode, canaryKey[2:], canaryIdentity[15:]}, secrets...) {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s contains a secret: ...%.300s", where, text[max(0, at-150):])
		}
	}
}

// expectSpan checks that at least one of the named spans was exported. The other spans may be
// missing, because all services of the process use the same exporter, which drops spans under load.
func expectSpan(t *testing.T, traces *logBook, names ...string) {
	t.Helper()
	told := traces.String()
	if !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(told, name) }) {
		t.Errorf("the traces contain none of %q", names)
	}
}

// exampleInput returns the input of the example in a module's schema.
func exampleInput(t *testing.T, entry *component.Entry) map[string]any {
	t.Helper()
	var schema struct{ Examples []map[string]any }
	if err := json.Unmarshal(entry.Input, &schema); err != nil || len(schema.Examples) == 0 {
		t.Fatalf("%s has no example: %v", entry.Module, err)
	}
	return schema.Examples[0]
}

// Every secret field of every component gets a canary. The upstream echoes the whole request in an
// error.
func TestMT05SecretFieldsOfComponentsDoNotLeak(t *testing.T) {
	t.Parallel()
	var callbacks logBook
	w, traces := startTraced(t)
	n := w.tenant(t, "acme")
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(http.StatusServiceUnavailable) // a 4xx is an output
		_, _ = fmt.Fprintf(rw, "bad request %s %v", r.RequestURI, r.Header)
	}))
	defer upstream.Close()
	var delivered sync.WaitGroup
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		callbacks.record(r)
		delivered.Done()
	}))
	defer receiver.Close()
	registry, err := component.NewRegistry(modules.All(w.app.guard)...)
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]map[string]any{
		"API_CALL":                 {"apiUrl": upstream.URL, "method": "POST"},
		"GET_EVM_ACCOUNT_BALANCE":  {"tokenAddress": "0x0000000000000000000000000000000000000000", "account": "0x0000000000000000000000000000000000000001"},
		"READ_EVM_CONTRACT":        {"contractAddress": "0x0000000000000000000000000000000000000001", "calldata": "0x70a08231"},
		"WAIT_FOR_EVM_TRANSACTION": {"transactionHash": "0x" + strings.Repeat("ab", 32), "timeoutMs": 1000},
		"ON_WEBHOOK":               {},
		"HMAC":                     {"data": "x", "keyEncoding": "hex"},
		"AGE_ENCRYPT":              {"encoding": "hex", "ageRecipient": "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"},
		"AGE_DECRYPT":              {"ciphertext": "no file"},
		"SIGN_EVM_MESSAGE":         {"message": "0x1", "encoding": "hex"},
		"SIGN_EVM_TRANSACTION":     {"transaction": map[string]any{"type": "legacy", "chainId": "1", "nonce": "0", "gasLimit": "21000"}},
		"SIGN_EVM_TYPED_DATA":      {"domain": map[string]any{"name": "x"}, "types": map[string]any{}, "primaryType": "T", "message": map[string]any{}},
	}
	values := map[string]any{"headers": map[string]string{"Authorization": "Bearer " + canary, "X-Key": canary}, "jsonRpcUrl": upstream.URL + "/v3/" + canary + "?key=" + canary,
		"verification": map[string]string{"secret": canary, "header": "X-Mac"}, "privateKey": canaryKey, "ageIdentity": canaryIdentity, "key": canary, "data": canary}
	tried := 0
	for _, descriptor := range registry.List() {
		entry, _ := registry.Lookup(descriptor.Module)
		for _, path := range append(entry.SecretPaths.Input, entry.SecretPaths.Config...) {
			field := strings.Split(path, "/")[1]
			sample, known := samples[entry.Module]
			isNode := strings.Contains(string(entry.Input), `"jsonRpcUrl"`)
			if !known && isNode {
				sample, known = exampleInput(t, entry), true
			}
			if !known || values[field] == nil {
				t.Errorf("%s has a secret at %s: add a sample value for it", entry.Module, path)
				continue
			}
			input, config := map[string]any{}, map[string]any{}
			for name, value := range sample {
				if strings.Contains(string(entry.Input), `"`+name+`"`) {
					input[name] = value
				} else {
					config[name] = value
				}
			}
			if isNode {
				input["jsonRpcUrl"] = upstream.URL
			}
			if strings.Contains(string(entry.Input), `"`+field+`"`) {
				input[field] = values[field]
			} else {
				config[field] = values[field]
			}
			n.runWithSecret(t, map[string]any{"id": "c", "module": entry.Module, "input": input, "config": config})
			tried++
			if !slices.Contains(entry.Modes, component.ModeComponent) {
				continue
			}
			delivered.Add(1)
			answer := n.sign(t, http.MethodPost, "/v1/sdk/components", map[string]any{
				"module": entry.Module, "input": input, "config": config, "waitForMs": 15000, "callbackUrl": receiver.URL,
				"callbackSecret": canary, "callbackHeaders": map[string]string{"X-Token": canary},
			})
			var record api.ComponentExecution
			answer.into(t, &record)
			if !strings.Contains(answer.body, "FAILED") {
				t.Errorf("%s did not fail: %s", entry.Module, answer.body)
			}
			path := "/v1/sdk/components/executions/" + record.ID.String()
			expectNone(t, "the record of "+entry.Module, answer.body, []string{canary})
			expectNone(t, "its stream", n.sign(t, http.MethodGet, path+"/stream", nil).body, []string{canary})
		}
	}
	n.useSecretVariable(t, upstream.URL)
	delivered.Wait()
	if tried < 5 {
		t.Errorf("only %d secret fields were tried", tried)
	}
	secrets := []string{canary, n.key.APIKey, n.key.APISecret, n.token, password}
	expectNone(t, "the list", n.sign(t, http.MethodGet, "/v1/sdk/components/executions", nil).body, secrets)
	expectNone(t, "the callbacks", callbacks.String(), secrets)
	expectNone(t, "the metrics", w.get(t, w.app.OpsURL()+"/metrics"), secrets)
	w.app.Stop(t.Context())
	expectNone(t, "the traces", traces.String(), secrets)
	expectSpan(t, traces, "execute SIGN_EVM_", "execute AGE_ENCRYPT", "execute HMAC")
	expectNone(t, "the log at debug", w.log.String(), secrets)
	expectNone(t, "a dump of every table", dump(t, w.dsn), secrets)
}

// runWithSecret saves a workflow with a component that has secrets, reads the workflow with every
// operation, and runs it.
func (n *tenant) runWithSecret(t *testing.T, c map[string]any) {
	t.Helper()
	made := n.sign(t, http.MethodPost, "/v1/sdk/workflows", map[string]any{"name": "secret", "components": []any{c}})
	var w api.Workflow
	made.into(t, &w)
	path := "/v1/sdk/workflows/" + w.ID.String()
	expectNone(t, "a workflow", made.body, []string{canary})
	expectNone(t, "a workflow", n.sign(t, http.MethodGet, path, nil).body, []string{canary})
	expectNone(t, "its file", n.sign(t, http.MethodGet, "/v1/sdk/workflow-exports/"+w.ID.String(), nil).body, []string{canary})
	expectNone(t, "its component", n.sign(t, http.MethodPost, path+"/components/c", map[string]any{"name": "x"}).body, []string{canary})
	var run api.TriggerResult
	n.sign(t, http.MethodPost, path, map[string]any{"waitForMs": 15000}).into(t, &run)
	if run.Run == nil || !run.Run.Status.Terminal() {
		t.Errorf("the run with %s did not finish: %+v", c["module"], run)
	}
	n.seenRun(t, run)
}

// secretFields visits the paths of a body that are marked as secret.
func (d document) secretFields(node any, at []string, visit func([]string)) {
	s := d.resolve(node)
	if s["x-secret"] == true {
		visit(at)
	}
	properties, _ := s["properties"].(map[string]any)
	for name, property := range properties {
		d.secretFields(property, append(at[:len(at):len(at)], name), visit)
	}
	if s["additionalProperties"] != nil {
		d.secretFields(s["additionalProperties"], append(at[:len(at):len(at)], "X-Any"), visit)
	}
}

// put returns a copy of a value with the element at a path replaced.
func put(value any, at []string, what any) any {
	if len(at) == 0 {
		return what
	}
	copied := map[string]any{}
	if object, ok := value.(map[string]any); ok {
		for name, member := range object {
			copied[name] = member
		}
	}
	copied[at[0]] = put(copied[at[0]], at[1:], what)
	return copied
}

// Every field of a request that openapi.yaml marks as secret gets a canary, in invalid forms and in a
// valid one. So do the headers that authenticate a request.
func TestMT05SecretFieldsOfRequestsDoNotLeak(t *testing.T) {
	t.Parallel()
	w := startWhole(t, nil)
	n := w.tenant(t, "acme")
	doc := specification(t)
	secrets := []string{canary, n.key.APIKey, n.key.APISecret, n.token, password}
	tried, answers := 0, map[string][]int{}
	for _, o := range operations(t) {
		doc.secretFields(o.schema, nil, func(at []string) {
			for _, form := range []any{canary, []string{canary}, map[string]string{"x": canary}, strings.Repeat(canary, 1000), canary + "\x00", "\n" + canary, "é" + canary} {
				body := put(o.body, at, form)
				if o.id == "executeComponent" { // secrets of a callback are accepted with its address only
					body = put(body, []string{"callbackUrl"}, "https://receiver.example/")
				}
				as := o
				as.body = body
				answer := n.send(t, as, nil, "")
				expectNone(t, fmt.Sprintf("the answer of %s to %s as %T", o.id, strings.Join(at, "."), form), answer.body, []string{canary})
				if !o.open && answer.status == http.StatusUnauthorized {
					t.Errorf("%s did not read its body", o.id)
				}
				answers[o.id] = append(answers[o.id], answer.status)
				tried++
			}
		})
		if o.signed || o.person {
			for _, header := range []string{"Authorization", "Cookie", "X-Api-Key", "X-Sdk-Signature", "X-Sdk-Timestamp"} {
				value := map[string]string{"Authorization": "Bearer " + canary, "Cookie": "weft_session=" + canary}[header]
				if value == "" {
					value = canary
				}
				through := &http.Client{Transport: adding{header, value}}
				expectNone(t, "the answer of "+o.id+" to the header "+header, w.ask(t, through, "", o.method, o.path, o.body).body, []string{canary})
			}
		}
	}
	if submits := answers["executeComponent"]; tried < 20 || !slices.Contains(submits, http.StatusOK) || !slices.Contains(submits, http.StatusBadRequest) {
		t.Errorf("unexpected coverage: %d forms tried, with statuses %v", tried, answers)
	}
	// A user whose password is the canary, and the secrets that are shown once.
	var invited api.CreatedInvitation
	n.own(t, http.MethodPost, "/invitations", map[string]any{"email": "eve@example.org", "role": "admin"}).into(t, &invited)
	var session api.Session
	w.ask(t, http.DefaultClient, "", http.MethodPost, "/v1/invitations/accept", map[string]string{"token": invited.Token, "name": "Eve", "password": canary}).into(t, &session)
	var key, next api.CreatedAPIKey
	n.as(t, session.Token, http.MethodPost, "/api-keys", map[string]any{"label": "k", "allowedWorkflowIds": []string{}}).into(t, &key)
	n.as(t, session.Token, http.MethodPost, "/api-keys/"+key.ID.String()+"/rotate", map[string]any{"overlapSeconds": 5}).into(t, &next)
	secrets = append(secrets, invited.Token, session.Token, key.APIKey, key.APISecret, next.APIKey, next.APISecret)
	// The catalogue shows the examples, and the secrets in them. The stream of the workspace does not
	// end, and its events have IDs and states only.
	excluded := []string{"listComponents", "streamWorkspace"}
	for _, o := range operations(t) {
		if o.person && o.method == http.MethodGet && !slices.Contains(excluded, o.id) {
			answer := n.send(t, o, map[string]string{"workspaceId": n.id.String()}, "")
			expectNone(t, "the answer of "+o.id, answer.body, secrets)
		}
	}
	expectNone(t, "the metrics", w.get(t, w.app.OpsURL()+"/metrics"), secrets)
	w.app.Stop(t.Context())
	expectNone(t, "the log at debug", w.log.String(), secrets)
	expectNone(t, "a dump of every table", dump(t, w.dsn), secrets)
}

// adding is a transport that adds a header.
type adding struct{ name, value string }

func (a adding) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(a.name, a.value)
	return http.DefaultTransport.RoundTrip(r)
}
