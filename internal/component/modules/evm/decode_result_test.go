package evm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/kit/strictjson"
)

func TestResultHasValuesByPositionAndName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	decode := func(function, data string, want object) {
		t.Helper()
		b.gives(t, function, "DECODE_EVM_FUNCTION_RESULT", object{"abi": []string{function}, "encodedResult": data}, object{"functionName": "f"}, want)
	}
	decode("function f() returns (uint8 a, bool, address who, int16 n)", "0x"+word("ff")+word("1")+word("d8da6bf26964af9d7eed9e03e53415d37aa96045")+strings.Repeat("f", 64),
		object{"0": "255", "1": true, "2": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "3": "-1", "values": object{"a": "255", "who": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "n": "-1"}})
	decode("function f() returns (uint8 a, uint8 a)", "0x"+word("1")+word("2"), object{"0": "1", "1": "2", "values": object{}})
	decode("function f() returns ((uint8 a, bytes b) p, (uint8, bool)[] list)", "0x"+word("40")+word("c0")+word("1")+word("40")+word("1")+rightPadded("ff")+word("1")+word("7")+word("1"),
		object{"0": object{"a": "1", "b": "0xff"}, "1": []any{[]any{"7", true}}, "values": object{"p": object{"a": "1", "b": "0xff"}, "list": []any{[]any{"7", true}}}})
	decode("function f()", "0x", object{"values": object{}})
	decode("function f() returns (string s)", "0x"+word("20")+word("3")+rightPadded("e282ac")+strings.Repeat("0", 64), object{"0": "€"}) // with trailing data
}

func TestOverloadsWithEqualOutputsNeedNoSignature(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	input := object{"abi": []string{"function f(uint8) returns (bool)", "function f() returns (bool ok)", "function g() returns (bool)", "function g(bool) returns (uint8)"}, "encodedResult": "0x" + word("1")}
	b.gives(t, "the same", "DECODE_EVM_FUNCTION_RESULT", input, object{"functionName": "f"}, object{"0": true})
	b.refuses(t, "others", "DECODE_EVM_FUNCTION_RESULT", input, object{"functionName": "g"}, `"g" is overloaded; use one of the full signatures: g(), g(bool)`)
	b.gives(t, "by signature", "DECODE_EVM_FUNCTION_RESULT", input, object{"functionName": "g(bool)"}, object{"0": "1"})
	b.refuses(t, "none", "DECODE_EVM_FUNCTION_RESULT", input, object{"functionName": "h"}, `functionName: the abi has no function "h"`)
	b.refuses(t, "no name", "DECODE_EVM_FUNCTION_RESULT", input, object{}, "is required")
	b.refuses(t, "no bytes", "DECODE_EVM_FUNCTION_RESULT", object{"abi": []string{"function f()"}, "encodedResult": "0x1"}, object{"functionName": "f"}, "hex-bytes")
}

func TestValueThatDoesNotFitItsTypeIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct{ returns, data, message string }{
		{"uint8 a", word("100"), "encodedResult, return value a: expected uint8, 0 to 255, got the word 0x"},
		{"int8", word("80"), "return value [0]: expected int8, -128 to 127, got the word"},
		{"bool", word("2"), "expected a bool, 0 or 1"},
		{"bool", rightPadded("1"), "expected a bool, 0 or 1"},
		{"address", word("1d8da6bf26964af9d7eed9e03e53415d37aa96045"), "expected an address of 20 bytes"},
		{"bytes4", rightPadded("deadbeef01"), "expected bytes4 of 4 bytes"},
		{"function", strings.Repeat("1", 64), "expected function of 24 bytes"},
		{"uint256", word("1")[2:], "the data ends early: 32 bytes expected at byte 0, 31 left"},
		{"uint8, bool b", word("1"), "return value b: the data ends early: 32 bytes expected at byte 32, 0 left"},
		{"uint8", "", "encodedResult: it is empty, but f() returns uint8: check that the contract is at this address on this chain"},
		{"string", word("20") + word("2") + rightPadded("c328"), "the string is not valid UTF-8 or contains NUL; declare it as bytes"},
		{"string", word("20") + word("2") + rightPadded("6100"), "the string is not valid UTF-8"},
		{"bytes", word("20") + word("21") + rightPadded("01"), "return value [0]: the data ends early: 33 bytes of bytes expected at byte 64, 32 left"},
		{"bytes", word("ffffff"), "the data has an offset beyond its end"},
		{"bytes", word("40"), "the data has an offset beyond its end"},
		{"bytes", rightPadded("f"), "the data has an offset beyond its end"},
		{"bytes", word("8000000000000000"), "the data has an offset beyond its end"},
		{"bytes", word("20") + strings.Repeat("f", 64), "the data has a length beyond its end"},
		{"uint256[] list", word("20") + word("2") + word("1"), "return value list: the data ends early: 64 bytes expected at byte 64 for an array of 2 items, 32 left"},
		{"uint256[]", word("20") + word("7fffffffffffffff"), "the data has a length beyond its end"},
		{"uint256[32768][1]", word("0"), "the data ends early"},
		{"(bool ok)[] list", word("20") + word("2") + word("1") + word("2"), "return value list[1].ok: expected a bool"},
	} {
		b.refuses(t, c.returns, "DECODE_EVM_FUNCTION_RESULT", object{"abi": []string{"function f() returns (" + c.returns + ")"}, "encodedResult": "0x" + c.data}, object{"functionName": "f"}, c.message)
	}
}

