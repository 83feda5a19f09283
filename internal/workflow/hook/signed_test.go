package hook

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
)

// Each algorithm, encoding, form of the header, number of signatures, secret and clock is combined
// with each other.
func TestSignaturesAreVerifiedInEveryForm(t *testing.T) {
	t.Parallel()
	algorithms := map[api.VerificationAlgorithm]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}
	encodings := []struct {
		name   api.VerificationEncoding
		encode func([]byte) string
	}{
		{"hex", hex.EncodeToString}, {"hex", func(raw []byte) string { return strings.ToUpper(hex.EncodeToString(raw)) }},
		{"base64", base64.StdEncoding.EncodeToString}, {"base64", base64.RawStdEncoding.EncodeToString},
		{"base64url", base64.URLEncoding.EncodeToString}, {"base64url", base64.RawURLEncoding.EncodeToString},
	}
	now, body := time.Unix(1795256130, 0), []byte(`{"x": 1}`)
	known := secrets{current: secret, previous: "the-secret-before"}
	clocks := map[time.Duration]string{0: "", -5 * time.Minute: "", 5 * time.Minute: "", -301 * time.Second: timestampExpired, 301 * time.Second: timestampInFuture}
	for algorithm, function := range algorithms {
		for _, encoding := range encodings {
			for form, settings := range map[string]api.NewVerification{
				"element": {Element: new("v1"), TimestampElement: new("t")}, "header": {TimestampHeader: new("X-Time")}, "prefix": {TimestampHeader: new("X-Time"), Prefix: new("v0=")},
			} {
				settings.Scheme, settings.Header, settings.SignedText = new(api.VerificationSchemeTimestampedHmac), new("X-Mac"), new("{timestamp}.{body}")
				settings.Algorithm, settings.Encoding = &algorithm, &encoding.name
				v := made(t, settings)
				for _, key := range []string{known.current, known.previous, "another-secret"} {
					for _, signatures := range []int{1, 2} {
						for skew, want := range clocks {
							at := strconv.FormatInt(now.Add(skew).Unix(), 10)
							texts := []string{encoding.encode(digest(function, key, []byte(at+"."+string(body))))}
							if signatures == 2 {
								texts = append([]string{encoding.encode(digest(function, "another-secret", body))}, texts...)
							}
							header := http.Header{"X-Time": {at}}
							switch form {
							case "element":
								header = http.Header{"X-Mac": {"t=" + at + ",v1=" + strings.Join(texts, ",v1=") + ",v0=00"}}
							case "prefix":
								for _, text := range texts {
									header.Add("X-Mac", "v0="+text)
								}
							default:
								header["X-Mac"] = texts
							}
							if key == "another-secret" {
								want = invalidSignature // whatever the clock
							}
							if got := verify(v, known, header, body, now); got != want {
								t.Errorf("%s %s %s, %d signatures, %s, %v: got %q, want %q", algorithm, encoding.name, form, signatures, key, skew, got, want)
							}
						}
					}
				}
			}
		}
	}
}

func TestTimestampsHaveThreeForms(t *testing.T) {
	t.Parallel()
	v := made(t, api.NewVerification{
		Scheme: new(api.VerificationSchemeTimestampedHmac), Header: new("X-Mac"), SignedText: new("{timestamp}:{id}:{body}"), TimestampHeader: new("X-Time"), IDHeader: new("X-Id"),
	})
	now := time.Unix(1795256130, 0)
	for at, want := range map[string]string{
		"1795256130": "", "1795256130999": "", now.UTC().Format(time.RFC3339): "", now.Format("2006-01-02T15:04:05.999-07:00"): "",
		"01795256130": malformedSignature, "1795256130.5": malformedSignature, "+1795256130": malformedSignature, "now": malformedSignature,
		"17952561309990": malformedSignature, "179525613": timestampExpired, "2026-11-21": malformedSignature,
	} {
		for id, again := range map[string]string{"a-1": want, "a:1": malformedSignature} {
			header := http.Header{"X-Time": {at}, "X-Id": {id}, "X-Mac": {hex.EncodeToString(digest(sha256.New, secret, []byte(at+":"+id+":{}")))}}
			if got := verify(v, secrets{current: secret}, header, []byte("{}"), now); got != again {
				t.Errorf("%s, %s: got %q, want %q", at, id, got, again)
			}
		}
	}
}

