package workflowfile

import (
	"fmt"
	"strconv"
	"strings"

	yaml "github.com/oasdiff/yaml3"

	"github.com/weft-automation/weft/internal/kit/calendar"
)

// durations are the fields in milliseconds by module, as config/NAME or input/NAME. A file may have
// each of them without Ms, as a duration such as 2d. Everything deeper is data of the workflow.
var durations = map[string][]string{
	"API_CALL":                 {"config/timeoutMs"},
	"DELAY":                    {"config/durationMs", "input/durationMs"},
	"WAIT_FOR_EVM_TRANSACTION": {"input/timeoutMs"},
	"WAIT_FOR_SIGNAL":          {"config/timeoutMs"},
}

// ownDuration is the field of a component itself.
const ownDuration = "timeoutMs"

// retryDurations are the fields of a retry policy.
var retryDurations = []string{"maxElapsedMs", "initialDelayMs", "maxDelayMs"}

// expandDurations replaces the durations of a workflow by milliseconds.
func expandDurations(root *yaml.Node) error {
	if err := expandRetry(root, ""); err != nil {
		return err
	}
	components := field(root, "components")
	if components == nil || components.Kind != yaml.SequenceNode {
		return nil
	}
	for _, one := range components.Content {
		if err := expandDuration(one, ownDuration, "components."+word(one, "id")); err != nil {
			return err
		}
		if err := expandRetry(one, "components."+word(one, "id")+"."); err != nil {
			return err
		}
		for _, place := range durations[word(one, "module")] {
			part, name, _ := strings.Cut(place, "/")
			if err := expandDuration(field(one, part), name, fmt.Sprintf("components.%s.%s", word(one, "id"), part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// expandRetry replaces the durations of the retry policy of a workflow or a component.
func expandRetry(owner *yaml.Node, where string) error {
	for _, name := range retryDurations {
		if err := expandDuration(field(owner, "retry"), name, where+"retry"); err != nil {
			return err
		}
	}
	return nil
}

// expandDuration replaces a duration in an object by the field in milliseconds.
func expandDuration(object *yaml.Node, name, where string) error {
	short := strings.TrimSuffix(name, "Ms")
	value := field(object, short)
	switch {
	case value == nil:
		return nil
	case field(object, name) != nil:
		return fmt.Errorf("line %d: %s: %s and %s are the same field: remove one of them", value.Line, where, short, name)
	}
	milliseconds, err := calendar.ParseDuration(value.Value)
	if err != nil || value.Tag != tagString {
		return fmt.Errorf("line %d: %s.%s: %w; %s takes milliseconds", value.Line, where, short, calendar.ErrDuration, name)
	}
	value.Tag, value.Value = tagNumber, strconv.FormatInt(milliseconds, 10)
	rename(object, short, name)
	return nil
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
