package catalog

// Format describes a format of strings (and some numbers) in schemas.
type Format struct{ Name, Description, Example string }

// Formats are the formats of all components, and bigint, a format that typed clients find in the
// catalogue at /v1/system/components. Each module checks its own formats.
var Formats = []Format{
	{"age-identity", "A private key of the encryption tool age.", "AGE-SECRET-KEY-1…"},
	{"age-recipient", "A public key of age, to encrypt to.", "age1cy0su9fwf3gf9mw868g5yut09p6nytfmmnktexz2ya5uqg9vl9sss4euqm"},
	{FormatBigint, "An integer of any size: decimal digits in a string, with a leading - if negative. JSON libraries would round such a number. It is the type of such fields in the catalogue for typed clients. The pages of components show the pattern instead.", "1000000000000000000"},
	{"date-format", "How to format a time: text with conversions. The field lists the conversions.", "%Y-%m-%d %H:%M"},
	{"date-time", "A time in RFC 3339 format, with an offset or Z.", "2026-12-24T18:00:00Z"},
	{"evm-address", "An address of an EVM chain: 0x and 40 hexadecimal digits. In mixed case, its checksum (EIP-55) must be correct. Addresses in outputs have the checksum.", "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"},
	{"evm-block", "A block of an EVM chain: latest, pending, safe, finalized or earliest; its number, as a JSON number or a string, decimal or hexadecimal with 0x; or its hash.", "latest"},
	{"evm-hash", "32 bytes, such as the hash of a transaction: 0x and 64 hexadecimal digits.", "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"},
	{"evm-private-key", "A private key of secp256k1: 0x and 64 hexadecimal digits.", "0x4646464646464646464646464646464646464646464646464646464646464646"},
	{"evm-public-key", "A public key of secp256k1: 0x and the hexadecimal digits of 33 bytes (compressed) or 65 bytes.", "0x0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"},
	{"evm-uint256", "An integer from 0 to 2^256 - 1: decimal digits in a string, or a JSON number up to 9007199254740991. Amounts of a coin are in its smallest unit.", "1000000000000000000"},
	{"evm-uint64", "An integer from 0 to 2^64 - 1, in the same form as evm-uint256.", "21000"},
	{"hex-bytes", "Bytes: 0x and two hexadecimal digits per byte. 0x alone means no bytes.", "0xa9059cbb"},
	{"origin", "The scheme, host and port of addresses. A star at the front of the host stands for one label.", "https://*.shop.example"},
	{"re2", "A regular expression in RE2 syntax, which matches in linear time.", `([a-z]+)@([a-z.]+)`},
	{"time-zone", "The name of an IANA time zone.", "Europe/Berlin"},
	{"timestamp", "A time: a date-time, or the seconds or milliseconds since 1970, as a JSON number or a decimal string.", "1795257600"},
	{"uri", "An absolute URI. URLs that components call start with https:// or http://.", "https://api.example.com/v1/prices"},
	{"uuid", "A UUID: 32 hexadecimal digits with hyphens.", "0b0e1c5e-6d0a-4f0e-9d6c-2f1f4f7a9b3c"},
	{"value-path", "The path to a nested value: names and positions separated by dots. Other names are in brackets.", `data.items.0["odd.name"]`},
}
