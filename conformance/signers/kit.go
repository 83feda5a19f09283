// Package signers holds the signing kit for users to copy: test vectors, and one
// self-contained file for each language that signs requests. The portal serves them.
//
// It imports no other package of Weft, so that the vectors test the verification of the service and
// the signers independently. Invariant: The file vectors.json is generated from the table in the
// tests.
package signers

import "embed"

// Vectors is vectors.json: requests with their messages and signatures, signatures that
// must be rejected, and the limits of the timestamp.
//
//go:embed vectors.json
var Vectors []byte

// Names lists the files of the signers.
var Names = []string{"weft_signer.go", "weft_signer.ts", "weft_signer.py", "WeftSigner.java", "weft_curl.sh"}

// Files holds the signers by file name.
//
//go:embed weft_signer.go weft_signer.ts weft_signer.py WeftSigner.java weft_curl.sh
var Files embed.FS
