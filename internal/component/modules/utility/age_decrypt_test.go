package utility

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	agetest "c2sp.org/CCTV/age"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/componenttest"
)

// ageVector is a file of C2SP's test vectors for age (https://c2sp.org/CCTV/age): header lines, an
// empty line, and the age file.
type ageVector struct {
	facts map[string][]string
	file  []byte
}

func readVector(t testing.TB, name string) ageVector {
	t.Helper()
	rest, err := fs.ReadFile(agetest.Vectors, name)
	if err != nil {
		t.Fatal(err)
	}
	v := ageVector{facts: map[string][]string{}}
	for {
		line, after, found := bytes.Cut(rest, []byte("\n"))
		if rest = after; !found || len(line) == 0 {
			break
		}
		key, value, _ := strings.Cut(string(line), ": ")
		v.facts[key] = append(v.facts[key], value)
	}
	v.file = rest
	if v.facts["compressed"] != nil {
		unpacked, err := zlib.NewReader(bytes.NewReader(rest))
		if err != nil {
			t.Fatal(err)
		}
		if v.file, err = io.ReadAll(unpacked); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

// ageVectors returns the vectors with a single X25519 identity, the only kind that AGE_DECRYPT
// supports.
func ageVectors(t testing.TB) map[string]ageVector {
	t.Helper()
	entries, err := fs.ReadDir(agetest.Vectors, ".")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]ageVector{}
	for _, entry := range entries {
		v := readVector(t, entry.Name())
		if identities := v.facts["identity"]; len(identities) == 1 && strings.HasPrefix(identities[0], "AGE-SECRET-KEY-1") && v.facts["passphrase"] == nil {
			all[entry.Name()] = v
		}
	}
	return all
}

// text returns the file in the form that AGE_DECRYPT accepts.
func (v ageVector) text() string {
	if v.facts["armored"] != nil {
		return string(v.file)
	}
	return base64.StdEncoding.EncodeToString(v.file)
}

func TestAgeDecryptPassesThePublishedVectors(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, ageDecrypt{})
	met := map[string]int{}
	for name, v := range ageVectors(t) {
		expect := v.facts["expect"][0]
		identity, err := parseIdentity(v.facts["identity"][0])
		if err != nil {
			t.Fatal(err)
		}
		data, err := openAge(v.text(), identity)
		failed, _ := err.(*component.Error)
		met[expect]++
		switch {
		case expect == "success":
			sum := sha256.Sum256(data)
			if err != nil || hex.EncodeToString(sum[:]) != v.facts["payload"][0] {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
		case failed == nil || failed.Code != component.CodeInvalidInput || data != nil:
			t.Errorf("%s: want %s, got %d bytes, %v", name, expect, len(data), err)
		case strings.Contains(failed.Message, "other recipients") != (expect == "no match"):
			t.Errorf("%s: want %s, got %v", name, expect, err)
		}
		// The same with the module, if the file fits into a request.
		if len(v.file) > 100_000 || v.facts["armored"] != nil && !utf8.Valid(v.file) {
			continue
		}
		input := object(t, "ciphertext", v.text(), "ageIdentity", v.facts["identity"][0], "encoding", "plainHex")
		if expect == "success" {
			gives(t, bench, "AGE_DECRYPT", input, object(t, "data", hex.EncodeToString(data)))
		} else {
			refuses(t, bench, "AGE_DECRYPT", input)
		}
	}
	for _, expect := range []string{"success", "no match", "HMAC failure", "header failure", "armor failure", "payload failure"} {
		if met[expect] == 0 {
			t.Errorf("no vector of %q: %v", expect, met)
		}
	}
}

func TestAgeDecryptErrorNamesFieldAndHidesIdentity(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, Modules()...)
	encrypt := func(pairs ...string) string {
		output, failed := bench.Run(t, "AGE_ENCRYPT", object(t, append(pairs, "ageRecipient", knownRecipient)...), `{}`)
		if failed != nil {
			t.Fatal(failed)
		}
		return member(t, output, "ciphertext")
	}
	file := encrypt("data", "canary-canary", "format", "base64")
	other := generatePair(t, bench).AgeIdentity
	lines := strings.SplitAfter(encrypt("data", "canary-canary"), "\n")
	for _, c := range []struct {
		input string
		words []string
	}{
		{object(t, "ageIdentity", knownIdentity), []string{"/input/ciphertext", "is required"}},
		{object(t, "ciphertext", file), []string{"/input/ageIdentity", "is required"}},
		{`{"ciphertext":7,"ageIdentity":"` + knownIdentity + `"}`, []string{"/input/ciphertext", "must be a string", "number"}},
		{`{"ciphertext":"a","ageIdentity":["` + knownIdentity + `"]}`, []string{"/input/ageIdentity", "must be a string", "array"}},
		{object(t, "ciphertext", "", "ageIdentity", knownIdentity), []string{"/input/ciphertext", "at least 1 character"}},
		{object(t, "ciphertext", file, "ageIdentity", knownIdentity[:len(knownIdentity)-1]+"Q"), []string{"/input/ageIdentity", "AGE-SECRET-KEY-1 and 58 more characters", "checksum"}},
		{object(t, "ciphertext", file, "ageIdentity", strings.ToLower(knownIdentity)+" canary-canary"), []string{"/input/ageIdentity", "AGE-SECRET-KEY-1"}},
		{object(t, "ciphertext", file, "ageIdentity", other), []string{"ageIdentity can't decrypt ciphertext", "other recipients"}},
		{object(t, "ciphertext", file, "ageIdentity", knownIdentity, "encoding", "gzip"), []string{"/input/encoding", "must be one of", `"gzip"`}},
		{object(t, "ciphertext", "no file", "ageIdentity", knownIdentity), []string{"ciphertext must be standard base64", "position 3"}},
		{object(t, "ciphertext", "aGVsbG8=", "ageIdentity", knownIdentity), []string{"ciphertext must be an age file"}},
		{object(t, "ciphertext", file[:len(file)-8], "ageIdentity", knownIdentity), []string{"ciphertext must be an age file", "truncated"}},
		{object(t, "ciphertext", strings.Join(slices.Delete(slices.Clone(lines), 2, 3), ""), "ageIdentity", knownIdentity), []string{"ciphertext must be an age file"}},
		{object(t, "ciphertext", encrypt("data", "ff00", "encoding", "hex"), "ageIdentity", knownIdentity), []string{"utf8", "encoding requests", "not valid UTF-8"}},
	} {
		refuses(t, bench, "AGE_DECRYPT", c.input, c.words...)
		_, failed := bench.Run(t, "AGE_DECRYPT", c.input, `{}`)
		if failed == nil || strings.Contains(failed.Error(), "canary") || strings.Contains(strings.ToUpper(failed.Error()), knownIdentity[20:50]) || strings.Contains(failed.Error(), other[20:]) {
			t.Errorf("%.200s: %v", c.input, failed)
		}
	}
}

