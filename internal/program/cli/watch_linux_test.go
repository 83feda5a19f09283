package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/program/cli"
)

func TestPushPrintsOneLineOnATerminal(t *testing.T) {
	person, program := terminal(t)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, workflowText) })
	var stderr strings.Builder
	code := cli.Run(t.Context(), cli.Process{
		Args: []string{"workflows", "push", "-"}, Environ: s.environ(), Stdin: strings.NewReader(workflowFile), Stdout: program, Stderr: &stderr,
	})
	if want := workflowID + "  Pause  version 3  ACTIVE\n"; code != 0 || stderr.String() != want {
		t.Errorf("%d, %q, want %q", code, stderr.String(), want)
	}
	fmt.Fprintln(program, "end")
	if shown, err := bufio.NewReader(person).ReadString('\n'); shown != "end\r\n" {
		t.Errorf("unexpected screen %q (%v)", shown, err)
	}
}

// A table fits a terminal: the columns of runs that matter least are left out.
func TestTablesFitTheTerminal(t *testing.T) {
	person, program := terminal(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		item := workflowText
		if strings.HasSuffix(r.URL.Path, "/executions") {
			item = runRecord("COMPLETED", "null", "null")
		}
		fmt.Fprintf(w, `{"data":[%s],"nextCursor":null,"hasMore":false}`, item)
	})
	code := cli.Run(t.Context(), cli.Process{Args: []string{"runs", "list", "--no-color"}, Environ: append(s.environ(), "COLUMNS=60"), Stdout: program, Stderr: program})
	fmt.Fprintln(program, "end")
	var screen strings.Builder
	for lines := bufio.NewScanner(person); lines.Scan() && lines.Text() != "end"; {
		screen.WriteString(lines.Text() + "\n")
	}
	if want := regexp.MustCompile(`^NAME   STATUS     STARTED +TOOK\nPause  COMPLETED  \d+d ago +1.25s\n$`); code != 0 || !want.MatchString(screen.String()) {
		t.Errorf("%d, %q, want %s", code, screen.String(), want)
	}
}

func TestPushAsksOnATerminalBeforeItReplaces(t *testing.T) {
	for answer, want := range map[string]string{"y\n": "PUT", "n\n": "", "\n": ""} {
		person, program := terminal(t)
		sent := ""
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				fmt.Fprintf(w, `{"data":[{"id":%q,"name":"Pause","version":3}],"hasMore":false}`, workflowID)
				return
			}
			sent = r.Method
			fmt.Fprint(w, workflowText)
		})
		fmt.Fprint(person, answer)
		code := cli.Run(t.Context(), cli.Process{Args: []string{"workflows", "push", writeYAML(t, workflowYAML)}, Environ: s.environ(), Stdin: program, Stdout: program, Stderr: program})
		if sent != want || (code == 0) != (want != "") {
			t.Errorf("after %q: %d, sent %q", answer, code, sent)
		}
		fmt.Fprintln(program, "end")
		var screen strings.Builder
		for lines := bufio.NewScanner(person); lines.Scan() && lines.Text() != "end"; {
			screen.WriteString(lines.Text())
		}
		if !strings.Contains(screen.String(), "This replaces version 3 of Pause ("+workflowID+"). Continue? [y/N]") {
			t.Errorf("unexpected screen %q", screen.String())
		}
	}
}

