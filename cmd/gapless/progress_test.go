package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestACommandThatTakesLongSaysHowFarItIs restores from a pipe whose writer rests.
func TestACommandThatTakesLongSaysHowFarItIs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "a.backup")
	served(t, data, func(string, func(method, path, body string) string) {})
	code, out, stderr := command(t, "backup", file, "--data-dir", data, "-q")
	if code != exitOK || out+stderr != "" {
		t.Fatalf("a backup that is to be quiet: exit code %d\n%s%s", code, out, stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	far := regexp.MustCompile(`(?m)^read \d+ of \d+ \(\d+%\)`)
	for name, test := range map[string]struct {
		args []string
		want bool
	}{
		"told":       {[]string{"restore", "-", filepath.Join(dir, "told")}, true},
		"quiet":      {[]string{"restore", "-", filepath.Join(dir, "quiet"), "-q"}, false},
		"quiet long": {[]string{"restore", "-", filepath.Join(dir, "long"), "--quiet"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, writer := io.Pipe()
				go func() { // ends when it has written all
					_, _ = writer.Write(text[:len(text)/2])
					<-time.After(3 * time.Second)
					_, _ = writer.Write(text[len(text)/2:])
					_ = writer.Close() // it never fails
				}()
				var out, said bytes.Buffer
				if code := run(t.Context(), test.args, streams{in: in, out: &out, err: &said}); code != exitOK {
					t.Fatalf("exit code %d\n%s", code, &said)
				}
				if got := far.MatchString(said.String()); got != test.want || !test.want && said.Len() > 0 {
					t.Errorf("standard error has\n%s", &said)
				}
				if !strings.HasPrefix(out.String(), "restored ") || far.MatchString(out.String()) {
					t.Errorf("standard output has\n%s", &out)
				}
			})
		})
	}
}

func TestQuietCommandsReportTheirErrors(t *testing.T) {
	for _, args := range [][]string{
		{"restore", "--verify", "-q", "/nowhere"},
		{"fsck", "-q", "/nowhere"},
		{"backup", "-q", "x", "--data-dir", "/nowhere"},
		{"export", "-q", "x", "--kubeconfig", "/nowhere"},
		{"compact", "-q", "--to", "5", "--kubeconfig", "/nowhere"},
		{"migrate", "-q", "--from", "/nowhere", "--to", "http://127.0.0.1:1"},
	} {
		if code, _, stderr := command(t, args...); code != exitRunTime || !strings.HasPrefix(stderr, "error: ") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
}
