package evm

// Schemas of scalars in outputs. A pattern that allows only digits makes the string a bigint in
// typed clients.
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

// Schemas of inputs that several modules share. An integer is a decimal string or a JSON number
// that is small enough to be exact. The format checks the range of a string; the pattern is for
// typed clients.
const (
	uint256In = `"type": ["string", "integer"], "pattern": "^(0|[1-9][0-9]*)$", "maxLength": 78, "format": "evm-uint256", "minimum": 0, "maximum": 9007199254740991`
	uint64In  = `"type": ["string", "integer"], "pattern": "^(0|[1-9][0-9]*)$", "maxLength": 20, "format": "evm-uint64", "minimum": 0, "maximum": 9007199254740991`
	blockIn   = `"type": ["string", "integer"], "format": "evm-block", "minimum": 0, "maximum": 9007199254740991, "maxLength": 80`

	calldataIn = `"type": "string", "format": "hex-bytes", "maxLength": 262146`
	exampleURL = `"jsonRpcUrl": "https://rpc.example.com/v1/mainnet"`
)

// Properties of the signing modules.
const (
	privateKeyProperty = `"privateKey": {"type": "string", "format": "evm-private-key", "x-secret": true, "title": "Private key", "description": "The private key: 0x and 64 hexadecimal digits. It is stored encrypted. We recommend a secret environment variable.", "examples": ["0x4646464646464646464646464646464646464646464646464646464646464646"]}`
	signerProperty     = `"signer": {` + addressOut + `, "title": "Signer", "description": "The signer's address, in EIP-55 form.", "examples": ["0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"]}`
	signatureProperty  = `"signature": {"type": "string", "pattern": "^0x[0-9a-f]{130}$", "title": "Signature", "description": "The signature: r, s and v (27 or 28), 65 bytes.", "examples": ["0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c"]}`
)
