// Package signers holds the signing kit: vectors, and one file for each language that
// signs requests and stands alone, for users to copy. The portal serves them.
//
// It imports nothing of Weft, so the vectors judge its own verification as they judge
// the signers. The one invariant: vectors.json is what the table of the tests gives.
package signers

import "embed"

// Vectors is vectors.json: requests with their messages and signatures, signatures that
// are refused, and the bounds of time.
//
//go:embed vectors.json
var Vectors []byte

// Names lists the signers: their files.
var Names = []string{"weft_signer.go", "weft_signer.ts", "weft_signer.py", "WeftSigner.java", "weft_curl.sh"}

// Files holds the signers by their names.
//
//go:embed weft_signer.go weft_signer.ts weft_signer.py WeftSigner.java weft_curl.sh
var Files embed.FS
