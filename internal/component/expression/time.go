package expression

import (
	"time"

	"github.com/expr-lang/expr/ast"

	"github.com/weft-automation/weft/internal/kit/calendar"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// duration is a value that exists only inside of an expression, in milliseconds. Times are strings.
type duration int64

// Costs in steps.
const (
	costOfTime = 8   // reading or writing a time
	costOfZone = 200 // loading a time zone
)

// timeIn returns the time that a string is, if it is one.
func (r *run) timeIn(node ast.Node, value any) (at time.Time, ok bool) {
	text, isText := value.(string)
	// Look before parsing: most strings are something else.
	if !isText || len(text) < len("2026-12-24T18:00:00Z") || len(text) > 64 || text[4] != '-' || text[10]|0x20 != 't' {
		return at, false
	}
	r.spend(node, costOfTime)
	at, err := timestamp.Parse(text)
	return at, err == nil
}

// times returns the times that two strings are, if both are.
func (r *run) times(node ast.Node, a, b string) (first, second time.Time, ok bool) {
	if first, ok = r.timeIn(node, a); ok {
		second, ok = r.timeIn(node, b)
	}
	return first, second, ok
}

// written returns a time in the form of results.
func (r *run) written(node ast.Node, at time.Time) any {
	if !calendar.FourDigits(at.UTC()) {
		r.fail(node, OutOfRange, "%v", calendar.ErrYear)
	}
	r.spend(node, costOfTime)
	r.hold(node, len(timestamp.Layout), 1)
	return timestamp.Of(at).String()
}

func (r *run) lasting(node ast.Node, milliseconds int64) any {
	if milliseconds > calendar.MaxMilliseconds || milliseconds < -calendar.MaxMilliseconds {
		r.fail(node, OutOfRange, "a duration can have at most 10,000 years")
	}
	return duration(milliseconds)
}

// temporal evaluates +, - and / of times and durations. done is false for other operands.
func (r *run) temporal(node *ast.BinaryNode, left, right any) (value any, done bool) {
	a, isA := left.(duration)
	b, isB := right.(duration)
	switch {
	case isA && isB && node.Operator == "+":
		return r.lasting(node, int64(a+b)), true
	case isA && isB && node.Operator == "-":
		return r.lasting(node, int64(a-b)), true
	case isA && isB && node.Operator == "/":
		r.divisor(node, b == 0)
		return r.calculate(node, "/", int64(a), int64(b)), true
	case isB && (node.Operator == "+" || node.Operator == "-"):
		if at, ok := r.timeIn(node, left); ok {
			if node.Operator == "-" {
				b = -b
			}
			return r.moved(node, at, b), true
		}
	case isA && node.Operator == "+":
		if at, ok := r.timeIn(node, right); ok {
			return r.moved(node, at, a), true
		}
	case node.Operator == "-":
		if at, ok := r.timeIn(node, left); ok {
			if from, ok := r.timeIn(node, right); ok {
				return r.lasting(node, at.UnixMilli()-from.UnixMilli()), true
			}
		}
	}
	if isA || isB {
		r.fail(node, WrongType, "%s of a duration needs a time, such as now() or date(text), or another duration; got %s and %s", node.Operator, kind(left), kind(right))
	}
	return nil, false
}

func (r *run) moved(node ast.Node, at time.Time, by duration) any {
	at, err := calendar.Add(at, int64(by), "millisecond", time.UTC)
	if err != nil {
		r.fail(node, OutOfRange, "%v", err)
	}
	return r.written(node, at)
}

// zoneAt returns the time zone that argument i names, or UTC if there is no such argument.
func (c call) zoneAt(i int) *time.Location {
	if len(c.arguments) <= i {
		return time.UTC
	}
	name := c.textAt(i)
	if c.zone == nil || c.zone.String() != name {
		c.spend(c.node, costOfZone)
		zone, err := calendar.Zone(name)
		if err != nil {
			c.fail(c.node, WrongType, "%s: %v", c.what(i), err)
		}
		c.zone = zone
	}
	return c.zone
}

func (c call) timeAt(i int) time.Time {
	at, ok := c.timeIn(c.node, c.arguments[i])
	if !ok {
		c.fail(c.node, WrongType, "%s must be a time, such as now() or date(text), got %s", c.what(i), notTime(c.arguments[i]))
	}
	return at
}

func notTime(value any) string {
	if _, isText := value.(string); isText {
		return "another string"
	}
	return kind(value)
}

// date returns the time in a string.
func (c call) date() any {
	text, zone := c.textAt(0), c.zoneAt(1)
	c.spend(c.node, 4*costOfTime)
	if len(text) > 64 {
		text = ""
	}
	at, err := calendar.Parse(text, zone)
	if err != nil {
		c.fail(c.node, WrongType, "%s: %v", c.what(0), err)
	}
	return c.written(c.node, at)
}

func (c call) duration() any {
	text := c.textAt(0)
	c.spend(c.node, 2*costOfTime+len(text)/perDigits)
	milliseconds, err := calendar.ParseDuration(text)
	if err != nil {
		c.fail(c.node, WrongType, "%s: %v", c.what(0), err)
	}
	return duration(milliseconds)
}

func (c call) plus() any {
	at, n, unit, zone := c.timeAt(0), c.integerAt(1), c.textAt(2), c.zoneAt(3)
	c.spend(c.node, costOfTime)
	at, err := calendar.Add(at, n, unit, zone)
	return c.calculated(at, err, 2)
}

func (c call) startOf() any {
	at, unit, zone := c.timeAt(0), c.textAt(1), c.zoneAt(2)
	c.spend(c.node, costOfTime)
	at, err := calendar.StartOf(at, unit, zone)
	return c.calculated(at, err, 1)
}

// calculated returns the result of a calculation whose argument unit is a unit.
func (c call) calculated(at time.Time, err error, unit int) any {
	switch {
	case err == calendar.ErrUnit:
		c.fail(c.node, WrongType, "%s: %v", c.what(unit), err)
	case err != nil:
		c.fail(c.node, OutOfRange, "%s(): %v", c.name, err)
	}
	return c.written(c.node, at)
}

// format writes a time with strftime conversions.
func (c call) format() any {
	layout := c.textAt(1)
	at := c.timeAt(0).In(c.zoneAt(2))
	c.spend(c.node, costOfTime+len(layout))
	c.hold(c.node, 32+len(layout), 16)
	if !calendar.FourDigits(at) {
		c.fail(c.node, OutOfRange, "format(): in this time zone, the time is not in the years 0 to 9999")
	}
	text, err := calendar.Format(layout, at)
	if err != nil {
		c.fail(c.node, WrongType, "%s: %v", c.what(1), err)
	}
	return text
}
