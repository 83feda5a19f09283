package person_test

import (
	"testing"

	"github.com/weft-automation/weft/internal/account/person"
)

// A mark is valid for one password of one account, until the account's password changes.
func TestPasswordsAreRecognisedByTheirMark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const another = "another long password"
	recognise := func(password, last string) string {
		return person.Recognise(t.Context(), b.pool, b.owner.Email, password, last)
	}
	mark := recognise(password, "")
	if mark == "" || recognise(password, mark) != mark || recognise(password, "another mark") != mark {
		t.Errorf("the password has the mark %q, then another", mark)
	}
	if got := recognise(another, mark); got != "" {
		t.Errorf("a wrong password has the mark %q", got)
	}
	if _, err := person.SetPassword(t.Context(), b.pool, b.owner.Email, another, false); err != nil {
		t.Fatal(err)
	}
	if got := recognise(password, mark); got != "" {
		t.Errorf("the previous password has the mark %q", got)
	}
	next := recognise(another, mark)
	if next == "" || next == mark {
		t.Errorf("the next password has the mark %q", next)
	}
	if _, err := b.pool.Exec(t.Context(), "UPDATE users SET disabled_at = now()"); err != nil {
		t.Fatal(err)
	}
	if got := recognise(another, next); got != "" {
		t.Errorf("a disabled account has the mark %q", got)
	}
}