// A header with as many recipients as a request can contain, none of which matches.
func TestAgeDecryptIsBounded(t *testing.T) {
	t.Parallel()
	bench := componenttest.New(t, ageDecrypt{})
	v := readVector(t, "x25519")
	version, rest, _ := bytes.Cut(v.file, []byte("\n"))
	first, rest, _ := bytes.Cut(rest, []byte("\n"))
	second, rest, _ := bytes.Cut(rest, []byte("\n"))
	stanza := slices.Concat(first, []byte("\n"), second, []byte("\n"))
	file := slices.Concat(version, []byte("\n"), bytes.Repeat(stanza, 700_000/len(stanza)), rest)
	if _, failed := bounded(t, bench, "AGE_DECRYPT", object(t, "ciphertext", base64.StdEncoding.EncodeToString(file), "ageIdentity", knownIdentity)); failed == nil || failed.Code != component.CodeInvalidInput {
		t.Errorf("%v", failed)
	}
}

func FuzzAgeDecrypt(f *testing.F) {
	for _, v := range ageVectors(f) {
		if len(v.file) < 10_000 {
			f.Add(v.text())
		}
	}
	identity, err := parseIdentity("AGE-SECRET-KEY-1EGTZVFFV20835NWYV6270LXYVK2VKNX2MMDKWYKLMGR48UAWX40Q2P2LM0") // from the vectors
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := openAge(text, identity)
		if failed, ok := err.(*component.Error); err != nil && (!ok || failed.Code != component.CodeInvalidInput) {
			t.Errorf("%q: %v", text, err)
		}
		if len(data) > len(text) {
			t.Errorf("%d characters became %d bytes", len(text), len(data))
		}
	})
}
