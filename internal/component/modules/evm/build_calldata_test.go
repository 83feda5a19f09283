package evm

import (
	"strings"
	"testing"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// word returns 32 bytes of calldata that end with these digits.
func word(end string) string { return strings.Repeat("0", 64-len(end)) + end }

// rightPadded returns 32 bytes that start with these digits.
func rightPadded(begin string) string { return begin + strings.Repeat("0", 64-len(begin)) }

// The cases are the examples in the Solidity documentation, "Contract ABI Specification": baz, bar,
// sam, the use of dynamic types (f and g), and the custom error of the section on errors.
func TestCalldataMatchesSolidityDocumentation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	abi := []any{
		"function baz(uint32 x, bool y) pure returns (bool r)", "function bar(bytes3[2])", "function sam(bytes, bool, uint[])",
		"function f(uint256,uint32[],bytes10,bytes)", "function g(uint256[][],string[])", "function InsufficientBalance(uint256 available, uint256 required)",
	}
	for _, c := range []struct {
		function  string
		arguments []any
		calldata  string
	}{
		{"baz", []any{69, true}, "cdcd77c0" + word("45") + word("1")},
		{"bar", []any{[]string{"0x616263", "0x646566"}}, "fce353f6" + rightPadded("616263") + rightPadded("646566")},
		{"sam", []any{"0x64617665", true, []int{1, 2, 3}}, "a5643bf2" + word("60") + word("1") + word("a0") + word("4") + rightPadded("64617665") + word("3") + word("1") + word("2") + word("3")},
		{
			"f", []any{"291", []string{"1110", "1929"}, "0x31323334353637383930", "0x48656c6c6f2c20776f726c6421"},
			"8be65246" + word("123") + word("80") + rightPadded("31323334353637383930") + word("e0") + word("2") + word("456") + word("789") + word("d") + rightPadded("48656c6c6f2c20776f726c6421"),
		},
		{
			"g", []any{[][]int{{1, 2}, {3}}, []string{"one", "two", "three"}},
			"2289b18c" + word("40") + word("140") + word("2") + word("40") + word("a0") + word("2") + word("1") + word("2") + word("1") + word("3") +
				word("3") + word("60") + word("a0") + word("e0") + word("3") + rightPadded("6f6e65") + word("3") + rightPadded("74776f") + word("5") + rightPadded("7468726565"),
		},
		{"InsufficientBalance", []any{"0", "10"}, "cf479181" + word("0") + word("a")},
	} {
		b.gives(t, c.function, "BUILD_EVM_CALLDATA", object{"abi": abi, "functionName": c.function, "arguments": c.arguments}, object{}, object{"calldata": "0x" + c.calldata})
	}
}

func TestOverloadIsSelectedByArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const who = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
	whose := word(strings.ToLower(who[2:]))
	abi := []any{"function f(address a)", "function f(address a, uint8 b)", "function f(uint8 a, address b)", "function f(address,uint8)", "constructor(uint8 a)"}
	for _, c := range []struct {
		function  string
		arguments []any
		calldata  string
	}{
		// The selectors are from ethers (id).
		{"f", []any{who}, "fc68521a" + whose},
		{"f(address,uint8)", []any{who, 1}, "39c48111" + whose + word("1")},
		{" f( uint8 , address )", []any{1, who}, "461578d6" + word("1") + whose},
		{"constructor", []any{7}, word("7")},
	} {
		output, failed := b.compute(t, "BUILD_EVM_CALLDATA", object{"abi": abi, "functionName": c.function, "arguments": c.arguments}, object{})
		if failed != nil || !strings.EqualFold(output["calldata"].(string), "0x"+c.calldata) {
			t.Errorf("%s: %v %v, want %s", c.function, output, failed, c.calldata)
		}
	}
	b.refuses(t, "two that take two", "BUILD_EVM_CALLDATA", object{"abi": abi, "functionName": "f", "arguments": []any{who, 1}}, object{},
		`functionName: "f" is overloaded; use one of the full signatures: f(address,uint8), f(uint8,address)`)
}

