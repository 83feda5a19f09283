package signature_test

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/internal/secret/signature"
)

func TestACallbackSignatureHasOneSpelling(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-battery"
	body := []byte(`{"id":"x"}`)
	right := signature.CallbackV1(secret, body)
	for name, c := range map[string]struct {
		values []string
		body   string
		want   string // "" if it is valid
	}{
		"right":                  {[]string{right}, string(body), ""},
		"none":                   {nil, string(body), signature.ErrUnsigned.Error()},
		"empty":                  {[]string{""}, string(body), "does not start with hmac-sha256-v1="},
		"twice":                  {[]string{right, right}, string(body), "occurs 2 times"},
		"another algorithm":      {[]string{strings.Replace(right, "v1", "v2", 1)}, string(body), "does not start with"},
		"the digest alone":       {[]string{strings.TrimPrefix(right, "hmac-sha256-v1=")}, string(body), "does not start with"},
		"upper-case digits":      {[]string{"hmac-sha256-v1=" + strings.ToUpper(strings.TrimPrefix(right, "hmac-sha256-v1="))}, string(body), "lower-case"},
		"a digit short":          {[]string{right[:len(right)-1]}, string(body), "64 lower-case"},
		"a blank behind":         {[]string{right + " "}, string(body), "64 lower-case"},
		"another body":           {[]string{right}, `{"id": "x"}`, signature.ErrMismatch.Error()},
		"another secret":         {[]string{signature.CallbackV1("other", body)}, string(body), signature.ErrMismatch.Error()},
		"a secret with line end": {[]string{signature.CallbackV1(secret+"\n", body)}, string(body), signature.ErrMismatch.Error()},
	} {
		err := signature.CheckCallbackV1(secret, c.values, []byte(c.body))
		switch {
		case (err == nil) != (c.want == ""):
			t.Errorf("%s: %v", name, err)
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		case err != nil && strings.Contains(err.Error(), "horse"):
			t.Errorf("%s: the error contains the secret: %v", name, err)
		}
	}
}

func TestAStandardWebhookIsValidWithinFiveMinutes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1795256130, 0)
	body := []byte(`{"x":1}`)
	const secret = "correct-horse-battery"
	for _, secret := range []string{secret, "whsec_" + base64.StdEncoding.EncodeToString([]byte(secret))} {
		made := func(id string, at time.Time) signature.Webhook {
			return signature.Webhook{
				ID: []string{id}, Timestamp: []string{strconv.FormatInt(at.Unix(), 10)},
				Signature: []string{signature.StandardWebhook(secret, id, at, body)},
			}
		}
		with := func(change func(*signature.Webhook)) signature.Webhook {
			h := made("a", now)
			change(&h)
			return h
		}
		for name, c := range map[string]struct {
			headers signature.Webhook
			want    string // "" if it is valid
		}{
			"right":               {made("a", now), ""},
			"five minutes old":    {made("a", now.Add(-5*time.Minute)), ""},
			"older":               {made("a", now.Add(-301*time.Second)), signature.ErrExpired.Error() + ": 5m1s in the past, more than 5m0s"},
			"five minutes ahead":  {made("a", now.Add(5*time.Minute)), ""},
			"further ahead":       {made("a", now.Add(301*time.Second)), signature.ErrInFuture.Error() + ": 5m1s in the future"},
			"nothing":             {signature.Webhook{}, signature.ErrUnsigned.Error()},
			"no signature":        {with(func(h *signature.Webhook) { h.Signature = nil }), "must each occur once"},
			"two times":           {with(func(h *signature.Webhook) { h.Timestamp = append(h.Timestamp, h.Timestamp[0]) }), "must each occur once"},
			"an empty id":         {with(func(h *signature.Webhook) { h.ID[0] = "" }), "must each occur once"},
			"another id":          {with(func(h *signature.Webhook) { h.ID[0] = "b" }), signature.ErrMismatch.Error()},
			"a time with zeros":   {with(func(h *signature.Webhook) { h.Timestamp[0] = "0" + h.Timestamp[0] }), "not a whole number of seconds"},
			"a time with a sign":  {with(func(h *signature.Webhook) { h.Timestamp[0] = "+" + h.Timestamp[0] }), "not a whole number of seconds"},
			"another time":        {with(func(h *signature.Webhook) { h.Timestamp[0] = "1795256131" }), signature.ErrMismatch.Error()},
			"one of several":      {with(func(h *signature.Webhook) { h.Signature[0] = "v1,eA== v2,x " + h.Signature[0] }), ""},
			"without its version": {with(func(h *signature.Webhook) { h.Signature[0] = h.Signature[0][3:] }), signature.ErrMismatch.Error()},
		} {
			err := c.headers.Check(secret, body, now)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
		if err := made("a", now).Check("another", body, now); !errors.Is(err, signature.ErrMismatch) {
			t.Errorf("another secret: %v", err)
		}
	}
}
