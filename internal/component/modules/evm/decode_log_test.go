package evm

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
)

// transferTopic is the topic of Transfer(address,address,uint256), which EIP-20
// and EIP-721 share.
const transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

func TestEventIsDeterminedByTopics(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const (
		who   = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
		topic = "0x000000000000000000000000d8da6bf26964af9d7eed9e03e53415d37aa96045"
	)
	tokens := []string{"event Transfer(address indexed from, address indexed to, uint256 value)", "event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)", "function f()", "event Other(uint8)"}
	anonymous := []string{"event A(uint8 indexed a, bool b) anonymous", "event B(string indexed a, bytes32 indexed c) anonymous", "event C(uint8 indexed a, bool) anonymous"}
	for name, c := range map[string]struct {
		input object
		want  object
	}{
		"an amount": {
			object{"abi": tokens, "topics": []string{transferTopic, topic, topic}, "data": "0x" + word("5")},
			object{"eventName": "Transfer", "signature": "Transfer(address,address,uint256)", "arguments": []any{who, who, "5"}, "values": object{"from": who, "to": who, "value": "5"}},
		},
		"a token": {object{"abi": tokens, "topics": []string{transferTopic, topic, topic, "0x" + word("7")}, "data": "0x"}, object{"values": object{"from": who, "to": who, "tokenId": "7"}}},
		"upper case": {
			object{"abi": tokens, "topics": []string{"0x" + strings.ToUpper(transferTopic[2:]), topic, topic}, "data": "0x" + strings.ToUpper(word("a"))}, object{"values": object{"from": who, "to": who, "value": "10"}},
		},
		"anonymous": {
			object{"abi": anonymous, "topics": []string{"0x" + strings.Repeat("ab", 32), "0x" + strings.Repeat("cd", 32)}, "data": "0x"},
			object{"eventName": "B", "values": object{"a": object{"hash": "0x" + strings.Repeat("ab", 32)}, "c": "0x" + strings.Repeat("cd", 32)}},
		},
		"anonymous by name": {
			object{"abi": anonymous, "eventName": "C", "topics": []string{"0x" + word("9")}, "data": "0x" + word("1")}, object{"eventName": "C", "arguments": []any{"9", true}, "values": object{"a": "9"}},
		},
		"by signature": {
			object{"abi": tokens, "eventName": "Transfer(address,address,uint)", "topics": []string{transferTopic, topic, topic}, "data": "0x" + word("5")}, object{"eventName": "Transfer"},
		},
		"anonymous behind one that is named": {
			object{"abi": append(anonymous, tokens...), "topics": []string{transferTopic, topic, topic}, "data": "0x" + word("5")}, object{"eventName": "Transfer"},
		},
	} {
		b.gives(t, name, "DECODE_EVM_LOG", c.input, object{}, c.want)
	}
	for name, c := range map[string]struct {
		input   object
		message string
	}{
		"unknown": {
			object{"abi": tokens, "topics": []string{"0x" + word("1")}, "data": "0x"},
			"topics[0]: no event of the abi has this topic: expected " + transferTopic + ", which is Transfer(address,address,uint256), " + transferTopic,
		},
		"unknown next to anonymous events": {object{"abi": anonymous, "topics": []string{}, "data": "0x"}, "topics: the log has no topics, but the abi has no anonymous event without indexed parameters; it has A(uint8,bool), B(string,bytes32), C(uint8,bool)"},
		"ambiguous":                        {object{"abi": anonymous, "topics": []string{"0x" + word("1")}, "data": "0x" + word("1")}, "abi: several anonymous events have 1 indexed parameters; set eventName to one of: A(uint8,bool), C(uint8,bool)"},
		"doesn't match the topics":         {object{"abi": tokens, "topics": []string{transferTopic, topic}, "data": "0x"}, "topics: the event Transfer(address,address,uint256) has 3 indexed parameters, but the log has 1"},
		"no event":                         {object{"abi": []string{"function f()"}, "topics": []string{}, "data": "0x"}, "abi: expected at least one event"},
		"no event of the name":             {object{"abi": tokens, "eventName": "Approval", "topics": []string{}, "data": "0x"}, `eventName: the abi has no event "Approval"; it has Transfer`},
		"another event":                    {object{"abi": tokens, "eventName": "Other", "topics": []string{transferTopic, topic, topic}, "data": "0x"}, "no event of the abi has this topic"},
		"short data":                       {object{"abi": tokens, "topics": []string{transferTopic, topic, topic}, "data": "0x"}, "data, value value: the data ends early"},
		"a topic too wide":                 {object{"abi": tokens, "topics": []string{transferTopic, "0x" + strings.Repeat("f", 64), topic}, "data": "0x" + word("5")}, "topics, value from: expected an address of 20 bytes"},
		"a short topic":                    {object{"abi": tokens, "topics": []string{"0x12"}, "data": "0x"}, "evm-hash"},
		"five topics":                      {object{"abi": tokens, "topics": []string{topic, topic, topic, topic, topic}, "data": "0x"}, "at most 4 items"},
		"half a byte":                      {object{"abi": tokens, "topics": []string{transferTopic}, "data": "0x1"}, "hex-bytes"},
		"a wrong abi":                      {object{"abi": []string{"event E("}, "topics": []string{}, "data": "0x"}, "abi[0]: "},
	} {
		b.refuses(t, name, "DECODE_EVM_LOG", c.input, object{}, c.message)
	}
}

// A response can have a thousand logs, and an ABI ten thousand events. Hashing the events for each
// log would take seconds. The test stores a wrong hash with the event to prove that it isn't
// computed again.
func TestEventsAreHashedOnceForAllLogs(t *testing.T) {
	t.Parallel()
	contract, err := parseABI(json.RawMessage(`["event E(uint8 a)"]`))
	if err != nil {
		t.Fatal(err)
	}
	noted := common.Hash{1}
	contract.events[0].hash = noted
	log := chainLog{Topics: []hash{hash(noted)}, Data: common.FromHex(word("7"))}
	if log.decode(contract); log.EventName == nil || *log.EventName != "E" || jsonOf(t, log.Values) != `{"a":"7"}` {
		t.Errorf("%+v", log)
	}
}

// FuzzLogs checks that any log is rejected or has as many values as its event.
func FuzzLogs(f *testing.F) {
	contract, err := parseABI(json.RawMessage(jsonOf(f, []string{
		"event Transfer(address indexed from, address indexed to, uint256 value)", "event N(string indexed a, bytes b, (uint8 x, int8[] y) indexed c)", "event A(uint8 indexed a, bool b) anonymous", "event B(string s) anonymous",
	})))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{}, []byte{})
	for _, event := range contract.events {
		f.Add(event.hash[:], []byte{1})
		f.Add(append(event.hash[:], make([]byte, 64)...), make([]byte, 96))
	}
	f.Fuzz(func(t *testing.T, first, data []byte) {
		var topics []common.Hash
		for len(first) > 0 && len(topics) < 4 {
			n := min(len(first), common.HashLength)
			topics, first = append(topics, common.BytesToHash(first[:n])), first[n:]
		}
		event, list, err := readLog(contract.events, topics, data)
		if err == nil && len(list) != len(event.inputs) {
			t.Errorf("%s has %d values", event.text, len(list))
		}
	})
}