func TestABIIsAcceptedInEveryForm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const function = "function f((uint a, bytes b)[] x, string s) external payable returns (bool)"
	parts := []any{object{"name": "a", "type": "uint256"}, object{"name": "b", "type": "bytes"}}
	entry := object{"type": "function", "name": "f", "stateMutability": "payable", "outputs": []any{}, "inputs": []any{
		object{"name": "x", "type": "tuple[]", "internalType": "struct C.P[]", "components": parts}, object{"name": "s", "type": "string"},
	}}
	other := object{"type": "receive", "stateMutability": "payable"}
	want, failed := b.compute(t, "BUILD_EVM_CALLDATA", object{"abi": []any{function}, "functionName": "f", "arguments": []any{[]any{[]any{1, "0x02"}}, "x"}}, object{})
	if failed != nil {
		t.Fatal(failed)
	}
	for name, abi := range map[string]any{
		"JSON": []any{other, entry}, "JSON text": " " + text(t, []any{entry, other}), "one signature": function + ";", "lines": "event E(uint a)\n\n" + function + "\nerror X()",
		"mixed": []any{other, function}, "with what takes nothing": []any{"receive() external payable", "fallback() external", function}, "texts in a JSON text": text(t, []string{function}), "no type": []any{object{"name": "f", "inputs": entry["inputs"]}},
	} {
		for _, argument := range []any{[]any{1, "0x02"}, object{"a": 1, "b": "0x02"}, object{"a": "1", "b": "0x02"}} {
			b.gives(t, name, "BUILD_EVM_CALLDATA", object{"abi": abi, "functionName": "f", "arguments": []any{[]any{argument}, "x"}}, object{}, want)
		}
	}
}

