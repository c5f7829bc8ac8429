package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// served runs a server on a directory with two ConfigMaps while use runs, with its kubeconfig.
func served(t *testing.T, dir string, use func(kubeconfig string, ask func(method, path, body string) string)) {
	t.Helper()
	serveDir(t, dir, func(ask func(method, path, body string) string) {
		for _, name := range []string{"one", "two"} {
			ask(http.MethodPost, configMapsPath, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"}}`)
		}
		ask(http.MethodDelete, configMapsPath+"/two", "")
		use(filepath.Join(dir, "kubeconfig"), ask)
	})
}

// listed returns the names of the ConfigMaps that a server on a directory has.
func listed(t *testing.T, dir string) (list string) {
	t.Helper()
	serveDir(t, dir, func(ask func(method, path, body string) string) { list = ask(http.MethodGet, configMapsPath, "") })
	return list
}

// TestABackupIsRestored makes backups in each way, and starts servers on what is restored.
func TestABackupIsRestored(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	temp := t.TempDir()
	dir, file, piped := filepath.Join(temp, "data"), filepath.Join(temp, "a.backup"), filepath.Join(temp, "b.backup")
	served(t, dir, func(kubeconfig string, _ func(method, path, body string) string) {
		if code, _, stderr := command(t, "backup", file, "--kubeconfig", kubeconfig); code != exitOK ||
			!strings.Contains(stderr, "backed up ") {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
		code, out, stderr := command(t, "backup", "-", "--history", "--kubeconfig", kubeconfig)
		if code != exitOK || !strings.Contains(stderr, "with history: ") {
			t.Fatalf("to standard output: exit code %d\n%s", code, stderr)
		}
		if err := os.WriteFile(piped, []byte(out), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		if code, _, stderr := command(t, "backup", "x.backup", "--data-dir", dir); code != exitRunTime ||
			!strings.Contains(stderr, "a server is running on "+dir) {
			t.Errorf("of the directory of a server that runs: exit code %d\n%s", code, stderr)
		}
	})
	offline := filepath.Join(temp, "c.backup")
	if code, _, stderr := command(t, "backup", offline, "--data-dir", dir); code != exitOK {
		t.Fatalf("of a directory: exit code %d\n%s", code, stderr)
	}
	for _, from := range []string{file, piped, offline} {
		if code, out, stderr := command(t, "restore", "--verify", from); code != exitOK ||
			!strings.Contains(out, from+" is whole") {
			t.Errorf("%s is verified: exit code %d\n%s%s", from, code, out, stderr)
		}
		to := from + ".restored"
		code, out, stderr := command(t, "restore", from, to)
		if code != exitOK || !strings.Contains(out, "gapless serve --data-dir "+to) {
			t.Fatalf("%s: exit code %d\n%s%s", from, code, out, stderr)
		}
		if code, _, stderr := command(t, "restore", from, to); code != exitRunTime || !strings.Contains(stderr, "not empty") {
			t.Errorf("%s, again: exit code %d\n%s", from, code, stderr)
		}
		if list := listed(t, to); !strings.Contains(list, `"name":"one"`) || strings.Contains(list, `"name":"two"`) {
			t.Errorf("%s: the server has %s", from, list)
		}
		if code, out, _ := command(t, "fsck", to); code != exitOK {
			t.Errorf("%s: fsck ends with %d\n%s", from, code, out)
		}
	}
}

// TestAnEarlierStateIsRestored restores what was deleted.
func TestAnEarlierStateIsRestored(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	temp := t.TempDir()
	dir, file := filepath.Join(temp, "data"), filepath.Join(temp, "a.backup")
	var at string
	served(t, dir, func(kubeconfig string, ask func(method, path, body string) string) {
		at = resourceVersionOf(t, ask(http.MethodGet, configMapsPath, ""))
		ask(http.MethodDelete, configMapsPath+"/one", "")
		if code, _, stderr := command(t, "backup", file, "--history", "--kubeconfig", kubeconfig); code != exitOK {
			t.Fatalf("exit code %d\n%s", code, stderr)
		}
	})
	for _, wrong := range []string{"yesterday", "-1", "0", "12", "2026-11-23"} {
		to := filepath.Join(temp, "wrong")
		if code, _, stderr := command(t, "restore", file, to, "--at", wrong); code == exitOK {
			t.Errorf("--at %s: exit code %d\n%s", wrong, code, stderr)
		}
	}
	to := filepath.Join(temp, "restored")
	if code, out, stderr := command(t, "restore", file, to, "--at", at); code != exitOK ||
		!strings.Contains(out, "at resourceVersion "+at) {
		t.Fatalf("--at %s: exit code %d\n%s%s", at, code, out, stderr)
	}
	if list := listed(t, to); !strings.Contains(list, `"name":"one"`) || strings.Contains(list, `"name":"two"`) {
		t.Errorf("the server has %s", list)
	}
}

// resourceVersionOf returns the resourceVersion of a list.
func resourceVersionOf(t *testing.T, list string) string {
	t.Helper()
	_, rest, found := strings.Cut(list, `"resourceVersion":"`)
	rv, _, _ := strings.Cut(rest, `"`)
	if !found || rv == "" {
		t.Fatalf("a list without a resourceVersion: %s", list)
	}
	return rv
}

// TestABackupReplacesNothingByAccident: files that exist, and a backup that fails.
func TestABackupReplacesNothingByAccident(t *testing.T) {
	temp := t.TempDir()
	_, ready := serveInMemory(t)
	file := filepath.Join(temp, "a.backup")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	check := func(what string, want bool, args ...string) {
		t.Helper()
		code, _, stderr := command(t, append([]string{"backup", "--kubeconfig", ready.Kubeconfig}, args...)...)
		body, err := os.ReadFile(file)
		if err != nil || (code == exitOK) != want || (string(body) == "mine") == want {
			t.Errorf("%s: exit code %d, the file has %d bytes (%v)\n%s", what, code, len(body), err, stderr)
		}
	}
	check("a file that exists", false, file)
	check("a server that does not answer", false, file, "--force", "--server", "https://127.0.0.1:1")
	check("a directory", false, temp, "--force")
	check("with --force", true, file, "--force")
	entries, err := os.ReadDir(temp)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// TestADamagedBackupIsNotRestored changes a byte of a file.
func TestADamagedBackupIsNotRestored(t *testing.T) {
	temp := t.TempDir()
	_, ready := serveInMemory(t)
	file, to := filepath.Join(temp, "a.backup"), filepath.Join(temp, "restored")
	if code, _, stderr := command(t, "backup", file, "--kubeconfig", ready.Kubeconfig); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want it for its owner only", info.Mode(), err)
	}
	spoil(t, file, "kube-system", 3)
	for _, args := range [][]string{{"restore", file, to}, {"restore", "--verify", file}} {
		if code, _, stderr := command(t, args...); code != exitRunTime ||
			!strings.Contains(stderr, "the backup is damaged at byte ") {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
	if _, err := os.Stat(to); err == nil {
		t.Errorf("%s was made", to)
	}
}

// TestAServerRefusesARestoreThatDidNotFinish: a second restore replaces it.
func TestAServerRefusesARestoreThatDidNotFinish(t *testing.T) {
	temp := t.TempDir()
	_, ready := serveInMemory(t)
	file, to := filepath.Join(temp, "a.backup"), filepath.Join(temp, "restored")
	if code, _, stderr := command(t, "backup", file, "--kubeconfig", ready.Kubeconfig); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if err := os.MkdirAll(filepath.Join(to, "log.restoring"), 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	code, _, stderr := command(t, "serve", "--data-dir", to, "--listen", "127.0.0.1:0")
	if code != exitRunTime || !strings.Contains(stderr, "run gapless restore again") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if code, _, stderr := command(t, "restore", file, to); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if list := listed(t, to); !strings.Contains(list, `"kind":"ConfigMapList"`) {
		t.Errorf("the server has %s", list)
	}
}

// TestHalfABackupGetsNoName receives what looks like a whole answer.
func TestHalfABackupGetsNoName(t *testing.T) {
	temp := t.TempDir()
	_, ready := serveInMemory(t)
	file := filepath.Join(temp, "a.backup")
	if code, _, stderr := command(t, "backup", file, "--kubeconfig", ready.Kubeconfig); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	answer := whole[:len(whole)/2]
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) }))
	defer web.Close()
	half := filepath.Join(temp, "b.backup")
	for _, answer = range [][]byte{whole[:len(whole)/2], {}, []byte("<html>")} {
		code, _, stderr := command(t, "backup", half, "--kubeconfig", plainConfig(t, web.URL))
		if code != exitRunTime || !strings.Contains(stderr, "the server did not send a whole backup") {
			t.Errorf("%d bytes: exit code %d\n%s", len(answer), code, stderr)
		}
	}
	entries, err := os.ReadDir(temp)
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// plainConfig writes a kubeconfig for a server without TLS.
func plainConfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: " + url + "}}]\n" +
		"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return path
}