// Self-referencing data would expand to unbounded output: an array of arrays whose n offsets all
// point to the same data has n^depth items.
func TestSelfReferencingDataIsRejectedQuickly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	// At each level, all offsets point to the next level; the last level is a single word.
	levels := func(depth int, count int64, between string) string {
		length := strconv.FormatInt(count, 16)
		level := word(length) + strings.Repeat(word(strconv.FormatInt(32*count, 16)), int(count)) + between
		return word("20") + strings.Repeat(level, depth) + word("1") + word("7")
	}
	bombs := map[string]struct{ returns, data string }{
		"arrays of arrays":       {"uint256" + strings.Repeat("[]", 15), levels(14, 100, "")},
		"arrays of tuples":       {"((((uint256[] a)[] b)[] c)[] d)[] e", levels(4, 200, word("20"))},
		"fixed arrays":           {"bytes[100][100][100]", strings.Repeat(word("0"), 4000)},
		"one text in all places": {"string[]", word("20") + word("fa0") + strings.Repeat(word("1f400"), 4000) + word("4000") + strings.Repeat("61", 0x4000)},
	}
	for name, bomb := range bombs {
		b.refuses(t, name, "DECODE_EVM_FUNCTION_RESULT", object{"abi": []string{"function f() returns (" + bomb.returns + ")"}, "encodedResult": "0x" + bomb.data}, object{"functionName": "f"}, "the data refers to the same bytes too many times")
	}
}

// The output repeats the names of a tuple's components for each tuple, so a few bytes of data can
// expand to a large output. Such an output is rejected.
func TestOversizedOutputIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	returns := "(bool " + strings.Repeat("n", maxName) + ")[] list"
	data := word("20") + word("1770") + strings.Repeat(word("1"), 6000)
	_, failed := b.compute(t, "DECODE_EVM_FUNCTION_RESULT", object{"abi": []string{"function f() returns (" + returns + ")"}, "encodedResult": "0x" + data}, object{"functionName": "f"})
	if failed == nil || failed.Code != component.CodeOutputTooLarge {
		t.Errorf("long names: %v", failed)
	}
	b.refuses(t, "longer names", "DECODE_EVM_FUNCTION_RESULT", object{"abi": []string{"function f() returns (bool " + strings.Repeat("n", maxName+1) + ")"}, "encodedResult": "0x" + word("1")}, object{"functionName": "f"}, "expected a name")
}

// abis are the types that the fuzz targets encode and decode.
var abis = []string{
	"uint256 a", "int24 a, bool b", "bytes a, string b", "address[] a", "uint8[3][] a", "(uint8 a, bytes b)[2] a, bytes5 b", "string[][] a", "(int128 a, (bool b, string c)[] d) e", "bytes[2][] a, function b",
}

func parametersOf(t testing.TB, list string) []parameter {
	t.Helper()
	contract, err := parseABI(json.RawMessage(jsonOf(t, []string{"function f(" + list + ")"})))
	if err != nil {
		t.Fatal(err)
	}
	return contract.functions[0].inputs
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// libraryArguments converts a list of types to go-ethereum's.
func libraryArguments(t testing.TB, parameters []parameter) abi.Arguments {
	t.Helper()
	var marshal func(parameters []parameter) []abi.ArgumentMarshaling
	marshal = func(parameters []parameter) (list []abi.ArgumentMarshaling) {
		for _, p := range parameters {
			base, suffixes := p.kind, ""
			for base.item != nil {
				base = base.item
			}
			one := abi.ArgumentMarshaling{Name: p.name, Type: p.kind.name}
			if base.kind == kindTuple {
				suffixes = strings.TrimPrefix(p.kind.name, base.name)
				one.Type, one.Components = "tuple"+suffixes, marshal(base.fields)
			}
			list = append(list, one)
		}
		return list
	}
	var arguments abi.Arguments
	for _, one := range marshal(parameters) {
		kind, err := abi.NewType(one.Type, "", one.Components)
		if err != nil {
			t.Fatal(err)
		}
		arguments = append(arguments, abi.Argument{Name: one.Name, Type: kind})
	}
	return arguments
}

// FuzzDecodedResults compares the decoder and the encoder with go-ethereum's.
func FuzzDecodedResults(f *testing.F) {
	for i := range abis {
		f.Add(uint8(i), []byte{})
		f.Add(uint8(i), bytes.Repeat([]byte{0}, 256))
	}
	for _, v := range readVectors(f).Calls[:20] {
		data, err := parseBytes(v.Calldata)
		if err != nil {
			f.Fatal(err)
		}
		for i := range abis {
			f.Add(uint8(i), data[4:])
		}
	}
	var parameters [][]parameter
	var library []abi.Arguments
	for _, list := range abis {
		parameters = append(parameters, parametersOf(f, list))
		library = append(library, libraryArguments(f, parameters[len(parameters)-1]))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		at := int(which) % len(abis)
		list, err := decodeParameters(parameters[at], data)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("an error of %d characters", len(err.Error()))
			}
			return
		}
		read, err := strictjson.Decode(json.RawMessage(text(t, list)))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := encodeArguments(parameters[at], read.([]any))
		if err != nil {
			t.Fatalf("%s: %v is not taken back: %v", abis[at], list, err)
		}
		unpacked, err := library[at].Unpack(data)
		if err != nil {
			t.Fatalf("%s: %x is read as %v, and go-ethereum says %v", abis[at], data, list, err)
		}
		theirs, err := library[at].Pack(unpacked...)
		if err != nil || !bytes.Equal(ours, theirs) {
			t.Fatalf("%s: %x is read as %v:\n%x\n%x %v", abis[at], data, list, ours, theirs, err)
		}
	})
}

