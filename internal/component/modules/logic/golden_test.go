package logic

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/expr-lang/expr"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
	"github.com/weft-automation/weft/internal/component/graph"
	"github.com/weft-automation/weft/internal/kit/cron"
)

// golden is the result of other implementations for a call. The script next to the file created it.
type golden struct {
	Module        string
	Input, Config json.RawMessage
	Refused       bool
	Output        json.RawMessage // of evaluated modules
	Due           time.Time       // of waits that start at beginning
	Valid         *bool           // whether the input matches the schema in the config
	After         time.Time       // start of a schedule; Next are the times after it
	Times         []time.Time
}

// beginning is the start of each wait.
var beginning = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func goldens(t *testing.T) []golden {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []golden }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

func TestOutcomesMatchOtherImplementations(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, Modules()...)
	for _, c := range goldens(t) {
		entry, _ := bench.Registry.Lookup(c.Module)
		refusal := errors.Join(bench.Registry.Check(c.Module, c.Input, c.Config))
		if faults := entry.CheckLiterals(c.Input, c.Config, nil, nil); refusal == nil && len(faults) > 0 {
			refusal = component.Permanent(component.CodeInvalidInput, "%s %s", faults[0].Pointer, faults[0].Message)
		}
		if (refusal != nil) != c.Refused {
			t.Errorf("%s %s %s: refused is %v, with %v", c.Module, c.Input, c.Config, !c.Refused, refusal)
		}
		if !c.Refused {
			c.holds(t)
		}
	}
}

// holds compares the result of a call with the golden result.
func (c golden) holds(t *testing.T) {
	t.Helper()
	switch {
	case c.Output != nil:
		got, err := Evaluate(c.Module, c.Input, c.Config, Scope{})
		var ours, theirs any
		if err := errors.Join(err, json.Unmarshal(got.Output, &ours), json.Unmarshal(c.Output, &theirs)); err != nil || !reflect.DeepEqual(ours, theirs) || got.Port != graph.PortNext {
			t.Errorf("%s %s %s: %s by %s, %v; want %s", c.Module, c.Input, c.Config, got.Output, got.Port, err, c.Output)
		}
	case !c.Due.IsZero():
		if at, err := Due(c.Module, c.Input, c.Config, beginning); err != nil || !at.Equal(c.Due) {
			t.Errorf("%s %s: %s, %v; want %s", c.Module, c.Config, at, err, c.Due)
		}
	case c.Valid != nil:
		schema, faults := component.NewSchema("", inputSchemaOf(c.Config))
		if len(faults) > 0 {
			t.Errorf("%s: %+v", c.Config, faults)
		} else if faults = schema.Check("", c.Input); (len(faults) == 0) != *c.Valid {
			t.Errorf("%s with %s: %+v, and another implementation says %v", c.Input, c.Config, faults, *c.Valid)
		}
	case len(c.Times) > 0:
		var config struct{ Cron, TimeZone string }
		if err := json.Unmarshal(c.Config, &config); err != nil {
			t.Fatal(err)
		}
		schedule, err := cron.Parse(config.Cron, config.TimeZone)
		if err != nil {
			t.Errorf("%s: %v", c.Config, err)
			return
		}
		at := c.After
		for _, want := range c.Times {
			if at = schedule.Next(at); !at.Equal(want) {
				t.Errorf("%s: %s, want %s", c.Config, at.Format(time.RFC3339), want.Format(time.RFC3339))
				return
			}
		}
	default:
		t.Errorf("%s %s %s: nothing to compare", c.Module, c.Input, c.Config)
	}
}

// order is the input of the following expressions.
const order = `{"amount":1200,"country":"DE","items":[{"sku":"a","count":2,"price":3},{"sku":"b","count":1,"price":6.5}],"tags":["new","vip"],"note":null,"paid":false}`

// The test compares conditions and computations with expr itself (github.com/expr-lang/expr): IF
// and SWITCH must take the same branch, TRANSFORM must return the same value.
func TestExpressionsMatchExpr(t *testing.T) {
	t.Parallel()
	var theirs map[string]any
	if err := json.Unmarshal([]byte(order), &theirs); err != nil {
		t.Fatal(err)
	}
	conditions := []string{
		`amount > 1000`, `amount > 1000 and country in ["DE", "AT"]`, `amount < 1000 or paid`, `not paid && amount >= 1200`, `note == nil`, `note != nil`, `country matches "^[A-Z]{2}$"`, `"vip" in tags`, `len(tags) == 3`,
		`all(items, .count > 0)`, `any(items, .price > 6)`, `none(items, .sku == "c")`, `one(items, .count == 2)`, `sum(items, .count * .price) == 12.5`, `country startsWith "D" and not (country endsWith "D")`,
		`let n = count(items, .count > 1); n == 1`, `note?.deeper ?? true`, `amount * 2 == 2400`, `1 < 2 ? paid : true`, `tags == ["new", "vip"]`,
	}
	says := make([]bool, len(conditions))
	for i, text := range conditions {
		value, err := expr.Eval(text, theirs)
		holds, ok := value.(bool)
		if err != nil || !ok {
			t.Fatalf("%s: expr says %v, %v", text, value, err)
		}
		says[i] = holds
		port := map[bool]string{true: graph.PortThen, false: graph.PortElse}[holds]
		got, err := Evaluate("IF", raw(order), encoded(t, expressionConfig{text}), Scope{})
		if err != nil || got.Port != port || string(got.Output) != `{"result":`+map[bool]string{true: "true", false: "false"}[holds]+`}` {
			t.Errorf("IF %s: %s by %s, %v; expr says %v", text, got.Output, got.Port, err, holds)
		}
	}
	for first := range conditions { // five conditions, starting at each one
		var c switchConfig
		want := graph.PortDefault
		for i := range 5 {
			at := (first + i) % len(conditions)
			name := string(rune('a' + at))
			c.Cases = append(c.Cases, switchCase{name, conditions[at]})
			if says[at] && want == graph.PortDefault {
				want = name
			}
		}
		if got, err := Evaluate("SWITCH", raw(order), encoded(t, c), Scope{}); err != nil || got.Port != want || string(got.Output) != `{"case":"`+want+`"}` {
			t.Errorf("SWITCH %+v: %s by %s, %v; want %s", c, got.Output, got.Port, err, want)
		}
	}
	for _, text := range append(conditions, `amount * 2`, `upper(country) + "-" + string(amount)`, `map(items, .sku)`, `{total: sum(items, .count * .price), skus: map(items, .sku)}`, `filter(items, .price < 5)`, `sortBy(items, .price, "desc")`,
		`reduce(items, #acc + #.count, 0)`, `note ?? "none"`, `tags | join(", ")`, `items[-1].price`, `groupBy(tags, len(#) == 3 ? "three" : "more")`, `1..4`, `[amount, nil, {a: [true]}]`) {
		value, err := expr.Eval(text, theirs)
		if err != nil {
			t.Fatalf("%s: expr says %v", text, err)
		}
		if groups, ok := value.(map[any][]any); ok {
			named := map[string]any{}
			for name, group := range groups {
				named[name.(string)] = group
			}
			value = named
		}
		got, err := Evaluate("TRANSFORM", raw(order), encoded(t, expressionConfig{text}), Scope{})
		var ours, want any
		if err := errors.Join(err, json.Unmarshal(got.Output, &ours), json.Unmarshal(encoded(t, map[string]any{"result": value}), &want)); err != nil || !reflect.DeepEqual(ours, want) {
			t.Errorf("TRANSFORM %s: %s, %v; expr says %v", text, got.Output, err, value)
		}
	}
}

func encoded(t *testing.T, value any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
