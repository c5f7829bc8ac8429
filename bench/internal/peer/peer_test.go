package peer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheReadyLineIsTheFirstObject(t *testing.T) {
	f := &firstLine{got: make(chan []byte, 1)}
	for _, piece := range []string{"starting\n{\"ur", "l\":1}\n{\"url\":2}\n", "more\n"} {
		if n, err := f.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := string(<-f.got); got != `{"url":1}` || len(f.got) > 0 {
		t.Errorf("got %s, and %d more", got, len(f.got))
	}
}

func TestMemoryIsReadInBytes(t *testing.T) {
	if got, err := kilobytes([]byte("VmHWM:\t  40 kB\nVmRSS:\t    36 kB\n"), "VmRSS:"); err != nil || got != 36<<10 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := kilobytes([]byte("VmHWM:\t  40 kB\n"), "VmRSS:"); err == nil {
		t.Error("no error")
	}
}

func TestProgramThatExitsIsAnError(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho broken >&2\nexit 3\n"), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatalf("write a file: %v", err)
	}
	for _, name := range []string{Gapless, Upstream} {
		_, err := Program{Name: name, Path: program}.Start(t.Context(), filepath.Join(dir, name))
		if err == nil || !strings.Contains(err.Error(), "exit status 3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
