// Package clients holds small clients of Weft in four languages, for users to copy. Each has a
// reader of event streams, a verifier of callbacks, and an example that uses every feature of
// Weft. They sign with the files of conformance/signers. The portal serves them.
//
// The package imports no other package of Weft. Invariant: The tests of conformance run every
// client that is listed here against a real service.
package clients

import "embed"

// Language is the client in one language.
type Language struct {
	Name   string   // name of the folder
	Files  []string // in the folder
	Signer string   // in conformance/signers, copied next to Files
}

// Languages lists the clients. weft.gen.go is generated from the spec. The types of the TypeScript client, weft_api.ts, are
// generated from the spec by openapi-typescript, on the user's machine.
var Languages = []Language{
	{"go", []string{"weft.gen.go", "weft_client.go", "weft_stream.go", "weft_callback.go", "journey/main.go"}, "weft_signer.go"},
	{"java", []string{"WeftClient.java", "WeftStream.java", "WeftCallback.java", "WeftJson.java", "Journey.java"}, "WeftSigner.java"},
	{"python", []string{"weft_client.py", "weft_stream.py", "weft_callback.py", "journey.py"}, "weft_signer.py"},
	{"typescript", []string{"weft_client.ts", "weft_stream.ts", "weft_callback.ts", "journey.ts"}, "weft_signer.ts"},
}

// Files holds the files by folder and name.
//
//go:embed go/*.go go/journey/main.go java/*.java python/*.py typescript/*.ts
var Files embed.FS
