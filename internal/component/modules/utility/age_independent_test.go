package utility

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hkdf"
	stdhmac "crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/weft-automation/weft/internal/component/componenttest"
)

// This file is an independent reader of age files. It was written for the tests from the
// specification (age-encryption.org/v1) and BIP-173 with the standard library only. It is
// verified with the published test vectors and then used to read the output of the modules.

// fromBech32 decodes a Bech32 string (BIP-173) and verifies its checksum.
func fromBech32(text string) ([]byte, error) {
	text = strings.ToLower(text)
	at := strings.LastIndex(text, "1")
	if at < 1 || len(text)-at < 7 {
		return nil, errors.New("no bech32")
	}
	var words []uint32
	for _, r := range text[:at] {
		words = append(words, uint32(r)>>5)
	}
	words = append(words, 0)
	for _, r := range text[:at] {
		words = append(words, uint32(r)&31)
	}
	var data []byte
	bits, have := uint32(0), 0
	for i, r := range text[at+1:] {
		word := strings.IndexRune("qpzry9x8gf2tvdw0s3jn54khce6mua7l", r)
		if word < 0 {
			return nil, errors.New("no bech32")
		}
		words = append(words, uint32(word))
		if i < len(text)-at-7 {
			bits, have = bits<<5|uint32(word), have+5
		}
		if have >= 8 {
			have -= 8
			data = append(data, byte(bits>>have))
		}
	}
	sum := uint32(1)
	for _, word := range words {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ word
		for i, generator := range []uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= generator
			}
		}
	}
	if sum != 1 {
		return nil, errors.New("the checksum is wrong")
	}
	return data, nil
}

// privateOf returns the private key of an identity.
func privateOf(t testing.TB, identity string) *ecdh.PrivateKey {
	t.Helper()
	data, err := fromBech32(identity)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdh.X25519().NewPrivateKey(data)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// readAge decrypts a binary file with an X25519 key.
func readAge(file []byte, key *ecdh.PrivateKey) ([]byte, error) {
	header, rest, found := bytes.Cut(file, []byte("\n--- "))
	line, body, ended := bytes.Cut(rest, []byte("\n"))
	if !found || !ended || !bytes.HasPrefix(header, []byte("age-encryption.org/v1\n")) || len(body) < 16 {
		return nil, errors.New("no age file")
	}
	mac, err := base64.RawStdEncoding.DecodeString(string(line))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(header), "\n")
	for i, stanza := range lines {
		parts := strings.Fields(stanza)
		if len(parts) != 3 || parts[0] != "->" || parts[1] != "X25519" || i+1 >= len(lines) {
			continue
		}
		fileKey, err := unwrap(parts[2], lines[i+1], key)
		if err != nil {
			continue // for a different recipient
		}
		macKey, err := hkdf.Key(sha256.New, fileKey, nil, "header", 32)
		if err != nil {
			return nil, err
		}
		sum := stdhmac.New(sha256.New, macKey)
		sum.Write(append(header, "\n---"...))
		if !stdhmac.Equal(sum.Sum(nil), mac) {
			return nil, errors.New("the header's code is wrong")
		}
		return readPayload(body, fileKey)
	}
	return nil, errors.New("of other recipients")
}

// unwrap returns the file key in a stanza.
func unwrap(share, wrapped string, key *ecdh.PrivateKey) ([]byte, error) {
	ephemeral, err := base64.RawStdEncoding.DecodeString(share)
	if err != nil {
		return nil, err
	}
	public, err := ecdh.X25519().NewPublicKey(ephemeral)
	if err != nil {
		return nil, err
	}
	shared, err := key.ECDH(public)
	if err != nil {
		return nil, err
	}
	wrap, err := hkdf.Key(sha256.New, shared, append(bytes.Clone(ephemeral), key.PublicKey().Bytes()...), "age-encryption.org/v1/X25519", 32)
	if err != nil {
		return nil, err
	}
	sealed, err := base64.RawStdEncoding.DecodeString(wrapped)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.New(wrap)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, make([]byte, 12), sealed, nil)
}

