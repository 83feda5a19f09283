package catalog

// Format says how the text of a field is written, where its type does not.
type Format struct{ Name, Description, Example string }

// Formats are those of all components, and bigint, which typed clients read in the
// catalogue at /v1/system/components. Each module checks those of its own.
var Formats = []Format{
	{"age-identity", "A private key of age.", "AGE-SECRET-KEY-1…"},
	{"age-recipient", "A public key of age, to which something is encrypted.", "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"},
	{FormatBigint, "An integer of any size: decimal digits in a string, with - before a negative one. JSON libraries would round such a number. It is the type of such fields in the catalogue for typed clients; the pages of components show their pattern.", "1000000000000000000"},
	{"date-format", "How a time is written: text with conversions in it, which the field tells.", "%Y-%m-%d %H:%M"},
	{"date-time", "A time of RFC 3339, with its offset or Z.", "2026-12-24T18:00:00Z"},
	{"evm-address", "An address of an EVM chain: 0x and 40 hexadecimal digits. In capital and small letters at once its checksum (EIP-55) must be right; what a component gives has that.", "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"},
	{"evm-block", "A block of an EVM chain: latest, pending, safe, finalized or earliest; its number, as a JSON number or a string, decimal or with 0x; or its hash.", "latest"},
	{"evm-hash", "32 bytes, such as the hash of a transaction: 0x and 64 hexadecimal digits.", "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"},
	{"evm-private-key", "A private key of secp256k1: 0x and 64 hexadecimal digits.", "0x4646464646464646464646464646464646464646464646464646464646464646"},
	{"evm-public-key", "A public key of secp256k1: 0x and hexadecimal digits of 33 bytes, compressed, or of 65.", "0x0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"},
	{"evm-uint256", "An integer from 0 to 2^256 - 1: decimal digits in a string, or a JSON number up to 9007199254740991. Amounts of a coin are in its smallest unit.", "1000000000000000000"},
	{"evm-uint64", "An integer from 0 to 2^64 - 1, written as evm-uint256 is.", "21000"},
	{"hex-bytes", "Bytes: 0x and two hexadecimal digits for each. 0x alone is none.", "0xa9059cbb"},
	{"re2", "A regular expression in the syntax of RE2, which takes linear time.", `([a-z]+)@([a-z.]+)`},
	{"time-zone", "The name of a time zone of the IANA.", "Europe/Berlin"},
	{"timestamp", "A time: as date-time, or the seconds or milliseconds since 1970, as a JSON number or a decimal string.", "1795257600"},
	{"uri", "An absolute address. Those that components call begin with https:// or http://.", "https://api.example.com/v1/prices"},
	{"uuid", "A UUID: 32 hexadecimal digits with hyphens.", "0b0e1c5e-6d0a-4f0e-9d6c-2f1f4f7a9b3c"},
	{"value-path", "Where a value is inside of another: names and positions with dots between them, an odd name in brackets.", `data.items.0["odd.name"]`},
}
