package mail_test

import (
	"strings"
	"testing"

	sender "github.com/weft-automation/weft/internal/platform/mail"
	"github.com/weft-automation/weft/internal/platform/mail/mailtest"
)

func TestMessageReachesTheRecipient(t *testing.T) {
	server := mailtest.Start(t)
	s, err := sender.NewSender(sender.Options{URL: server.URL, From: "Weft <weft@example.org>"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), "ada@example.org", "Invitation to Überfluß", "Hello\nhttps://weft.example.org/#token=abc\n"); err != nil {
		t.Fatal(err)
	}
	got := server.Next(t)
	if got.From != "weft@example.org" || got.To != "ada@example.org" {
		t.Errorf("the envelope is from %s to %s", got.From, got.To)
	}
	if got.Subject != "Invitation to Überfluß" || !strings.Contains(got.Text, "https://weft.example.org/#token=abc") {
		t.Errorf("subject %q, text %q", got.Subject, got.Text)
	}
}

func TestMessageIsNotSentWithoutTLSToAnotherMachine(t *testing.T) {
	server := mailtest.Start(t)
	// This address reaches the server too, but is not a loopback address.
	url := strings.Replace(server.URL, "127.0.0.1", "0.0.0.0", 1)
	s, err := sender.NewSender(sender.Options{URL: url, From: "weft@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), "ada@example.org", "x", "x"); err == nil {
		t.Error("a message was sent")
	}
}

func TestAServerThatRejectsAMessageIsAnError(t *testing.T) {
	server := mailtest.Start(t)
	server.Refuse()
	s, err := sender.NewSender(sender.Options{URL: server.URL, From: "weft@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(t.Context(), "ada@example.org", "x", "x"); err == nil {
		t.Error("a rejected message counts as sent")
	}
}

func TestInvalidRecipientsAreRejected(t *testing.T) {
	server := mailtest.Start(t)
	s, err := sender.NewSender(sender.Options{URL: server.URL, From: "weft@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"", "ada", "<ada@example.org>", "a@example.org,b@example.org", "a@example.org\r\nBcc: b@example.org"} {
		if err := s.Send(t.Context(), to, "x", "x"); err == nil {
			t.Errorf("%q was accepted", to)
		}
	}
}

func TestErrorsAboutSettingsHideThePassword(t *testing.T) {
	for _, url := range []string{
		"", "mail.example.org", "http://u:s3cret@mail.example.org", "smtp://u:s3cret@", "smtp://u:s3cret@host:99999", "smtp://u:s3cret@host/path", "smtp://u:s3cret%@host", "smtps://u:s3cret@host?x=1",
	} {
		_, err := sender.NewSender(sender.Options{URL: url, From: "weft@example.org"})
		if err == nil {
			t.Errorf("%q was accepted", url)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
	if _, err := sender.NewSender(sender.Options{URL: "smtps://mail.example.org", From: "weft"}); err == nil {
		t.Error("a sender that is not an address was accepted")
	}
}
