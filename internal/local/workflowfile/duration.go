package workflowfile

import (
	"strconv"
	"strings"
	"time"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/calendar"
)

// durations are the fields in milliseconds by module, as config/NAME or input/NAME. A file may have
// each of them without Ms, as a duration such as 2d. Everything deeper is data of the workflow.
var durations = map[string][]string{
	"API_CALL":                 {"config/timeoutMs"},
	"DELAY":                    {"config/durationMs", "input/durationMs"},
	"REPEAT":                   {"config/delayMs", "config/maxDurationMs"},
	"WAIT_FOR_EVM_TRANSACTION": {"input/timeoutMs"},
	"WAIT_FOR_SIGNAL":          {"config/timeoutMs"},
}

// ownDuration is the field of a component itself.
const ownDuration = "timeoutMs"

// rootDuration is the field of a workflow itself.
const rootDuration = "deadlineMs"

// retryDurations are the fields of a retry policy.
var retryDurations = []string{"maxElapsedMs", "initialDelayMs", "maxDelayMs"}

// expandDurations replaces the durations of a workflow by milliseconds.
func (r *reading) expandDurations(root *yaml.Node) {
	r.expandRetry(root, "")
	r.expandDuration(root, rootDuration, "")
	components := field(root, "components")
	if components == nil || components.Kind != yaml.SequenceNode {
		return
	}
	for _, one := range components.Content {
		where := "components." + word(one, "id")
		r.expandDuration(one, ownDuration, where)
		r.expandRetry(one, where+".")
		for _, place := range durations[word(one, "module")] {
			part, name, _ := strings.Cut(place, "/")
			r.expandDuration(field(one, part), name, where+"."+part)
		}
	}
}

// expandRetry replaces the durations of the retry policy of a workflow or a component.
func (r *reading) expandRetry(owner *yaml.Node, where string) {
	for _, name := range retryDurations {
		r.expandDuration(field(owner, "retry"), name, where+"retry")
	}
}

// expandDuration replaces a duration in an object by the field in milliseconds.
func (r *reading) expandDuration(object *yaml.Node, name, where string) {
	short := strings.TrimSuffix(name, "Ms")
	value := field(object, short)
	given := field(object, name)
	switch {
	case value == nil && given != nil && given.Tag == tagString:
		if milliseconds, err := calendar.ParseDuration(given.Value); err == nil {
			r.fault(given, where+"."+name, "%s takes milliseconds without a unit: write %s: %s", name, short, given.Value)
			given.Tag, given.Value = tagNumber, strconv.FormatInt(milliseconds, 10)
		}
		return
	case value == nil:
		return
	case given != nil:
		r.fault(value, where, "%s and %s are the same field: remove one of them", short, name)
		remove(object, short)
		return
	}
	milliseconds, err := calendar.ParseDuration(value.Value)
	if err != nil || value.Tag != tagString {
		r.fault(value, where+"."+short, "%s; %s takes milliseconds", calendar.ErrDuration, name)
		milliseconds = time.Hour.Milliseconds() // any, so that the field isn't missing
	}
	value.Tag, value.Value = tagNumber, strconv.FormatInt(milliseconds, 10)
	r.rename(object, short, name)
}

// shortenDurations replaces the milliseconds of a component by durations.
func shortenDurations(component *yaml.Node) {
	shortenDuration(component, ownDuration)
	shortenRetry(component)
	for _, place := range durations[word(component, "module")] {
		part, name, _ := strings.Cut(place, "/")
		shortenDuration(field(component, part), name)
	}
}

// shortenRetry replaces the milliseconds of the retry policy of a workflow or a component.
func shortenRetry(owner *yaml.Node) {
	for _, name := range retryDurations {
		shortenDuration(field(owner, "retry"), name)
	}
}

// shortenDuration replaces a field in milliseconds by a duration, unless a file with the duration would
// not be read as the same.
func shortenDuration(object *yaml.Node, name string) {
	value, short := field(object, name), strings.TrimSuffix(name, "Ms")
	if value == nil || value.Tag != tagNumber || field(object, short) != nil {
		return
	}
	milliseconds, err := strconv.ParseInt(value.Value, 10, 64)
	if err != nil || milliseconds < 0 || milliseconds > calendar.MaxMilliseconds || strconv.FormatInt(milliseconds, 10) != value.Value {
		return
	}
	value.Tag, value.Value = tagString, calendar.FormatDuration(milliseconds)
	rename(object, name, short)
}

// rename changes the name of a field.
func rename(object *yaml.Node, from, to string) {
	for i := 0; i < len(object.Content); i += 2 {
		if object.Content[i].Value == from {
			object.Content[i].Value = to
		}
	}
}
