package evm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/weft-automation/weft/internal/component"
)

type decodeLog struct{ formats }

func (decodeLog) Describe() component.Descriptor {
	return component.Computation{
		Module:   "DECODE_EVM_LOG",
		Category: category,
		Title:    "Decode EVM log",
		Description: "Decodes a transaction log with the events of an ABI. " +
			"A log contains only the hash of an indexed string, bytes, array or tuple, so such a value is an object with a hash field.",
		Input: `"description": "The ABI and the log.", "required": ["abi", "topics", "data"], "properties": {
			` + eventsABIProperty + `,
			"eventName": {"type": "string", "minLength": 1, "maxLength": 4096, "title": "Event name", "description": "The expected event: its name or its full signature, such as Transfer(address,address,uint256). By default, the event is determined from the topics, which can be ambiguous for anonymous events.", "examples": ["Transfer"]},
			"topics": {"type": "array", "maxItems": 4, "items": {"type": "string", "format": "evm-hash"}, "title": "Topics", "description": "The topics of the log, as in a receipt.", "examples": [["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", "0x0000000000000000000000005aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0x000000000000000000000000fb6916095ca1df60bb79ce92ce3ea74c37c5d359"]]},
			"data": {"type": "string", "format": "hex-bytes", "title": "Data", "description": "The data of the log, as in a receipt.", "examples": ["0x00000000000000000000000000000000000000000000000000000000000f4240"]}
		}, "examples": [{"abi": ["event Transfer(address indexed from, address indexed to, uint256 value)"], "topics": ["0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", "0x0000000000000000000000005aaeb6053f3e94c9b9a09f33669435e7ef1beaed", "0x000000000000000000000000fb6916095ca1df60bb79ce92ce3ea74c37c5d359"], "data": "0x00000000000000000000000000000000000000000000000000000000000f4240"}]`,
		Output: `"description": "The event.", "required": ["eventName", "signature", "arguments", "values"], "properties": {
			"eventName": {"type": "string", "title": "Event name", "description": "The name of the event.", "examples": ["Transfer"]},
			"signature": {"type": "string", "title": "Signature", "description": "The signature of the event.", "examples": ["Transfer(address,address,uint256)"]},
			"arguments": {"type": "array", "items": {}, "title": "Arguments", "description": "The values in the order of the event's parameters.", "examples": [["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "1000000"]]},
			"values": {"type": "object", "additionalProperties": {}, "title": "Values", "description": "The values with unique names, by name.", "examples": [{"from": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "to": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359", "value": "1000000"}]}
		}`,
	}.Descriptor()
}

func (decodeLog) Run(_ context.Context, call component.Call) (component.Result, error) {
	input, err := component.Decode[struct {
		ABI             json.RawMessage
		EventName, Data string
		Topics          []string
	}](call.Input)
	if err != nil {
		return component.Result{}, err
	}
	contract, err := parseABI(input.ABI)
	if err != nil {
		return component.Result{}, invalidAt("abi", err)
	}
	data, err := parseBytes(input.Data)
	if err != nil {
		return component.Result{}, invalid("data", err)
	}
	topics := make([]common.Hash, len(input.Topics))
	for i, topic := range input.Topics {
		if topics[i], err = parseHash(topic); err != nil {
			return component.Result{}, invalid(fmt.Sprintf("topics[%d]", i), err)
		}
	}
	events := contract.events
	if input.EventName != "" {
		if events, err = contract.choose("event", input.EventName, events); err != nil {
			return component.Result{}, invalidAt("eventName", err)
		}
	}
	event, list, err := readLog(events, topics, data)
	if err != nil {
		return component.Result{}, err
	}
	return component.Encode(map[string]any{"eventName": event.name, "signature": event.text, "arguments": list, "values": byName(event.inputs, list)})
}

// readLog returns the event of a log and its values. An event that matches the first topic takes
// precedence over an anonymous one.
func readLog(events []signature, topics []common.Hash, data []byte) (signature, []any, error) {
	if len(events) == 0 {
		return signature{}, nil, invalidAt("abi", mismatchf("expected at least one event, such as event Transfer(address indexed from, address indexed to, uint256 value); the abi has none"))
	}
	var fits []signature
	var first error
	for _, event := range events {
		if event.anonymous || len(topics) == 0 || event.hash != topics[0] {
			continue
		}
		if event.indexed() != len(topics)-1 {
			first = invalidAt("topics", mismatchf("the event %s has %d indexed parameters, but the log has %d; declare the same parameters as indexed as in the contract", listed([]signature{event}), event.indexed(), len(topics)-1))
			continue
		}
		list, err := event.arguments(topics[1:], data)
		return event, list, err
	}
	for _, event := range events {
		if event.anonymous && event.indexed() == len(topics) {
			fits = append(fits, event)
		}
	}
	switch len(fits) {
	case 0:
		if first == nil {
			first = unknownEvent(events, topics)
		}
		return signature{}, nil, first
	case 1:
		list, err := fits[0].arguments(topics, data)
		return fits[0], list, err
	}
	return signature{}, nil, invalidAt("abi", mismatchf("several anonymous events have %d indexed parameters; set eventName to one of: %s", len(topics), listed(fits)))
}

func unknownEvent(events []signature, topics []common.Hash) error {
	if len(topics) == 0 {
		return invalidAt("topics", mismatchf("the log has no topics, but the abi has no anonymous event without indexed parameters; it has %s", listed(events)))
	}
	expected := ""
	for i, event := range events[:min(len(events), 4)] {
		if i > 0 {
			expected += ", "
		}
		if event.anonymous {
			expected += fmt.Sprintf("%s, which is anonymous, with %d topics", listed([]signature{event}), event.indexed())
		} else {
			expected += fmt.Sprintf("%s, which is %s", event.hash, listed([]signature{event}))
		}
	}
	if more := len(events) - 4; more > 0 {
		expected += fmt.Sprintf(" or one of %d more", more)
	}
	return invalidAt("topics[0]", mismatchf("no event of the abi has this topic: expected %s; got %s", expected, topics[0]))
}

// arguments returns the values of an event, from the topics and the data, in order.
func (s signature) arguments(topics []common.Hash, data []byte) ([]any, error) {
	plain := slices.DeleteFunc(slices.Clone(s.inputs), func(p parameter) bool { return p.indexed })
	rest, err := decodeParameters(plain, data)
	if err != nil {
		return nil, component.Permanent(component.CodeInvalidInput, "data, value %s", err)
	}
	list := make([]any, len(s.inputs))
	for i, input := range s.inputs {
		if !input.indexed {
			list[i], rest = rest[0], rest[1:]
			continue
		}
		if list[i], err = topicValue(input.kind, topics[0]); err != nil {
			return nil, component.Permanent(component.CodeInvalidInput, "topics, value %s", atPath(err, input.label(i)))
		}
		topics = topics[1:]
	}
	return list, nil
}

// topicValue decodes an indexed value. It returns the hash for types that don't fit a topic.
func topicValue(t *abiType, topic common.Hash) (any, error) {
	switch t.kind {
	case kindBytes, kindString, kindArray, kindSlice, kindTuple:
		return map[string]string{"hash": topic.Hex()}, nil
	}
	return wordValue(t, topic[:])
}
