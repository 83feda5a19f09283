package cli_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/weft-automation/weft/internal/local/pgtest"
	"github.com/weft-automation/weft/internal/program/cli"
)

// terminal opens a pseudo-terminal. Text that is written to person is typed on the terminal.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	var number, unlocked int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, failure := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(value))); failure != 0 {
			t.Fatal(failure)
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

func TestPasswordIsTypedTwiceOnATerminal(t *testing.T) {
	environ := []string{"DATABASE_URL=" + pgtest.DSN(t)}
	const password = "correct horse battery staple\n"
	person, program := terminal(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		typed string
		stdin *os.File
		code  int
		want  string
	}{
		{password + "correct horse battery stable\n", program, 1, "are not the same"},
		{password + password, program, 0, "is an owner"},
		{"", null, 1, "the password is missing"},
	} {
		if _, err := person.WriteString(c.typed); err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		email := fmt.Sprintf("ada%d@example.org", len(c.typed))
		code := cli.Run(t.Context(), cli.Process{
			Args: []string{"admin", "owner", "Acme", email, "--new-workspace"}, Environ: environ, Stdin: c.stdin, Stderr: &stderr,
		})
		if code != c.code || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("code %d, %q; want %d, %q", code, stderr.String(), c.code, c.want)
		}
	}
}