// FuzzArguments checks arbitrary JSON arguments. Each must be rejected, or be encoded to data that
// is the same after decoding and encoding again.
func FuzzArguments(f *testing.F) {
	for i := range abis {
		f.Add(uint8(i), `["1"]`)
	}
	for _, seed := range []string{`[-5, true]`, `["0x0102", "é"]`, `[["0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"]]`, `[[[1,2,3]]]`, `[[{"a":1,"b":"0x"},[2,"0x01"]],"0x0102030405"]`, `[[["a"],[]]]`, `[{"a":"-1","d":[{"b":true,"c":"x"}]}]`, `[1e3]`, `[null]`} {
		for i := range abis {
			f.Add(uint8(i), seed)
		}
	}
	var parameters [][]parameter
	for _, list := range abis {
		parameters = append(parameters, parametersOf(f, list))
	}
	f.Fuzz(func(t *testing.T, which uint8, given string) {
		of := parameters[int(which)%len(abis)]
		value, err := strictjson.Decode(json.RawMessage(given))
		list, ok := value.([]any)
		if err != nil || !ok || len(list) != len(of) {
			return
		}
		encoded, err := encodeArguments(of, list)
		if err != nil {
			return
		}
		decoded, err := decodeParameters(of, encoded)
		if err != nil {
			if contains(err.Error(), "not valid UTF-8") { // a string with NUL can be encoded but not stored
				return
			}
			t.Fatalf("%s became %x, which is refused: %v", given, encoded, err)
		}
		read, _ := strictjson.Decode(json.RawMessage(text(t, decoded)))
		if again, err := encodeArguments(of, read.([]any)); err != nil || !bytes.Equal(again, encoded) {
			t.Fatalf("%s became %x, and then %x, %v", given, encoded, again, err)
		}
	})
}

// FuzzInterfaces checks arbitrary ABIs. Each must be rejected with a short message, or parse to
// signatures that parse to themselves.
func FuzzInterfaces(f *testing.F) {
	for _, seed := range []string{
		`["function f((uint a, bytes b)[] x, string s) external payable returns (bool)"]`, `[{"type":"function","name":"f","inputs":[{"name":"x","type":"tuple[2]","components":[{"name":"a","type":"uint8"}]}]}]`,
		`"event E(address indexed a) anonymous\nerror X(bytes[2][])"`, `"[{\"name\":\"f\"}]"`, `[{"type":"constructor","inputs":[{"type":"bool"}]}]`, `[null]`, `{}`, `"function f(" `, `["function f(uint8[99999999][2])"]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		contract, err := parseABI(json.RawMessage(given))
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("an error of %d characters", len(err.Error()))
			}
			return
		}
		if contract == nil { // no ABI
			return
		}
		for _, s := range contract.functions {
			again, err := parseSignature(s.text)
			if err != nil || again.text != s.text {
				t.Errorf("%q is read as %q: %v", s.text, again.text, err)
			}
			for _, p := range s.inputs {
				if p.kind.head < wordSize || p.kind.head > maxHead || p.kind.depth > maxTypeDepth {
					t.Errorf("%s takes %d bytes and is %d deep", s.text, p.kind.head, p.kind.depth)
				}
			}
		}
	})
}

func TestIntegersHaveTheLimitsOfTheirTypes(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"uint8": "0 255", "int8": "-128 127", "int64": fmt.Sprint(math.MinInt64, " ", math.MaxInt64), "uint64": "0 18446744073709551615",
	} {
		kind, err := elementaryType(name)
		if err != nil {
			t.Fatal(err)
		}
		if least, most := kind.limits(); least.String()+" "+most.String() != want {
			t.Errorf("%s is from %s to %s", name, least, most)
		}
	}
}