func TestRunIsDrawnOnATerminal(t *testing.T) {
	person, program := terminal(t)
	drawn := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/stream") {
			fmt.Fprint(w, runRecord("COMPLETED", "null", "null", stage("only", "[]", "COMPLETED", "null", "2026-11-21T10:16:00.100Z")))
			return
		}
		fmt.Fprint(w, runEvent(1, "EXECUTING", oneLives))
		_ = http.NewResponseController(w).Flush()
		<-drawn
		fmt.Fprint(w, runEvent(2, "COMPLETED", `{}`))
	})
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(t.Context(), cli.Process{Args: []string{"runs", "watch", runID}, Environ: s.environ(), Stdout: io.Discard, Stderr: program})
		fmt.Fprintln(program, "end")
	}()
	var screen strings.Builder
	over := false
	lines := bufio.NewScanner(person)
	lines.Split(bufio.ScanRunes)
	for lines.Scan() && !strings.HasSuffix(screen.String(), "end\r") {
		screen.WriteString(lines.Text())
		if !over && strings.Count(screen.String(), "1 more") == 2 { // redrawn
			over = true
			close(drawn)
			screen.WriteString("|")
		}
	}
	if code := <-ended; code != 0 {
		t.Errorf("code %d", code)
	}
	first, rest, _ := strings.Cut(screen.String(), "|")
	if !strings.Contains(first, "s\r\x1b[KEXECUTING  usage 0  pending 3  failed 1: M RUNNING x2, 1 more") {
		t.Errorf("unexpected picture %q", first)
	}
	if _, after, _ := strings.Cut(rest, "\r\x1b[KCOMPONENT"); !strings.Contains(after, "only       M       COMPLETED         100ms     1.5") {
		t.Errorf("the table did not replace the picture: %q", rest)
	}
}

// Every list fits a terminal of 60 columns, whatever it contains.
func TestEveryListFitsSixtyColumns(t *testing.T) {
	long := strings.Repeat("long ", 40)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":%q,"workflowId":%[1]q,"name":%q,"module":%[2]q,"value":%[2]q,"description":%[2]q,"cron":%[2]q,"timeZone":%[2]q,"category":%[2]q,"price":1,"totalUsage":1.5,
			"status":"COMPLETED","createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z"}],"nextCursor":null,"hasMore":false}`, workflowID, long)
	})
	_, all := commandsOf(t)
	for _, node := range all {
		if node.Name != "list" || !callsService(node) {
			continue
		}
		person, program := terminal(t)
		code := cli.Run(t.Context(), cli.Process{Args: append(strings.Fields(node.Path()), "--no-color"), Environ: append(s.environ(), "COLUMNS=60"), Stdout: program, Stderr: program})
		fmt.Fprintln(program, "end")
		lines := bufio.NewScanner(person)
		for lines.Scan() && lines.Text() != "end" {
			if line := lines.Text(); code != 0 || utf8.RuneCountInString(line) > 60 {
				t.Errorf("%s: code %d, %q", node.Path(), code, line)
			}
		}
	}
}

// BROWSER names a program here that stores its argument.
func TestOpenStartsTheBrowserOnATerminal(t *testing.T) {
	_, program := terminal(t)
	dir := t.TempDir()
	browser, visited := filepath.Join(dir, "browser"), filepath.Join(dir, "visited")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\nprintf %s \"$1\" > "+visited+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[%s],"hasMore":false}`, runRecord("COMPLETED", "null", "null"))
	})
	all := s.URL + "/console/019aa5f2-6c3e-7b11-9d0a-3f1c2b4a5d6e/runs"
	for _, c := range []struct {
		environ string
		args    []string
		want    string
	}{
		{"BROWSER=" + browser, []string{"open"}, all},
		{"BROWSER=" + browser, []string{"open", runID}, all + "/" + runID},
		{"BROWSER=" + browser, []string{"open", "--last"}, all + "/" + runID},
		{"BROWSER=" + browser, []string{"open", "--print"}, ""},
		{"BROWSER=" + filepath.Join(dir, "missing"), []string{"open"}, ""},
		{"DISPLAY=", []string{"open"}, ""},
	} {
		_ = os.Remove(visited)
		var stderr strings.Builder
		code := cli.Run(t.Context(), cli.Process{Args: c.args, Environ: append(s.environ(), c.environ), Stdout: program, Stderr: &stderr})
		address, _ := os.ReadFile(visited)
		if code != 0 || string(address) != c.want || strings.Contains(stderr.String(), "Opened "+all) != (c.want != "") {
			t.Errorf("%s %q: code %d, stderr %q, visited %q", c.environ, c.args, code, stderr.String(), address)
		}
	}
}
