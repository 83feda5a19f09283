package signature_test

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// given is testdata/requests.json. The scripts next to it made this file and the vectors.
type given struct {
	APISecret string    `json:"apiSecret"`
	Requests  []request `json:"requests"`
	Callbacks []struct {
		Name, Secret, ID, Body string
		Timestamp              int64
	} `json:"callbacks"`
}

type request struct {
	Name, Method, Target, Timestamp, Body, SignedBody string
}

type vectors struct {
	Signer    string
	Requests  []struct{ Name, Signature string }
	Callbacks []struct{ Name, CallbackV1, StandardWebhook string }
}

func load[T any](t testing.TB, file string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var value T
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return value
}

var signers = []string{"vectors-node.json", "vectors-python.json", "vectors-go.json"}

func publicKey(t testing.TB, in given) ed25519.PublicKey {
	t.Helper()
	private, err := signature.ParseSecret(in.APISecret)
	if err != nil {
		t.Fatal(err)
	}
	return private.Public().(ed25519.PublicKey)
}

func TestAU01VectorsOfThreeSignersAreAccepted(t *testing.T) {
	in := load[given](t, "requests.json")
	public := publicKey(t, in)
	for _, file := range signers {
		made := load[vectors](t, file)
		if len(made.Requests) != len(in.Requests) {
			t.Fatalf("%s has %d vectors for %d requests", file, len(made.Requests), len(in.Requests))
		}
		for i, r := range in.Requests {
			t.Run(made.Signer+"/"+r.Name, func(t *testing.T) {
				sig, err := signature.ParseSignature(made.Requests[i].Signature)
				if err != nil {
					t.Fatal(err)
				}
				if !signature.Signable(r.Method, r.Target, r.Timestamp) {
					t.Fatal("not signable")
				}
				message := signature.Message(r.Method, r.Target, r.Timestamp, strictjson.Compact([]byte(r.Body)))
				if !signature.Verify(public, message, sig) {
					t.Fatalf("refused; message %q", message)
				}
			})
		}
	}
}

func TestAU05SamplesAreSignedOverTheirCompactForm(t *testing.T) {
	in := load[given](t, "requests.json")
	public, samples := publicKey(t, in), 0
	made := load[vectors](t, "vectors-node.json")
	for i, r := range in.Requests {
		if r.Body == r.SignedBody || r.Body == "" {
			continue // sent compact
		}
		samples++
		sig, err := signature.ParseSignature(made.Requests[i].Signature)
		if err != nil {
			t.Fatal(err)
		}
		raw := signature.Message(r.Method, r.Target, r.Timestamp, []byte(r.Body))
		if signature.Verify(public, raw, sig) {
			t.Errorf("%s: the spaced bytes verify although the compact bytes were signed", r.Name)
		}
		compact := signature.Message(r.Method, r.Target, r.Timestamp, []byte(r.SignedBody))
		if !signature.Verify(public, compact, sig) {
			t.Errorf("%s: the compact form does not verify", r.Name)
		}
	}
	if samples != 17 {
		t.Errorf("%d spaced samples, want 17", samples)
	}
}

func TestCB23CallbackSignaturesEqualThoseOfOtherLanguages(t *testing.T) {
	in := load[given](t, "requests.json")
	for _, file := range signers {
		made := load[vectors](t, file)
		for i, c := range in.Callbacks {
			t.Run(made.Signer+"/"+c.Name, func(t *testing.T) {
				want := made.Callbacks[i]
				if got := signature.CallbackV1(c.Secret, []byte(c.Body)); got != want.CallbackV1 {
					t.Errorf("CallbackV1 = %s, want %s", got, want.CallbackV1)
				}
				got := signature.StandardWebhook(c.Secret, c.ID, time.Unix(c.Timestamp, 0), []byte(c.Body))
				if got != want.StandardWebhook {
					t.Errorf("StandardWebhook = %s, want %s", got, want.StandardWebhook)
				}
			})
		}
	}
}