// A stranger learns nothing about times: only a valid signature is judged by its time.
func TestTheSignatureIsCheckedBeforeTheTime(t *testing.T) {
	t.Parallel()
	stripe, now := made(t, api.NewVerification{Preset: new(api.VerificationPresetStripe)}), time.Unix(1795256130, 0)
	wrong := strings.Repeat("0", 64)
	for name, c := range map[string]struct{ header, want string }{
		"an old time":     {"t=1,v1=" + wrong, invalidSignature},
		"no time":         {"v1=" + wrong, malformedSignature},
		"two times":       {"t=1795256130,t=1795256130,v1=" + hex.EncodeToString(digest(sha256.New, secret, []byte("1795256130.{}"))), malformedSignature},
		"no signature":    {"t=1795256130", malformedSignature},
		"another scheme":  {"t=1795256130,v0=" + wrong, malformedSignature},
		"21 signatures":   {"t=1795256130" + strings.Repeat(",v1="+wrong, 20) + ",v1=" + hex.EncodeToString(digest(sha256.New, secret, []byte("1795256130.{}"))), malformedSignature},
		"20 signatures":   {"t=1795256130" + strings.Repeat(",v1="+wrong, 19) + ",v1=" + hex.EncodeToString(digest(sha256.New, secret, []byte("1795256130.{}"))), ""},
		"with spaces":     {"t=1795256130, v1=" + hex.EncodeToString(digest(sha256.New, secret, []byte("1795256130.{}"))), ""},
		"ten minutes old": {"t=1795255530,v1=" + hex.EncodeToString(digest(sha256.New, secret, []byte("1795255530.{}"))), timestampExpired},
	} {
		if got := verify(stripe, secrets{current: secret}, http.Header{"Stripe-Signature": {c.header}}, []byte("{}"), now); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	standard := made(t, api.NewVerification{Preset: new(api.VerificationPresetStandardWebhooks)})
	header := http.Header{"Svix-Id": {"a"}, "Svix-Timestamp": {"1"}, "Svix-Signature": {"v1,x"}}
	if got := verify(standard, secrets{current: secret}, header, nil, now); got != invalidSignature {
		t.Errorf("Standard Webhooks: %q", got)
	}
}

// The texts and signatures are the examples of the senders' documentation and libraries: Slack
// (Verifying requests from Slack), GitHub (Validating webhook deliveries), Standard Webhooks and Svix
// (the tests of their libraries).
func TestExamplesOfSendersAreVerifiedByTheirPresets(t *testing.T) {
	t.Parallel()
	const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	for name, c := range map[string]struct {
		preset       api.VerificationPreset
		secret, body string
		at           int64
		header       http.Header
	}{
		"Slack": {"slack", "8f742231b10e8888abcd99yyyzzz85a5", slackBody, 1531420618, http.Header{
			"X-Slack-Request-Timestamp": {"1531420618"}, "X-Slack-Signature": {"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
		}},
		"GitHub": {"github", "It's a Secret to Everybody", "Hello, World!", 0, http.Header{
			"X-Hub-Signature-256": {"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
		}},
		"Standard Webhooks": {"standardWebhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`, 1614265330, http.Header{
			"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"}, "Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		}},
		"Svix": {"standardWebhooks", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`, 1614265330, http.Header{
			"Svix-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Svix-Timestamp": {"1614265330"}, "Svix-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		}},
		"Stripe": {"stripe", "whsec_test_secret", `{"id":"evt_1"}`, 1492774577, http.Header{
			"Stripe-Signature": {"t=1492774577,v1=" + hex.EncodeToString(digest(sha256.New, "whsec_test_secret", []byte(`1492774577.{"id":"evt_1"}`)))},
		}},
		"Shopify": {"shopify", "hush-hush", `{"id":1}`, 0, http.Header{
			"X-Shopify-Hmac-Sha256": {base64.StdEncoding.EncodeToString(digest(sha256.New, "hush-hush", []byte(`{"id":1}`)))},
		}},
	} {
		given := api.NewVerification{Preset: &c.preset, Secret: &c.secret}
		v, known, err := check(&given, secrets{}, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := verify(v, known, c.header, []byte(c.body), time.Unix(c.at, 0)); got != "" {
			t.Errorf("%s: %s", name, got)
		}
		if got := verify(v, known, c.header, []byte(c.body+" "), time.Unix(c.at, 0)); got != invalidSignature {
			t.Errorf("%s, another body: %s", name, got)
		}
		if got := verify(v, secrets{current: "the-next-secret", previous: c.secret}, c.header, []byte(c.body), time.Unix(c.at, 0)); got != "" {
			t.Errorf("%s, after a rotation: %s", name, got)
		}
	}
}

func TestATokenIsComparedExactly(t *testing.T) {
	t.Parallel()
	bearer, own := made(t, api.NewVerification{Scheme: new(api.VerificationSchemeToken)}), made(t, api.NewVerification{Scheme: new(api.VerificationSchemeToken), Header: new("X-Key")})
	for _, c := range []struct {
		v      api.Verification
		header http.Header
		want   string
	}{
		{bearer, http.Header{"Authorization": {"Bearer " + secret}}, ""}, {bearer, http.Header{"Authorization": {"Bearer the-secret-before"}}, ""},
		{bearer, http.Header{"Authorization": {secret}}, malformedSignature}, {bearer, http.Header{"Authorization": {"Bearer " + secret + " "}}, invalidSignature}, {bearer, http.Header{}, missingSignature},
		{own, http.Header{"X-Key": {secret}}, ""}, {own, http.Header{"X-Key": {strings.ToUpper(secret)}}, invalidSignature}, {own, http.Header{"X-Key": {secret, secret}}, malformedSignature},
	} {
		if got := verify(c.v, secrets{current: secret, previous: "the-secret-before"}, c.header, nil, time.Now()); got != c.want {
			t.Errorf("%s %v: got %q, want %q", c.v.Header, c.header, got, c.want)
		}
	}
	raw, err := inputOf(own, http.Header{"X-Key": {secret}}, nil)
	if err != nil || strings.Contains(string(raw), "x-key") {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestFaultsOfAVerificationHavePointers(t *testing.T) {
	t.Parallel()
	timed := func(change func(*api.NewVerification)) api.NewVerification {
		v := api.NewVerification{Scheme: new(api.VerificationSchemeTimestampedHmac), Header: new("X-Mac"), SignedText: new("{timestamp}.{body}"), TimestampHeader: new("X-Time")}
		change(&v)
		return v
	}
	text := func(text string) api.NewVerification {
		return timed(func(v *api.NewVerification) { v.SignedText, v.IDHeader = &text, new("X-Id") })
	}
	for name, c := range map[string]struct {
		given   api.NewVerification
		pointer string
	}{
		"no body":                   {text("{timestamp}.{id}"), "signedText"},
		"two bodies":                {text("{body}.{body}"), "signedText"},
		"an unknown name":           {text("{timestamp}.{url}.{body}"), "signedText"},
		"no separator":              {text("{timestamp}{body}"), "signedText"},
		"a digit next to the time":  {text("{timestamp}0{body}"), "signedText"},
		"an open brace":             {text("{timestamp}.{body"), "signedText"},
		"a reference":               {text("{{timestamp}}.{body}"), "signedText"},
		"no text":                   {timed(func(v *api.NewVerification) { v.SignedText = nil }), "signedText"},
		"no header":                 {timed(func(v *api.NewVerification) { v.Header = nil }), "header"},
		"no source of the time":     {timed(func(v *api.NewVerification) { v.TimestampHeader = nil }), "timestampHeader"},
		"two sources of the time":   {timed(func(v *api.NewVerification) { v.TimestampElement, v.Element = new("t"), new("v1") }), "timestampElement"},
		"a time element alone":      {timed(func(v *api.NewVerification) { v.TimestampHeader, v.TimestampElement = nil, new("t") }), "element"},
		"an ID that is not signed":  {timed(func(v *api.NewVerification) { v.IDHeader = new("X-Id") }), "idHeader"},
		"a time that is not signed": {timed(func(v *api.NewVerification) { v.SignedText = new("v0:{body}") }), "timestampHeader"},
		"a tolerance without a time": {timed(func(v *api.NewVerification) {
			v.SignedText, v.TimestampHeader, v.ToleranceSeconds = new("v0:{body}"), nil, new(int32(60))
		}), "toleranceSeconds"},
		"a tolerance of hmac":          {api.NewVerification{Header: new("X-Mac"), ToleranceSeconds: new(int32(60))}, "toleranceSeconds"},
		"a tolerance of GitHub":        {api.NewVerification{Preset: new(api.VerificationPresetGithub), ToleranceSeconds: new(int32(60))}, "toleranceSeconds"},
		"a header over a preset":       {api.NewVerification{Preset: new(api.VerificationPresetStripe), Header: new("X-Mac")}, "header"},
		"a scheme over a preset":       {api.NewVerification{Preset: new(api.VerificationPresetStripe), Scheme: new(api.VerificationSchemeHmac)}, "scheme"},
		"signedText of hmac":           {api.NewVerification{Header: new("X-Mac"), SignedText: new("{body}")}, "signedText"},
		"an algorithm of a token":      {api.NewVerification{Scheme: new(api.VerificationSchemeToken), Algorithm: new(api.VerificationAlgorithmSha1)}, "algorithm"},
		"a short previous secret":      {api.NewVerification{Header: new("X-Mac"), PreviousSecret: new("short")}, "previousSecret"},
		"a variable":                   {api.NewVerification{Header: new("X-Mac"), PreviousSecret: new("{{env.OLD_SECRET}}")}, "previousSecret"},
		"a secret that is not hex":     {api.NewVerification{Header: new("X-Mac"), SecretEncoding: new(api.VerificationSecretEncodingHex)}, "secret"},
		"a secret that is not base64":  {api.NewVerification{Header: new("X-Mac"), SecretEncoding: new(api.VerificationSecretEncodingBase64)}, "secret"},
		"a previous secret, malformed": {api.NewVerification{Preset: new(api.VerificationPresetStandardWebhooks), PreviousSecret: new("whsec_not-base64")}, "previousSecret"},
	} {
		c.given.Secret = new(secret)
		_, _, err := check(&c.given, secrets{}, "")
		refused, _ := errors.AsType[*fault.Error](err)
		if refused == nil || refused.Code != fault.InvalidInput || len(refused.Details) != 1 || refused.Details[0].Pointer != "/verification/"+c.pointer {
			t.Errorf("%s: %v; want a fault at %s", name, err, c.pointer)
		}
	}
}

// An absent previous secret is kept, an empty one is removed.
func TestAPreviousSecretIsKeptAndRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want *string }{"absent": {nil, new("the-secret-before")}, "empty": {new(""), new("")}, "another": {new("a-third-secret"), new("a-third-secret")}} {
		_, kept, err := check(&api.NewVerification{Header: new("X-Mac"), PreviousSecret: c.given}, secrets{current: secret, previous: "the-secret-before"}, api.VerificationSchemeHmac)
		if err != nil || kept.previous != *c.want || kept.current != secret {
			t.Errorf("%s: %+v, %v", name, kept, err)
		}
	}
}

// Without a signature of the ID, what is signed identifies a delivery too.
func TestDeliveriesAreRecognizedByWhatIsSigned(t *testing.T) {
	t.Parallel()
	token := api.VerificationSchemeToken
	d := Delivery{Header: http.Header{"X-Time": {"1"}, "X-Slack-Request-Timestamp": {"1"}, "X-Id": {"a"}}, Body: []byte("{}")}
	for name, c := range map[string]struct {
		given api.NewVerification
		marks int
	}{
		"hmac":            {api.NewVerification{Header: new("X-Mac"), DeliveryHeader: new("X-Id")}, 2},
		"token":           {api.NewVerification{Scheme: &token, DeliveryHeader: new("X-Id")}, 1},
		"slack":           {api.NewVerification{Preset: new(api.VerificationPresetSlack), DeliveryHeader: new("X-Id")}, 2},
		"standard":        {api.NewVerification{Preset: new(api.VerificationPresetStandardWebhooks)}, 1},
		"standard, other": {api.NewVerification{Preset: new(api.VerificationPresetStandardWebhooks), DeliveryHeader: new("X-Id")}, 2},
		"signed ID":       {api.NewVerification{Scheme: new(api.VerificationSchemeTimestampedHmac), Header: new("X-Mac"), SignedText: new("{id}.{body}"), IDHeader: new("X-Id"), DeliveryHeader: new("x-id")}, 1},
	} {
		v := made(t, c.given)
		first, later := d, d
		first.Header, later.Header = d.Header.Clone(), d.Header.Clone()
		first.Header.Set(*v.DeliveryHeader, "a")
		later.Header.Set(*v.DeliveryHeader, "b")
		later.Header.Set("X-Slack-Request-Timestamp", "2")
		marks, err := deliveryMarks(v, first, nil)
		again, failed := deliveryMarks(v, later, nil)
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if len(marks) != c.marks || slices.Equal(marks[0], again[0]) {
			t.Errorf("%s: %d marks, want %d", name, len(marks), c.marks)
		}
		if repeated := c.marks == 2 && slices.Equal(marks[1], again[1]); repeated != (name == "hmac" || name == "standard, other") {
			t.Errorf("%s: the same body at another time is a repeat: %v", name, repeated)
		}
	}
}

// Without a header with an ID, the field of the body identifies a delivery, and else its signed text.
func TestDeliveriesAreIdentifiedByFieldOrSignedText(t *testing.T) {
	t.Parallel()
	token, timed := api.VerificationSchemeToken, api.VerificationSchemeTimestampedHmac
	described := api.NewVerification{Scheme: &timed, Header: new("X-Mac"), SignedText: new("{timestamp}.{body}"), TimestampHeader: new("X-Time")}
	untimed := api.NewVerification{Scheme: &timed, Header: new("X-Mac"), SignedText: new("a.{body}")}
	nested := api.NewVerification{Scheme: &token, DeliveryField: new("/a~1b/1/~0")}
	slack, stripe := api.NewVerification{Preset: new(api.VerificationPresetSlack)}, api.NewVerification{Preset: new(api.VerificationPresetStripe)}
	other := api.NewVerification{Preset: new(api.VerificationPresetStripe), DeliveryField: new("/key")}
	github := api.NewVerification{Preset: new(api.VerificationPresetGithub), DeliveryField: new("/n")}
	for name, c := range map[string]struct {
		given       api.NewVerification
		body, again string // of two deliveries with different times
		same        bool   // the second one is a repeat of the first
		none        bool   // each delivery starts a run
		fault       string
	}{
		"Stripe":              {given: stripe, body: `{"id":"evt_1"}`, again: `{"id":"evt_1","more":1}`, same: true},
		"Stripe, another ID":  {given: stripe, body: `{"id":"evt_1"}`, again: `{"id":"evt_2"}`},
		"Slack":               {given: slack, body: `{"event_id":"Ev1"}`, again: `{"event_id":"Ev1"}`, same: true},
		"Slack, a command":    {given: slack, body: `{"command":"/weather"}`, again: `{"command":"/weather"}`},
		"a pointer":           {given: nested, body: `{"a/b":[0,{"~":7}]}`, again: `{"a/b":[1,{"~":7}]}`, same: true},
		"a large number":      {given: github, body: `{"n":9007199254740993}`, again: `{"n":9007199254740992}`},
		"a missing field":     {given: nested, body: `{"a/b":[0]}`, fault: "/body/a~1b/1/~0"},
		"an object":           {given: other, body: `{"key":{}}`, fault: "/body/key"},
		"an empty ID":         {given: other, body: `{"key":""}`, fault: "/body/key"},
		"a string":            {given: other, body: `"x"`, fault: "/body/key"},
		"a described hook":    {given: described, body: `{}`, again: `{}`},
		"no time in the text": {given: untimed, body: `{}`, none: true},
	} {
		v := made(t, c.given)
		marks := func(time, body string) ([][]byte, error) {
			d := Delivery{Body: []byte(body), Header: http.Header{"X-Time": {time}, "X-Slack-Request-Timestamp": {time}, "Stripe-Signature": {"t=" + time + ",v1=00"}}}
			return deliveryMarks(v, d, []byte(`{"body":`+body+`}`))
		}
		first, err := marks("1", c.body)
		if c.fault != "" {
			if failure, ok := errors.AsType[*fault.Error](err); !ok || failure.Details[0].Pointer != c.fault {
				t.Errorf("%s: %v; want %s", name, err, c.fault)
			}
			continue
		}
		again, failed := marks("2", c.again)
		if err != nil || failed != nil && c.again != "" {
			t.Fatalf("%s: %v, %v", name, err, failed)
		}
		if c.none {
			if len(first) > 0 {
				t.Errorf("%s: each delivery must start a run", name)
			}
			continue
		}
		if same := slices.Equal(first[0], again[0]); same != c.same {
			t.Errorf("%s: a repeat: %v", name, same)
		}
		if twice, _ := marks("1", c.body); !slices.Equal(first[0], twice[0]) {
			t.Errorf("%s: the same signed text is not a repeat", name)
		}
	}
	if _, _, err := check(&api.NewVerification{Secret: new(secret), Header: new("X"), DeliveryHeader: new("X-Id"), DeliveryField: new("/id")}, secrets{}, ""); err == nil || !strings.Contains(err.Error(), "/verification/deliveryField") {
		t.Errorf("a header and a field: %v", err)
	}
}
