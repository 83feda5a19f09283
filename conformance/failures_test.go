package conformance

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/conformance/probe"
	"github.com/weft-automation/weft/gen/api"
)

// failing provokes the errors that the document shows.
type failing struct {
	*probe.Trial
	owner string // the session of an owner
}

// send sends a signed request.
func (f failing) send(method, path, body string, headers ...string) probe.Answer {
	r := probe.Request{Method: method, Path: path, Body: []byte(body), Header: http.Header{}}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return f.Do(r)
}

// as sends a request with a session.
func (f failing) as(token, method, path, body string) probe.Answer {
	return f.Do(probe.Request{Method: method, Path: path, Body: []byte(body), Bearer: token})
}

// made sends a request that must succeed, and returns a field of the response.
func (f failing) made(path, body string) string {
	answer := probe.Decode[object](f.Trial, f.send("POST", path, body))
	id, _ := answer["id"].(string)
	return id
}

// report creates a workflow without input.
func (f failing) report(status string) string {
	return f.made(workflows, `{"name":"Report","status":"`+status+`","components":[{"id":"wait","module":"DELAY","config":{"durationMs":1}}]}`)
}

// hook creates a hook and returns its path.
func (f failing) hook(status string) string {
	return "/v1/hooks/" + f.made("/v1/sdk/hooks", `{"workflowId":"`+f.report("ACTIVE")+`","status":"`+status+`","verification":{"scheme":"standardWebhooks","secret":"`+hookSecret+`","verifyToken":"`+verifyToken+`"}}`)
}

