package cli

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/uuid7"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// hooksTest sends an example of a sender to a hook.
type hooksTest struct {
	oneHook
	Preset string `default:"" enum:",stripe,slack,github,shopify,standardWebhooks" placeholder:"NAME" help:"Sender of the example: stripe, slack, github, shopify or standardWebhooks (the preset of the hook)."`
}

// maxAnswer limits the answer to an example.
const maxAnswer = 2 << 20

func (c *hooksTest) Run(s caller) error {
	raw, err := s.get(c.path())
	if err != nil {
		return err
	}
	var hook api.Hook
	if err := json.Unmarshal(raw, &hook); err != nil {
		return fmt.Errorf("read the hook: %w", err)
	}
	preset := api.VerificationPreset(c.Preset)
	if preset == "" && hook.Verification.Preset == nil {
		return usage("the hook has no preset: name the sender with --preset")
	}
	if preset == "" {
		preset = *hook.Verification.Preset
	}
	secret, err := hookSecret(s.session)
	if err != nil {
		return err
	}
	id, err := uuid7.New()
	if err != nil {
		return fmt.Errorf("make the ID of a delivery: %w", err)
	}
	header, body := exampleOf(preset, id.String(), secret, time.Now())
	address := strings.TrimSuffix(s.credentials.BaseURL, "/") + hook.Path
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the delivery: %w", err)
	}
	request.Header = header
	answer, err := (&http.Client{Transport: s.transport()}).Do(request)
	if err != nil {
		return fmt.Errorf("deliver: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	s.note("%s answered %s", address, answer.Status)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the delivery was rejected: %s", printable(strings.TrimSpace(string(text))))
	}
	return s.print(text, func(out io.Writer) error {
		var indented bytes.Buffer
		err := writeAs(&indented, "json", text)
		_, _ = indented.WriteTo(out) // a buffer, too
		return err
	})
}

// exampleOf returns an example of a sender, signed. Its ID and time are new, so that it is not a repeat.
// The body of Slack is the example in its documentation (Verifying requests from Slack).
func exampleOf(preset api.VerificationPreset, id, secret string, now time.Time) (http.Header, []byte) {
	seconds := strconv.FormatInt(now.Unix(), 10)
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"weft hooks test"}}
	sum := func(text string) []byte {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	var body string
	switch preset {
	case api.VerificationPresetStripe:
		body = `{"id":"evt_` + id + `","object":"event","api_version":"2024-06-20","created":` + seconds +
			`,"data":{"object":{"id":"pi_1","object":"payment_intent","amount":2000,"currency":"eur","status":"succeeded"}},"livemode":false,"pending_webhooks":1,"type":"payment_intent.succeeded"}`
		header.Set("Stripe-Signature", "t="+seconds+",v1="+hex.EncodeToString(sum(seconds+"."+body)))
	case api.VerificationPresetSlack:
		body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner" +
			"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
			"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		header.Set("X-Slack-Request-Timestamp", seconds)
		header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(sum("v0:"+seconds+":"+body)))
	case api.VerificationPresetGithub: // by default, a form
		body = url.Values{"payload": {`{"zen":"Keep it logically awesome.","hook_id":1,"delivery":"` + id + `","repository":{"full_name":"octocat/Hello-World"}}`}}.Encode()
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		header.Set("X-GitHub-Event", "ping")
		header.Set("X-GitHub-Delivery", id)
		header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum(body)))
	case api.VerificationPresetShopify:
		body = `{"id":820982911946154508,"token":"` + id + `","currency":"EUR","total_price":"59.95","financial_status":"paid","line_items":[{"id":466157049,"quantity":1,"price":"59.95"}]}`
		header.Set("X-Shopify-Topic", "orders/create")
		header.Set("X-Shopify-Webhook-Id", id)
		header.Set("X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(sum(body)))
	case api.VerificationPresetStandardWebhooks:
		body = `{"type":"contact.created","timestamp":"` + now.UTC().Format(time.RFC3339) + `","data":{"id":"` + id + `","first_name":"John"}}`
		header.Set("webhook-id", "msg_"+id)
		header.Set("webhook-timestamp", seconds)
		header.Set("webhook-signature", signature.StandardWebhook(secret, "msg_"+id, now, []byte(body)))
	}
	return header, []byte(body)
}
