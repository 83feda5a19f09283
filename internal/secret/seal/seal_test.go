package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func testKey(id string, seed byte) Key {
	key := Key{ID: id}
	for i := range key.Secret {
		key.Secret[i] = seed*31 + byte(i*i*7) + byte(i)
	}
	return key
}

func testRing(t *testing.T, primary Key, others ...Key) *Keyring {
	t.Helper()
	ring, err := NewKeyring(primary, others...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

var place = AAD{WorkspaceID: uuid.MustParse("01930000-0000-7000-8000-000000000001"), Table: "callbacks", Row: "r1", Field: "secret"}

func TestMT06SealedValuesOpenOnlyInTheirPlace(t *testing.T) {
	ring := testRing(t, testKey("a", 1))
	sealed, err := ring.Seal([]byte("top secret"), place)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := ring.Open(sealed, place); err != nil || string(plain) != "top secret" {
		t.Fatalf("own place: %q, %v", plain, err)
	}
	moved := map[string]AAD{
		"workspace":      {uuid.MustParse("01930000-0000-7000-8000-000000000002"), place.Table, place.Row, place.Field},
		"table":          {place.WorkspaceID, "callback", place.Row, place.Field},
		"row":            {place.WorkspaceID, place.Table, "r2", place.Field},
		"field":          {place.WorkspaceID, place.Table, place.Row, "headers"},
		"shifted border": {place.WorkspaceID, place.Table, place.Row + "s", "ecret"},
	}
	for name, aad := range moved {
		if _, err := ring.Open(sealed, aad); !errors.Is(err, ErrUnsealable) {
			t.Errorf("moved to another %s: %v", name, err)
		}
	}
}

func TestMT06EveryFlippedBitIsRefused(t *testing.T) {
	ring := testRing(t, testKey("a", 1), testKey("b", 2))
	sealed, err := ring.Seal([]byte("v"), place)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(sealed) * 8 {
		damaged := bytes.Clone(sealed)
		damaged[i/8] ^= 1 << (i % 8)
		if _, err := ring.Open(damaged, place); !errors.Is(err, ErrUnsealable) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
	for n := range sealed {
		if _, err := ring.Open(sealed[:n], place); !errors.Is(err, ErrUnsealable) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestSealingTwiceReturnsDifferentBytes(t *testing.T) {
	ring := testRing(t, testKey("a", 1))
	one, _ := ring.Seal([]byte("same"), place)
	two, _ := ring.Seal([]byte("same"), place)
	if bytes.Equal(one, two) || bytes.Contains(one, []byte("same")) {
		t.Fatal("sealing is deterministic or leaks")
	}
}

func TestKeysRotate(t *testing.T) {
	old, fresh := testKey("2025", 1), testKey("2026", 2)
	sealed, _ := testRing(t, old).Seal([]byte("v"), place)
	if id, ok := KeyID(sealed); !ok || id != "2025" {
		t.Fatalf("key id %q, %v", id, ok)
	}
	ring := testRing(t, fresh, old)
	if plain, err := ring.Open(sealed, place); err != nil || string(plain) != "v" {
		t.Fatalf("old value after rotation: %q, %v", plain, err)
	}
	renewed, _ := ring.Seal([]byte("v"), place)
	if id, _ := KeyID(renewed); id != "2026" {
		t.Fatalf("new value under %q", id)
	}
	if _, err := testRing(t, fresh).Open(sealed, place); !errors.Is(err, ErrUnsealable) {
		t.Fatalf("old key removed: %v", err)
	}
	// A key that had no ID at first is still found after it was given an ID.
	unnamed := Key{ID: Fingerprint(old.Secret), Secret: old.Secret}
	sealed, _ = testRing(t, unnamed).Seal([]byte("v"), place)
	if _, err := ring.Open(sealed, place); err != nil {
		t.Fatalf("renamed key: %v", err)
	}
}

func TestValuesAreResealed(t *testing.T) {
	old, fresh := testKey("2025", 1), testKey("2026", 2)
	sealed, _ := testRing(t, old).Seal([]byte("v"), place)
	ring := testRing(t, fresh, old)
	if prints := ring.Fingerprints(); len(prints) != 2 || prints[0] != Fingerprint(fresh.Secret) || prints[1] != Fingerprint(old.Secret) {
		t.Fatalf("fingerprints %q", prints)
	}
	if bytes.HasPrefix(sealed, ring.Header()) {
		t.Fatal("the old value starts like a new one")
	}
	renewed, err := ring.Reseal(sealed, place)
	if err != nil || !bytes.HasPrefix(renewed, ring.Header()) {
		t.Fatalf("resealed: %x, %v", renewed, err)
	}
	if _, err := ring.Reseal(sealed, AAD{Table: "other"}); !errors.Is(err, ErrUnsealable) {
		t.Fatalf("resealed for another place: %v", err)
	}
	alone := testRing(t, fresh)
	if plain, err := alone.Open(renewed, place); err != nil || string(plain) != "v" {
		t.Fatalf("without the old key: %q, %v", plain, err)
	}
	if alone.Holds(sealed) || alone.Holds(nil) || !alone.Holds(renewed) {
		t.Fatal("the ring does not know which keys it holds")
	}
}

func TestKeyringRejectsAmbiguousIDs(t *testing.T) {
	if _, err := NewKeyring(testKey("a", 1), testKey("a", 2)); err == nil {
		t.Error("two keys under one id")
	}
	if _, err := NewKeyring(testKey("", 1)); err == nil {
		t.Error("empty id")
	}
	if _, err := NewKeyring(testKey("a", 1), testKey("a", 1)); err != nil {
		t.Errorf("the same key twice: %v", err)
	}
}

func TestParseKey(t *testing.T) {
	good := testKey("x", 9).Secret
	sequence := make([]byte, 32)
	for i := range sequence {
		sequence[i] = byte(i * 3)
	}
	encode := base64.StdEncoding.EncodeToString
	for name, c := range map[string]struct {
		text string
		id   string
		ok   bool
	}{
		"plain":          {encode(good[:]), Fingerprint(good), true},
		"with id":        {"k1:" + encode(good[:]), "k1", true},
		"line end":       {encode(good[:]) + "\n", Fingerprint(good), true},
		"empty":          {"", "", false},
		"short":          {encode(good[:31]), "", false},
		"long":           {encode(append(good[:], 1)), "", false},
		"hex":            {strings.Repeat("0f", 32), "", false},
		"zeros":          {encode(make([]byte, 32)), "", false},
		"one byte":       {encode(bytes.Repeat([]byte{7}, 32)), "", false},
		"low variety":    {encode(bytes.Repeat([]byte("abcd"), 8)), "", false},
		"sequence":       {encode(sequence), "", false},
		"empty id":       {":" + encode(good[:]), "", false},
		"URL-safe":       {strings.NewReplacer("+", "-", "/", "_").Replace(encode(bytes.Repeat([]byte{0xfb, 0xff}, 16))), "", false},
		"without filler": {strings.TrimRight(encode(good[:]), "="), "", false},
	} {
		key, err := ParseKey(c.text)
		if (err == nil) != c.ok || key.ID != c.id {
			t.Errorf("%s: id %q, %v", name, key.ID, err)
		}
		if err != nil && c.text != "" && strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: the error shows the key", name)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", testKey("x", 9), testKey("x", 9), testKey("x", 9), testKey("x", 9)); strings.Contains(text, fmt.Sprint(good[0], good[1])) {
		t.Error("printing a key shows its secret")
	}
}
