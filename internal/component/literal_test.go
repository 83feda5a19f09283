package component

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weft-automation/weft/internal/kit/fault"
)

// configured is a module that validates its config itself.
type configured struct{ scripted }

func (configured) CheckConfig(config json.RawMessage) []fault.Detail {
	if strings.Contains(string(config), "odd") {
		return []fault.Detail{{Code: "INVALID_INPUT", Message: "is odd", Pointer: "/depth"}}
	}
	return nil
}

func (configured) CheckWhole(input, config json.RawMessage, bound []string) []fault.Detail {
	if strings.Contains(string(input)+string(config), "lone") && len(bound) == 0 {
		return []fault.Detail{{Code: "INVALID_INPUT", Message: "is alone", Pointer: "/input/token"}}
	}
	return nil
}

func (configured) Flow() Flow { return Flow{Ports: []string{"then"}, Trigger: true} }

func TestLiteralsAreCheckedAsFarAsTheyAreKnown(t *testing.T) {
	r, err := NewRegistry(configured{scripted{Descriptor: descriptor(func(d *Descriptor) {
		d.Input = json.RawMessage(`{"type":"object","required":["token","size","query"],"properties":{
			"token":{"type":"string","minLength":4},
			"size":{"type":"integer","minimum":1},
			"mode":{"type":"string","enum":["fast","slow"]},
			"query":{"type":"object","required":["symbol"],"properties":{"symbol":{"type":"string"},"n":{"type":"integer"}}},
			"any":{"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"integer"}}]}}}`)
		d.Config = json.RawMessage(`{"type":"object","properties":{"depth":{"type":["integer","string"]}}}`)
	})}})
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := r.Lookup("PROBE")
	for _, c := range []struct {
		input, config, bound, want string
	}{
		{`{"token":"abcd","size":1,"query":{"symbol":"x"}}`, `{}`, "", ""},
		{`{}`, `{}`, "", "/input/query is required: expected an object; /input/size is required: expected an integer; /input/token is required: expected a string"},
		{`{}`, `{}`, "token size query.symbol", ""},
		{`{"query":{}}`, `{}`, "token size", "/input/query/symbol is required: expected a string"},
		{`{"query":{}}`, `{}`, "token size query.symbol", ""},
		{`{"size":"x","mode":"no"}`, `{}`, "token size query", `/input/mode must be one of "fast", "slow", got "no"`},
		{`{"token":"a{{env.T}}","size":"{{env.SIZE}}","mode":"{{env.MODE}}","query":{"symbol":"x","n":"{{env.N}}"},"any":["{{env.A}}"]}`, `{"depth":"{{env.D}}"}`, "", ""},
		{`{"token":"abcd","size":"{env}","query":{"symbol":"x"}}`, `{}`, "", "/input/size must be an integer, got a string"},
		{`{"token":"abcd","size":1,"query":{"symbol":"x"}}`, `{"depth":"odd"}`, "", "/config/depth is odd"},
		{`{"token":"lone","size":1,"query":{"symbol":"x"}}`, `{}`, "", "/input/token is alone"},
		{`{"token":"lone","query":{"symbol":"x"}}`, `{}`, "size", ""},
		{`{"token":"lone","size":1,"query":{"symbol":"x"}}`, `{"depth":"odd"}`, "", "/config/depth is odd"},
		{`{"token":"abcd","size":1,"query":{"symbol":"x"}}`, `{"depth":[]}`, "", "/config/depth must be an integer or a string, got an array"},
	} {
		var got []string
		for _, d := range entry.CheckLiterals(json.RawMessage(c.input), json.RawMessage(c.config), strings.Fields(c.bound), nil) {
			got = append(got, d.Pointer+" "+d.Message)
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s %s, %q bound:\ngot  %s\nwant %s", c.input, c.config, c.bound, strings.Join(got, "; "), c.want)
		}
	}
	if flow := entry.Flow(); len(flow.Ports) != 1 || !flow.Trigger {
		t.Errorf("flow %+v", flow)
	}
}
