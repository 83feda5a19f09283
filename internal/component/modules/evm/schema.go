package evm

// objectSchema begins the schema of an input, a config or an output.
const objectSchema = `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", `

// Schemas of the scalars, in the form of our outputs. A pattern of digits alone
// makes a string the bigint of typed clients.
const (
	decimalOut         = `"type": "string", "pattern": "^(0|[1-9][0-9]*)$"`
	nullableDecimalOut = `"type": ["string", "null"], "pattern": "^(0|[1-9][0-9]*)$"`
	hashOut            = `"type": "string", "pattern": "^0x[0-9a-f]{64}$"`
	nullableHashOut    = `"type": ["string", "null"], "pattern": "^0x[0-9a-f]{64}$"`
	addressOut         = `"type": "string", "pattern": "^0x[0-9a-fA-F]{40}$"`
	nullableAddressOut = `"type": ["string", "null"], "pattern": "^0x[0-9a-fA-F]{40}$"`
	bytesOut           = `"type": "string", "pattern": "^0x([0-9a-f]{2})*$"`
	nullableBytesOut   = `"type": ["string", "null"], "pattern": "^0x([0-9a-f]{2})*$"`
)

// Schemas of inputs that several modules have. A whole number is a decimal string, with
// its bounds in its format and the pattern for typed clients, or a number that JSON keeps
// exact.
const (
	uint256In = `"type": ["string", "integer"], "pattern": "^(0|[1-9][0-9]*)$", "maxLength": 78, "format": "evm-uint256", "minimum": 0, "maximum": 9007199254740991`
	uint64In  = `"type": ["string", "integer"], "pattern": "^(0|[1-9][0-9]*)$", "maxLength": 20, "format": "evm-uint64", "minimum": 0, "maximum": 9007199254740991`
	blockIn   = `"type": ["string", "integer"], "format": "evm-block", "minimum": 0, "maximum": 9007199254740991, "maxLength": 80`

	calldataIn = `"type": "string", "format": "hex-bytes", "maxLength": 262146`
	exampleURL = `"jsonRpcUrl": "https://rpc.example.com/v1/mainnet"`
)

// Properties of what signs.
const (
	privateKeyProperty = `"privateKey": {"type": "string", "format": "evm-private-key", "x-secret": true, "title": "Private key", "description": "The key that signs: 0x and 64 hexadecimal digits. It is kept secret; best is an environment variable that is marked as secret.", "examples": ["0x4646464646464646464646464646464646464646464646464646464646464646"]}`
	signerProperty     = `"signer": {` + addressOut + `, "title": "Signer", "description": "The address of the key that signed, in EIP-55 form.", "examples": ["0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"]}`
	signatureProperty  = `"signature": {"type": "string", "pattern": "^0x[0-9a-f]{130}$", "title": "Signature", "description": "The signature: r, s and v (27 or 28), 65 bytes.", "examples": ["0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"]}`
)