// failures lists how to provoke each error, by response and example of the document.
var failures = map[string]func(failing) probe.Answer{
	"BadRequest": func(f failing) probe.Answer {
		return f.send("POST", probe.Components, `{"module":"RANDOM_UUID","input":{},"config":{},"attempts":4}`)
	},
	"Unauthorized credentials": func(f failing) probe.Answer {
		return f.Do(probe.Request{Path: probe.Components, Sign: probe.Signing{Path: "/another"}})
	},
	"Unauthorized expired": func(f failing) probe.Answer {
		return f.Do(probe.Request{Path: probe.Components, Sign: probe.Signing{Timestamp: probe.Timestamp(time.Now().Add(-42 * time.Second))}})
	},
	"NotFound":      func(f failing) probe.Answer { return f.Get(probe.Executions + "/019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e") },
	"NotAcceptable": func(f failing) probe.Answer { return f.send("GET", probe.Components, "", "Accept", "image/png") },
	"IdempotencyConflict mismatch": func(f failing) probe.Answer {
		f.send("POST", probe.Components, `{"module":"RANDOM_UUID","input":{},"config":{}}`, "Idempotency-Key", "order-4711")
		return f.send("POST", probe.Components, `{"module":"RANDOM_UUID","input":{},"config":{},"attempts":2}`, "Idempotency-Key", "order-4711")
	},
	"SaveConflict": func(f failing) probe.Answer {
		f.send("POST", workflows, `{"key":"taken","name":"x","components":[{"id":"a","module":"RANDOM_UUID"}]}`)
		return f.send("POST", workflows, `{"key":"taken","name":"x","components":[{"id":"a","module":"RANDOM_UUID"}]}`)
	},
	"ReplayConflict noCallback": func(f failing) probe.Answer {
		return f.send("POST", probe.Executions+"/"+f.made(probe.Components, `{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":15000}`)+"/replay-callback", "")
	},
	"ReplayConflict notFinished": func(f failing) probe.Answer {
		id := f.made(probe.Components, `{"module":"WAIT_FOR_EVM_TRANSACTION","input":{"jsonRpcUrl":"https://rpc.example.org","transactionHash":"0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"},"config":{},"callbackUrl":"https://hooks.example.org/weft"}`)
		return f.send("POST", probe.Execution(id)+"/replay-callback", "")
	},
	"PayloadTooLarge": func(f failing) probe.Answer { return f.send("POST", probe.Components, strings.Repeat(" ", 1<<20+1)) },
	"UnsupportedMediaType": func(f failing) probe.Answer {
		return f.send("POST", probe.Components, `{}`, "Content-Type", "text/plain")
	},
	"UnprocessableContent": func(f failing) probe.Answer {
		return f.send("POST", probe.Components, `{"module":"GET_EVM_ACCOUNT_BALANCE","input":{"jsonRpcUrl":"https://rpc.example.org","tokenAddress":7},"config":{}}`)
	},
	"InvalidWorkflow": func(f failing) probe.Answer {
		return f.send("POST", workflows, `{"name":"Balances","components":[{"id":"start","module":"ON_API_CALLED"},{"id":"balance","module":"GET_BALANCE"}],
			"sequenceEdges":[{"id":"e1","from":"start","to":"balance"},{"id":"e2","from":"balance","to":"answr"}]}`)
	},
	"InvalidRunInput": func(f failing) probe.Answer {
		id := f.made(workflows, `{"name":"Balances","inputSchema":{"type":"object","properties":{"accounts":{"type":"array"}},"required":["accounts"]},"components":[{"id":"start","module":"ON_API_CALLED"}]}`)
		return f.send("POST", workflows+"/"+id, `{"input":{}}`)
	},
	"PreconditionFailed": func(f failing) probe.Answer {
		path, body := workflows+"/"+f.report("ACTIVE"), `{"name":"Report","components":[{"id":"wait","module":"DELAY","config":{"durationMs":2}}]}`
		f.send("PUT", path, body, "If-Match", `"1"`)
		return f.send("PUT", path, body, "If-Match", `"1"`)
	},
	"TriggerConflict": func(f failing) probe.Answer { return f.send("POST", workflows+"/"+f.report("PAUSED"), `{}`) },
	"InvalidDelivery": func(f failing) probe.Answer {
		return f.Do(probe.Request{Method: "POST", Path: f.hook("ACTIVE"), Unsigned: true})
	},
	"WrongVerifyToken": func(f failing) probe.Answer { return f.Do(challenging(f.hook("ACTIVE"), "wrong", "1")) },
	"DeliveryConflict": func(f failing) probe.Answer { return f.Do(standard(f.hook("PAUSED"), "msg_1", time.Now(), nil)) },
	"RunFailed": func(f failing) probe.Answer {
		workflow := f.made(workflows, `{"name":"Failing","components":[{"id":"end","module":"FAIL","config":{"code":"STOPPED","message":"stopped"}}]}`)
		id := f.made("/v1/sdk/hooks", `{"workflowId":"`+workflow+`","respond":true,"verification":{"scheme":"standardWebhooks","secret":"`+hookSecret+`"}}`)
		return f.Do(standard("/v1/hooks/"+id, "msg_1", time.Now(), nil))
	},
	"EncodedDelivery": func(f failing) probe.Answer {
		request := standard(f.hook("ACTIVE"), "msg_1", time.Now(), []byte("{}"))
		request.Header.Set("Content-Encoding", "br")
		return f.Do(request)
	},
	"TooManyRequests second": func(f failing) probe.Answer {
		slow, err := f.Target().NewWorkspace(f.Context(), probe.Terms{Plan: "growth", RPS: new(int32(1))})
		f.NoError("workspace", err)
		for {
			if answer := f.Do(probe.Request{Path: "/v1/sdk/limits", Sign: probe.Signing{As: &slow}, Once: true}); answer.Status != http.StatusOK {
				return answer
			}
		}
	},
	"NotSignedIn": func(f failing) probe.Answer { return f.as("no-such-token", "GET", "/v1/workspaces", "") },
	"WrongCredentials": func(f failing) probe.Answer {
		return f.Do(probe.Request{Method: "POST", Path: "/v1/sessions", Unsigned: true, Body: []byte(`{"email":"nobody@example.org","password":"wrong horse"}`)})
	},
	"PaymentRequired exhausted": func(f failing) probe.Answer {
		poor, err := f.Target().NewWorkspace(f.Context(), probe.Terms{Plan: "starter"})
		f.NoError("workspace", err)
		return f.Do(probe.Request{Method: "POST", Path: probe.Components, Body: []byte(`{"module":"RANDOM_UUID","input":{},"config":{}}`), Sign: probe.Signing{As: &poor}})
	},
	"PaymentRequired storage": func(f failing) probe.Answer {
		full, err := f.Target().NewWorkspace(f.Context(), probe.Terms{Plan: "enterprise", Paid: 5, Storage: new(int64(1024))})
		f.NoError("workspace", err)
		for {
			answer := f.Do(probe.Request{Method: "POST", Path: probe.Components, Body: []byte(`{"module":"RANDOM_UUID","input":{},"config":{},"waitForMs":15000}`), Sign: probe.Signing{As: &full}})
			if answer.Status != http.StatusOK {
				return answer
			}
		}
	},
	"PaymentRequired max": func(f failing) probe.Answer {
		return f.send("POST", probe.Components, `{"module":"API_CALL","input":{"headers":{}},"config":{"apiUrl":"https://api.example.org","method":"GET"},"maxCredits":1.5}`)
	},
	"Forbidden role": func(f failing) probe.Answer {
		return f.as(f.SignInAs(*f.Target().Viewer), "GET", probe.Workspace(f.Target().WorkspaceID)+"/audit-events", "")
	},
	"Forbidden workflow": func(f failing) probe.Answer {
		_, restricted := newKeyOf(f.Trial, f.owner, "Checkout", f.report("ACTIVE"))
		return f.Do(probe.Request{Path: workflows + "/" + f.report("ACTIVE"), Sign: probe.Signing{As: &restricted}})
	},
	"Forbidden cross": func(f failing) probe.Answer {
		return f.Do(probe.Request{Method: "POST", Path: "/v1/sessions", Unsigned: true, Body: []byte(`{}`), Header: http.Header{"Sec-Fetch-Site": {"cross-site"}}})
	},
	"Conflict": func(f failing) probe.Answer {
		fresh, err := f.Target().NewWorkspace(f.Context(), probe.Terms{Plan: "growth"})
		f.NoError("workspace", err)
		token, path := f.SignInAs(fresh), probe.Workspace(fresh.WorkspaceID)+"/members"
		for _, member := range probe.Decode[api.MemberPage](f.Trial, f.as(token, "GET", path, "")).Data {
			if member.Role == api.RoleOwner {
				return f.as(token, "DELETE", path+"/"+member.UserID.String(), "")
			}
		}
		return probe.Answer{}
	},
	"Failure method": func(f failing) probe.Answer { return f.send("DELETE", probe.Components, "") },
	"Failure headers": func(f failing) probe.Answer {
		return f.Do(probe.Request{Path: probe.Components, Header: manyHeaders()})
	},
	"Failure target": func(f failing) probe.Answer { return f.Get(probe.Components + "?cursor=" + strings.Repeat("a", 8192)) },
}

