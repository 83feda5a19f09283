package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry returns an entry of a catalogue with two modules, neither of which this program has.
func entry(module, input, config string) string {
	return `{"module":"` + module + `","title":"Of the service","description":"Does it. And more.","category":"OTHER","input":` + input + `,"config":` + config +
		`,"output":{"type":"object","properties":{"sum":{"type":"string","description":"The sum."}}},"price":2.5,"timeoutMs":5000,"effect":"read","repeat":"pure",` +
		`"executionModes":["COMPONENT","WORKFLOW"],"secretFields":["/input/key"]}`
}

const (
	taken = `{"type":"object","required":["data"],"properties":{"mode":{"type":"string","enum":["fast","slow"],"default":"fast"},` +
		`"data":{"type":"string","description":"What to add.","examples":["a b"]},"count":{"type":"integer","minimum":1},"pin":{"type":"integer","x-secret":true},"key":{"type":"string","x-secret":true},` +
		`"headers":{"type":"object","additionalProperties":{"type":"string"}},"deep":{"type":"object","properties":{"inner":{"type":"object","properties":{"on":{"type":"boolean"}}}}},` +
		`"block":{"type":["string","integer"]},"any":{}}}`
	settings = `{"type":"object","properties":{"url":{"type":"string"},"mode":{"type":"string","enum":["a","b"]}}}`
)