func TestInvalidABIIsRejected(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deep := object{"name": "x", "type": "uint8"}
	for range 18 {
		deep = object{"name": "x", "type": "tuple", "components": []any{deep}}
	}
	function := func(kind any) []any {
		return []any{object{"type": "function", "name": "f", "inputs": []any{object{"name": "a", "type": kind}}}}
	}
	for name, c := range map[string]struct {
		abi     any
		message string
	}{
		"neither":                {"[1", "abi: expected a JSON ABI, which is an array, or human-readable signatures; got a string that is not valid JSON: unexpected end of JSON input, after 2 bytes"},
		"an abi that breaks off": {`[{"type":"function",]`, "invalid character ']' looking for beginning of object key string, after 21 bytes"},
		"an artifact":            {`{"abi":[]}`, "abi: expected a JSON ABI, which is an array; use the abi field of the compiler's output"},
		"a number":               {[]any{1}, "abi[0]: expected an entry of a JSON ABI with type, name and inputs, or a human-readable signature; got a number"},
		"inputs of a string":     {[]any{object{"name": "f", "inputs": "uint256"}}, "; got a string as its inputs"},
		"an invalid type":        {[]any{object{"name": "f", "inputs": []any{object{"type": 7}}}}, "; got a number as its inputs"},
		"a type of nothing":      {function("uint7"), `abi[0].inputs[0]: expected an ABI type such as uint256, address, bytes32, string[] or tuple, got "uint7"`},
		"more after the type":    {function("uint256 x"), `got "uint256 x"`},
		"a number too wide":      {function("uint264"), `got "uint264"`},
		"bytes too wide":         {function("bytes33"), `got "bytes33"`},
		"bytes of nothing":       {function("bytes0"), `got "bytes0"`},
		"no type":                {function(""), `got ""`},
		"of a library":           {function("L.Data storage"), `got "L.Data storage"`},
		"fixed point":            {function("fixed128x18"), `got "fixed128x18"`},
		"an open array":          {function("uint8["), "got the array"},
		"an array of nothing":    {function("uint8[0]"), "at least 1 item"},
		"a huge array":           {function("uint8[99999999999999999999]"), "occupies at most 1048576 bytes"},
		"arrays of arrays":       {function("uint8[30000][30000]"), "occupies at most 1048576 bytes"},
		"deep arrays":            {function("uint8" + strings.Repeat("[]", 30)), "can be nested 16 deep"},
		"deep tuples":            {[]any{object{"type": "function", "name": "f", "inputs": []any{deep}}}, "can be nested 16 deep"},
		"a tuple of nothing":     {function("tuple"), "a tuple must have components"},
		"no name":                {[]any{object{"type": "function", "inputs": []any{}}}, "abi[0]: expected a name"},
		"a name of two words":    {[]any{object{"type": "event", "name": "a b", "inputs": []any{}}}, `abi[0]: expected a name of letters, digits, $ and _, at most 256 characters, got "a b"`},
		"a parameter's":          {[]any{object{"name": "f", "inputs": []any{object{"name": "a\"b", "type": "bool"}}}}, "abi[0].inputs[0]: expected a name"},
		"another kind":           {[]any{object{"type": "modifier", "name": "f"}}, `abi[0]: expected the type function, event, error, constructor, receive or fallback, got "modifier"`},
		"no signature":           {[]any{"transfer(address)"}, `abi[0]: expected a signature that starts with function, event, error or constructor, got "transfer(address)"`},
		"an open signature":      {[]any{"function f(uint8"}, "abi[0]: expected , or ), got the end of the signature"},
		"no parameters":          {[]any{"function f"}, "abi[0]: expected (, got the end of the signature"},
		"an unknown word":        {[]any{"function f() gives (uint8)"}, `abi[0]: expected returns, view, or the end, got "(uint8)"`},
		"a struct":               {[]any{"function f(Point p)"}, `got "Point"`},
		"deep signatures":        {[]any{"function f(" + strings.Repeat("(", 30) + "uint8" + strings.Repeat(")", 30) + ")"}, "can be nested 16 deep"},
		"the line":               {"function f()\nfunction g(uint9)", "abi: line 2: expected an ABI type"},
		"another function":       {[]any{"function f(bool)", "function g()"}, `functionName: the abi has no function "h"; it has f(bool), g()`},
		"no function":            {[]any{"event h()"}, "functionName: expected the name of a function in the abi, which has none; got "},
		"too many entries":       {strings.Repeat("function f()\n", 10_001), "can have at most 10000 entries"},
		"a word after the end":   {[]any{"event E() anonymous )"}, "abi[0]: expected returns, view, or the end"},
	} {
		b.refuses(t, name, "BUILD_EVM_CALLDATA", object{"abi": c.abi, "functionName": "h", "arguments": []any{}}, object{}, c.message)
	}
	b.refuses(t, "no signature", "BUILD_EVM_CALLDATA", object{"abi": []any{"function f()"}, "functionName": "f(uint7)", "arguments": []any{}}, object{}, `functionName: expected the name or the signature of a function: expected an ABI type`)
	b.refuses(t, "more than a signature", "BUILD_EVM_CALLDATA", object{"abi": []any{"function f()"}, "functionName": "f() view", "arguments": []any{}}, object{}, `got "view"`)
}