// varies lists the fields of an error that differ on each request.
var varies = []string{"instance", "requestId", "runId", "expectedMessageSha256", "serverTime", "availableCredits", "reservedCredits", "nextReleaseAt", "nextResetAt"}

// seldom lists errors that a request cannot provoke reliably. The test checks that the source of
// the service contains the texts of these errors.
var seldom = []string{"IdempotencyConflict inFlight", "TooManyRequests authentications", "TooManyAttempts", "ServiceUnavailable", "Failure internal"}

// The examples of errors in the document must equal the responses of the service.
func TestEveryExampleOfAFailureIsWhatIsSaid(t *testing.T) {
	behind := target(t)
	if !behind.Offers(probe.NeedWorkspace) || !behind.Offers(probe.NeedViewer) {
		t.Log("failures are provoked in workspaces that are made for it")
		return
	}
	shown := shownFailures(t)
	err := probe.Run(t.Context(), behind, func(trial *probe.Trial) {
		f := failing{trial, trial.SignIn()}
		for name, provoke := range failures {
			said, want := object{}, shown[name]
			trial.NoError(name, json.Unmarshal(provoke(f).Body, &said))
			if want == nil {
				t.Errorf("the document has no %s", name)
				continue
			}
			for _, member := range varies {
				delete(said, member)
				delete(want, member)
			}
			if !reflect.DeepEqual(said, want) {
				t.Errorf("%s: said is\n%s\nshown is\n%s", name, trial.JSON(said), trial.JSON(want))
			}
			delete(shown, name)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	source := sourceOf(t, "../internal")
	for _, name := range seldom {
		if detail, _ := shown[name]["detail"].(string); detail == "" || !strings.Contains(source, detail) {
			t.Errorf("%s: nothing says %q", name, detail)
		}
		delete(shown, name)
	}
	if len(shown) > 0 {
		t.Errorf("nothing provokes %v", slices.Sorted(maps.Keys(shown)))
	}
}

// shownFailures returns the examples of error responses in the document.
func shownFailures(t *testing.T) map[string]object {
	t.Helper()
	var document struct {
		Components struct {
			Responses map[string]struct {
				Content map[string]struct {
					Example  object
					Examples map[string]struct{ Value object }
				}
			}
		}
	}
	if err := json.Unmarshal(api.SpecJSON(), &document); err != nil {
		t.Fatal(err)
	}
	shown := map[string]object{}
	for name, response := range document.Components.Responses {
		content := response.Content["application/problem+json"]
		if content.Example != nil {
			shown[name] = content.Example
		}
		for example, member := range content.Examples {
			shown[name+" "+example] = member.Value
		}
	}
	return shown
}

// sourceOf returns the source of all files in a folder except tests.
func sourceOf(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
