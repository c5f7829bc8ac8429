package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// owned returns a directory that a server may remove.
func owned(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "owned")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, ephemeralMark), nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return dir
}

func TestEphemeralServerEndsWithItsInputAndRemovesItsDirectory(t *testing.T) {
	dir := owned(t)
	in, owner := io.Pipe()
	ready := filepath.Join(dir, "ready.json")
	r := beginReading(t, in, "serve", "--ephemeral", dir, "--data-dir", filepath.Join(dir, "data"), "--unsafe-no-fsync",
		"--listen", "127.0.0.1:0", "--ready-file", ready)
	eventually(t, "the server is ready", func() bool { _, err := os.Stat(ready); return err == nil })
	if err := owner.Close(); err != nil {
		t.Fatalf("close owner: %v", err)
	}
	if code := <-r.code; code != exitRunTime || !strings.Contains(r.err.String(), errOwnerGone.Error()) {
		t.Errorf("code %d: %s", code, r.err.String())
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory: %v", err)
	}
}

func TestEphemeralServerThatIsStoppedKeepsItsDirectory(t *testing.T) {
	dir := owned(t)
	in, owner := io.Pipe()
	defer owner.Close() //nolint:errcheck // of a pipe in memory
	ready := filepath.Join(dir, "ready.json")
	r := beginReading(t, in, "serve", "--ephemeral", dir, "--data-dir", filepath.Join(dir, "data"), "--unsafe-no-fsync",
		"--listen", "127.0.0.1:0", "--ready-file", ready)
	eventually(t, "the server is ready", func() bool { _, err := os.Stat(ready); return err == nil })
	if code := r.end(); code != exitOK {
		t.Errorf("code %d: %s", code, r.err.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "log")); err != nil {
		t.Errorf("look at a file: %v", err)
	}
}

func TestEphemeralNeedsAMarkInTheDirectory(t *testing.T) {
	dir := t.TempDir()
	code, _, said := command(t, "serve", "--ephemeral", dir, "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")
	if code != exitUsage || !strings.Contains(said, ephemeralMark) {
		t.Errorf("code %d: %s", code, said)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("look at a file: %v", err)
	}
}

func TestRulesOfAnEarlierServerGoOnCounting(t *testing.T) {
	rules := file(t, "faults.json", `{"rules":[
		{"rule":{"name":"used-up","match":{"verbs":["list"]},"action":"too-many-requests","count":2},"matched":5,"acted":2,"inWindow":5},
		{"rule":{"name":"left","action":"unavailable","match":{"verbs":["list"]},"count":2},"matched":3,"acted":1,"inWindow":3}]}`)
	_, ready := serveInMemory(t, "--enable-faults", "--fault-rules", rules)
	for i, want := range []int{503, 200} {
		if code := answered(t, ready.Kubeconfig, "/api/v1/nodes"); code != want {
			t.Errorf("list %d is answered %d, want %d", i, code, want)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--fault-rules " + rules, "--enable-faults"},
		{"--enable-faults --fault-rules /no/such/file", "/no/such/file"},
		{"--enable-faults --fault-rules " + file(t, "wrong", `{"rules":[{"rule":{"action":"no-such"}}]}`), "no-such"},
	} {
		code, _, said := command(t,
			append([]string{"serve", "--memory", "--listen", "127.0.0.1:0"}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(said, c.want) {
			t.Errorf("%s: code %d: %s", c.args, code, said)
		}
	}
}