func TestInvalidArgumentIsReportedWithItsPath(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const (
		checked = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
		wrong   = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96046"
	)
	for _, c := range []struct {
		kind    string
		value   any
		message string
	}{
		{"uint8", 256, "arguments[0]: expected uint8, 0 to 255, got 256"},
		{"uint8", -1, "arguments[0]: expected uint8, 0 to 255, got -1"},
		{"int8", "128", `arguments[0]: expected int8, -128 to 127, got "128"`},
		{"int8", "-129", `arguments[0]: expected int8, -128 to 127, got "-129"`},
		{"uint256", "115792089237316195423570985008687907853269984665640564039457584007913129639936", "arguments[0]: expected uint256, a decimal string from 0 to 2^256-1, got "},
		{"int256", "57896044618658097711785492504343953926634992332820282019728792003956564819968", "arguments[0]: expected int256, a decimal string from -2^255 to 2^255-1, got "},
		{"uint256", 9007199254740993, "got 9007199254740993"},
		{"uint256", 1.5, "got 1.5"},
		{"uint256", "0x10", `got "0x10"`},
		{"uint256", "007", `got "007"`},
		{"uint256", "-0", `got "-0"`},
		{"uint256", " 1", `got " 1"`},
		{"uint256", "1e3", `got "1e3"`},
		{"uint256", "", `got ""`},
		{"uint256", true, "got true"},
		{"uint256", nil, "got null"},
		{"uint256", strings.Repeat("9", 1000), `9"...`},
		{"bool", "true", `arguments[0]: expected bool, true or false, got "true"`},
		{"bool", 1, "got 1"},
		{"address", "0x12", `arguments[0]: expected address, 0x and 40 hexadecimal digits, got "0x12"`},
		{"address", wrong, "arguments[0]: expected an address: the EIP-55 checksum of the mixed-case address is wrong"},
		{"address", 5, "got 5"},
		{"bytes4", "0x010203", `arguments[0]: expected bytes4, 0x and 8 hexadecimal digits, got "0x010203"`},
		{"bytes4", "0x0102030405", "got"},
		{"bytes4", "abcd", "got"},
		{"function", checked, "arguments[0]: expected function, 0x and 48 hexadecimal digits"},
		{"bytes", "0x1", `arguments[0]: expected bytes, 0x and pairs of hexadecimal digits, got "0x1"`},
		{"bytes", "hello", "got"},
		{"bytes", []int{1}, "got an array of 1 item"},
		{"string", 5, "arguments[0]: expected string, got 5"},
		{"uint8[]", "1", `arguments[0]: expected uint8[], an array, got "1"`},
		{"uint8[2]", []int{1}, "arguments[0]: expected uint8[2], an array of 2 items, got an array of 1 item"},
		{"uint8[2][]", []any{[]int{1, 2}, []int{3, 400}}, "arguments[0][1][1]: expected uint8, 0 to 255, got 400"},
		{"(uint8 a, (bool ok)[] b)", object{"a": 1, "b": []any{object{"ok": 3}}}, "arguments[0].b[0].ok: expected bool, true or false, got 3"},
		{"(uint8 a, bool b)", object{"a": 1}, "arguments[0].b: is missing: expected bool, true or false"},
		{"(uint8 a)", object{"a": 1, "c": 2}, `arguments[0]: has the unknown field "c"`},
		{"(uint8 a, bool b)", []any{1}, "arguments[0]: expected the tuple (uint8,bool), an object or an array of 2 items, got an array of 1 item"},
		{"(uint8, bool)", object{"a": 1}, "arguments[0]: expected the tuple (uint8,bool), an array of 2 items, got an object"},
	} {
		b.refuses(t, c.kind, "BUILD_EVM_CALLDATA", object{"abi": []any{"function f(" + c.kind + ")"}, "functionName": "f", "arguments": []any{c.value}}, object{}, c.message)
	}
	b.refuses(t, "their number", "BUILD_EVM_CALLDATA", object{"abi": []any{"function f(bool)"}, "functionName": "f", "arguments": []any{}}, object{}, "arguments: f(bool) expects 1, got 0")
	for _, form := range []string{checked, strings.ToLower(checked), "0x" + strings.ToUpper(checked[2:])} {
		b.gives(t, "an address in every case", "BUILD_EVM_CALLDATA", object{"abi": []any{"function f(address)"}, "functionName": "f(address)", "arguments": []any{form}}, object{}, object{"calldata": "0xfc68521a" + word(strings.ToLower(checked[2:]))})
	}
}