func catalogue(t *testing.T) *service {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		add := entry("ADD_UP", taken, settings)
		switch {
		case r.Method == http.MethodPost:
			fmt.Fprint(w, record("COMPLETED", `{}`, "null"))
		case strings.HasSuffix(r.URL.Path, "/ADD_UP"):
			fmt.Fprint(w, add)
		case strings.HasSuffix(r.URL.Path, "/OPEN"):
			fmt.Fprint(w, entry("OPEN", `{"type":"object","additionalProperties":true}`, `{"type":"object","properties":{"expression":{"type":"string"}}}`))
		case r.URL.Path == "/v1/sdk/components" && r.URL.Query().Get("cursor") == "":
			fmt.Fprintf(w, `{"data":[%s],"nextCursor":"c1","hasMore":true}`, add)
		case r.URL.Path == "/v1/sdk/components":
			fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, strings.Replace(entry("Z_LAST", `{"type":"object"}`, `{"type":"object"}`), "OTHER", "FIRST", 1))
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"NOT_FOUND","detail":"did you mean ADD_UP?","status":404}`)
		}
	})
}

func TestComponentsListsTheServicesCatalogue(t *testing.T) {
	s := catalogue(t)
	got := run(t, s.environ(), "", "components")
	got.check(t, 0, "MODULE  CATEGORY  PRICE  WHAT IT DOES\nZ_LAST  FIRST     2.5    Does it.\nADD_UP  OTHER     2.5    Does it.\n", "")
	run(t, s.environ(), "", "components", "--category", "other").check(t, 0, "ADD_UP  OTHER", "")
	run(t, s.environ(), "", "components", "ls", "--category", "other").check(t, 0, "ADD_UP  OTHER", "")
	run(t, s.environ(), "", "components", "search", "add").check(t, 0, "ADD_UP  OTHER", "")
	run(t, s.environ(), "", "component", "search", "nonsense").check(t, 4, "", `no component contains "nonsense"`)
	run(t, s.environ(), "", "components", "--category", "none").check(t, 4, "", `no components in the category "none"`)

	listed := run(t, s.environ(), "", "components", "--json")
	var all []struct{ Module string }
	if err := json.Unmarshal([]byte(listed.stdout), &all); err != nil || len(all) != 2 || listed.code != 0 {
		t.Errorf("unexpected JSON (%v): %s", err, listed.stdout)
	}
}

func TestAComponentIsDescribed(t *testing.T) {
	s := catalogue(t)
	got := run(t, s.environ(), "", "components", "add-up")
	for _, want := range []string{
		"ADD_UP  Of the service\n\nDoes it. And more.\n", "2.5 credits", "5s", "read: it reads from external systems", "pure: it runs again", "on its own, inside a workflow",
		"  data  (string, required)\n      What to add.\n      Example: \"a b\"\n", "  mode  (string, default \"fast\")\n      One of \"fast\", \"slow\"\n", "  key  (string, secret)\n",
		"  deep  (object)\n      inner  (object)\n          on  (boolean)\n", "Output\n  sum  (string)\n      The sum.\n", "For example\n  weft call ADD_UP data='a b'\n",
	} {
		got.check(t, 0, want, "")
	}
	run(t, s.environ(), "", "components", "ADD_UP", "--json").check(t, 0, `"module": "ADD_UP"`, "")
	run(t, s.environ(), "", "components", "NOTHING").check(t, 4, "", "there is no component \"NOTHING\"; did you mean ADD_UP? To list the components: weft components list\n")
}

func TestComponentsOfThisProgramNeedNoService(t *testing.T) {
	nowhere := []string{"WEFT_CREDENTIALS=/nowhere.json"}
	for _, args := range [][]string{{"components"}, {"components", "HASH"}} {
		run(t, nowhere, "", args...).check(t, 3, "", "start `weft dev` here, or set --credentials or --profile; use --offline")
	}
	run(t, nowhere, "", "components", "--offline").check(t, 0, "UTILITY", "")
	run(t, nowhere, "", "components", "--offline", "HASH").check(t, 0, "weft call HASH ", "")
	run(t, nowhere, "", "components", "--offline", "HASH").check(t, 0, "In a workflow file\n  # Input: ", "")
	if list := run(t, nowhere, "", "components", "--offline").stdout; strings.Index(list, "LOGIC") > strings.Index(list, "HTTP") || strings.Index(list, "HTTP") > strings.Index(list, "EVM") {
		t.Errorf("the categories are in another order: %s", list)
	}
	run(t, nowhere, "", "components", "--offline", "IF").check(t, 0, "It is executed inside a workflow only.", "")
	for _, c := range []struct{ module, want string }{
		{"IF", "\nPorts, in a workflow\n  then   The condition holds.\n  else   The condition does not hold.\n  error  The component failed."},
		{"SWITCH", "  config.cases[].name  The case with this name is the first case that holds.\n  default              No case holds.\n"},
		{"HASH", "  next   The component completed.\n  error  The component failed."},
		{"GET_EVM_ACCOUNT_BALANCE", "  account  (string, required, format evm-address)\n"},
	} {
		run(t, nowhere, "", "components", "--offline", c.module).check(t, 0, c.want, "")
	}
	run(t, nowhere, "", "components", "--offline", "HASH", "--json").check(t, 0, `"digest"`, "")
	run(t, nowhere, "", "components", "--offline", "HUSH").check(t, 4, "", `unknown module "HUSH"; did you mean HASH?`)
}

func TestFieldsOfACallFollowTheServicesSchema(t *testing.T) {
	s := catalogue(t)
	file := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"data=12", "count=12"}, `"config":{},"input":{"count":12,"data":"12"}`},
		{[]string{"data=<a=b>", "url=http://x/?a=b"}, `"config":{"url":"http://x/?a=b"},"input":{"data":"<a=b>"}`},
		{[]string{"data=", "mode=slow", "config.mode=b"}, `"config":{"mode":"b"},"input":{"data":"","mode":"slow"}`},
		{[]string{"headers.A=1", "headers.X-B=true", "deep.inner.on=true"}, `"config":{},"input":{"deep":{"inner":{"on":true}},"headers":{"A":"1","X-B":"true"}}`},
		{[]string{`headers={"A":"1"}`, "headers.B=2"}, `"config":{},"input":{"headers":{"A":"1","B":"2"}}`},
		{[]string{"block=7"}, `"config":{},"input":{"block":7}`},
		{[]string{"block=latest", "any=[1]"}, `"config":{},"input":{"any":[1],"block":"latest"}`},
		{[]string{"key=@" + file, "data=@-"}, `"config":{},"input":{"data":"from stdin","key":"s3cret"}`},
		{[]string{"data=@@home"}, `"config":{},"input":{"data":"@home"}`},
		{[]string{"--input", `{"data":"x","count":1}`, "count=2", "--config", `{"url":"u"}`}, `"config":{"url":"u"},"input":{"count":2,"data":"x"}`},
	} {
		run(t, s.environ(), "from stdin\n", append([]string{"call", "ADD_UP", "--wait=0s", "-o", "json"}, c.args...)...).check(t, 0, "COMPLETED", "")
		seen := s.seen()
		if got, want := seen[len(seen)-1], `POST /v1/sdk/components {`+c.want+`,"module":"ADD_UP"}`; got != want {
			t.Errorf("%q: sent %s, want %s", c.args, got, want)
		}
	}
	run(t, s.environ(), "", "call", "add-up", "--wait=0s", "-o", "json", "data=x").check(t, 0, "COMPLETED", "")
	run(t, s.environ(), "", "call", "ADD_UP", "--wait=0s", "-o", "json", "data={{env.TOKEN}}").check(t, 0, "COMPLETED", "{{env.TOKEN}} is sent unchanged: environment variables have values in workflows only.")
	seen := s.seen()
	if got, want := seen[len(seen)-1], `POST /v1/sdk/components {"config":{},"input":{"data":"{{env.TOKEN}}"},"module":"ADD_UP"}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	for _, place := range []string{"{{env.token}}", "{{ env.TOKEN }}", "{{Env.TOKEN}}"} {
		run(t, s.environ(), "", "call", "ADD_UP", "--wait=0s", "-o", "json", "data="+place).check(t, 0, "COMPLETED", place+" is sent unchanged: environment variables have values in workflows only, where they are written {{env.NAME}}")
	}
	run(t, s.environ(), "", "call", "OPEN", "--wait=0s", "-o", "json", "expression=a + b", "a=1", "b=two", "c.d=3").check(t, 0, "COMPLETED", "")
	seen = s.seen()
	if got, want := seen[len(seen)-1], `POST /v1/sdk/components {"config":{"expression":"a + b"},"input":{"a":1,"b":"two","c.d":3},"module":"OPEN"}`; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestInvalidFieldsAreReportedBeforeAnyRequest(t *testing.T) {
	s := catalogue(t)
	for _, c := range []struct{ word, want string }{
		{"dta=1", "ADD_UP has no field dta; its fields are data, mode, count, pin, key, headers, deep, block, any, url, config.mode"},
		{"data", `"data" does not have the form FIELD=VALUE`},
		{"=1", "does not have the form"},
		{"count=two", `count: expected integer as JSON; got "two"`},
		{"pin=hunter2", "pin: expected integer as JSON"},
		{"deep.outer=1", "deep.outer: unknown field"},
		{"data.x=1", "data.x: data is string, which has no fields"},
		{"key=@/nowhere.txt", "key: open /nowhere.txt"},
	} {
		got := run(t, s.environ(), "", "call", "ADD_UP", c.word)
		got.check(t, 2, "", c.want)
		if strings.Contains(got.stderr, "hunter2") {
			t.Errorf("the output contains a value: %s", got.stderr)
		}
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"data=1", "data=2"}, "data is set twice; pass a list or an object as one JSON value"},
		{[]string{"config.mode=a", "mode=fast", "config.mode=b"}, "config.mode is set twice"},
		{[]string{"url=a", "config.url=b"}, "config.url is set twice"},
		{[]string{"headers.A=1", "headers={}"}, "headers is set twice"},
		{[]string{"headers.A=1", "headers.A=2"}, "headers.A is set twice"},
	} {
		run(t, s.environ(), "", append([]string{"call", "ADD_UP"}, c.words...)...).check(t, 2, "", c.want)
	}
	run(t, s.environ(), "", "call", "ad_up", "a=1").check(t, 4, "", "did you mean ADD_UP?")
	for _, request := range s.seen() {
		if strings.HasPrefix(request, "POST") {
			t.Errorf("the service was called: %s", request)
		}
	}
}

// The command in the last line of a description works.
func TestCommandInADescriptionWorks(t *testing.T) {
	environ, _ := startWeft(t)
	for _, module := range []string{"HASH", "RANDOM_HEX", "RANDOM_UUID", "TRANSFORM"} {
		_, after, found := strings.Cut(run(t, environ, "", "components", module).stdout, "For example\n  weft ")
		if !found {
			t.Fatalf("%s has no example", module)
		}
		line, _, _ := strings.Cut(after, "\n")
		run(t, environ, "", append(unquoted(t, line), "-o", "json")...).check(t, 0, `"status": "COMPLETED"`, "COMPLETED in")
	}
	run(t, environ, "", "components").check(t, 0, "RANDOM_UUID", "")
}