// readPayload decrypts the chunks of 64 KiB. The last chunk has a marker.
func readPayload(body, fileKey []byte) (data []byte, err error) {
	payload, err := hkdf.Key(sha256.New, fileKey, body[:16], "payload", 32)
	if err != nil {
		return nil, err
	}
	aead, err := chacha20poly1305.New(payload)
	if err != nil {
		return nil, err
	}
	const chunk = 64<<10 + 16
	for i, rest := 0, body[16:]; ; i++ {
		nonce := make([]byte, 12)
		nonce[10], nonce[9] = byte(i), byte(i>>8)
		part := rest[:min(chunk, len(rest))]
		rest = rest[len(part):]
		if len(rest) == 0 {
			nonce[11] = 1
		}
		open, err := aead.Open(nil, nonce, part, nil)
		if err != nil || len(open) == 0 && i > 0 {
			return nil, errors.New("a chunk is wrong")
		}
		if data = append(data, open...); len(rest) == 0 {
			return data, nil
		}
	}
}

// The files are C2SP's test vectors for age with an X25519 identity. The vectors for strict header
// parsing apply to AGE_DECRYPT, not to this reader.
func TestIndependentAgeReaderPassesThePublishedVectors(t *testing.T) {
	t.Parallel()
	read := 0
	for name, v := range ageVectors(t) {
		if v.facts["armored"] != nil || v.facts["expect"][0] == "header failure" {
			continue
		}
		data, err := readAge(v.file, privateOf(t, v.facts["identity"][0]))
		if good := v.facts["expect"][0] == "success"; good != (err == nil) {
			t.Errorf("%s: want %s, got %d bytes, %v", name, v.facts["expect"][0], len(data), err)
		} else if sum := sha256.Sum256(data); good && v.facts["payload"][0] != hexOf(sum[:]) {
			t.Errorf("%s: %d bytes are others", name, len(data))
		}
		read++
	}
	if read < 20 {
		t.Errorf("only %d vectors", read)
	}
}

func hexOf(data []byte) string {
	text, err := encodeText("data", data, "to", "plainHex")
	if err != nil {
		return err.Error()
	}
	return text
}

func TestAgeEncryptOutputIsReadByIndependentReader(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, Modules()...)
	for _, data := range []string{"", "attack at dawn é", strings.Repeat("x", 65535), strings.Repeat("y", 65536)} {
		output, failed := bench.Run(t, "AGE_ENCRYPT", object(t, "data", data, "ageRecipient", knownRecipient, "format", "base64"), `{}`)
		if failed != nil {
			t.Fatal(failed)
		}
		file, err := base64.StdEncoding.DecodeString(member(t, output, "ciphertext"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readAge(file, privateOf(t, knownIdentity)); err != nil || string(got) != data {
			t.Errorf("%d bytes were written, and %d are read, %v", len(data), len(got), err)
		}
	}
}

// The public key of a pair is derived from its private key by X25519 (RFC 7748) and BIP-173. The
// pair in age's documentation is derived in the same way.
func TestGenerateAgeEncryptionReturnsX25519Pairs(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, Modules()...)
	output, failed := bench.Run(t, "GENERATE_AGE_ENCRYPTION", `{}`, `{}`)
	if failed != nil {
		t.Fatalf("%s, %v", output, failed)
	}
	drawn := generatePair(t, bench)
	for _, pair := range []agePair{{knownIdentity, knownRecipient}, drawn} {
		public, err := fromBech32(pair.AgeRecipient)
		if err != nil || !bytes.Equal(privateOf(t, pair.AgeIdentity).PublicKey().Bytes(), public) {
			t.Errorf("%s is not the public half: %v", pair.AgeRecipient, err)
		}
	}
}
