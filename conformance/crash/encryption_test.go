//go:build linux

package crash_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

const (
	secrets = "/api/v1/namespaces/default/secrets"
	// plaintext is in every secret, and must never be on the disk.
	plaintext = "PLAINTEXT-OF-A-SECRET"
)

// vault is a server that encrypts, and what it must have.
type vault struct {
	t      *testing.T
	random *rand.Rand
	server *program.Server
	c      *program.Client
	file   string // the configuration
	keys   []int  // in it, the one that encrypts first
	has    map[string]string
	// written is the secret whose write was not answered; it may have the value maybe.
	written, maybe string
}

// TestKillsDuringRotationLeaveEverythingReadable writes Secrets, rewrites those with old keys
// and replaces the keys, as docs/encryption.md says, and kills the server meanwhile.
func TestKillsDuringRotationLeaveEverythingReadable(t *testing.T) {
	dir := t.TempDir()
	t.Logf("seed %d", *seed)
	v := &vault{
		t: t, random: rand.New(rand.NewPCG(*seed, 1)), file: filepath.Join(dir, "encryption.yaml"), keys: []int{1},
		has: map[string]string{},
	}
	v.configure(v.keys)
	data := filepath.Join(dir, "data")
	server, err := program.New(program.Config{Path: built, Dir: dir, DataDir: data, Flags: []string{
		"--encryption-provider-config", v.file, "--encryption-provider-config-automatic-reload", "--history", "2s", "--log-level",
		"warn", "--bootstrap", "none",
	}})
	if err != nil {
		t.Fatalf("make a program: %v", err)
	}
	v.server = server
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server said:\n%s", server.Log(2<<10))
		}
		if err := server.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
	})
	for range 6 {
		v.live()
	}
	if len(v.keys) == 1 && v.keys[0] == 1 {
		t.Error("no key was replaced")
	}
	t.Logf("%d secrets, keys %v", len(v.has), v.keys)
	v.start()
	v.mustHaveAll()
	v.kill(0)
	mustHaveNo(t, data, plaintext)
	// What looks after the files needs no keys.
	if out, err := exec.CommandContext(t.Context(), built, "fsck", data).CombinedOutput(); err != nil {
		t.Errorf("fsck of encrypted data: %v\n%s", err, out)
	}
}

// live starts the server, works until it is killed, and no later than that.
func (v *vault) live() {
	v.t.Helper()
	v.start()
	v.mustHaveAll()
	ended := make(chan struct{})
	after := time.Duration(v.random.IntN(1500)) * time.Millisecond
	go func() { // ends with the server
		defer close(ended)
		v.kill(after)
	}()
	for done := false; !done; {
		select {
		case <-ended:
			return
		default:
		}
		switch v.random.IntN(12) {
		case 0:
			done = !v.rotate(ended)
		default:
			name := fmt.Sprintf("s%02d", v.random.IntN(20))
			done = !v.write(name, fmt.Sprintf("%s %d", plaintext, v.random.Uint64()))
		}
	}
	<-ended
}

// start starts the server, and finds out what became of the last write.
func (v *vault) start() {
	v.t.Helper()
	if err := v.server.Start(v.t.Context()); err != nil {
		v.t.Fatalf("the server does not start with keys %v: %v", v.keys, err)
	}
	c, err := v.server.Client(program.HTTP1)
	if err != nil {
		v.t.Fatalf("client server: %v", err)
	}
	v.t.Cleanup(c.Close)
	v.c = c
	if v.written != "" && v.read(v.written) == v.maybe {
		v.has[v.written] = v.maybe
	}
	v.written = ""
}

func (v *vault) kill(after time.Duration) {
	if after > 0 {
		<-time.After(after)
	}
	if err := v.server.Kill(); err != nil {
		v.t.Errorf("kill server: %v", err)
	}
}

// write creates or replaces a secret, and reports whether that was answered.
func (v *vault) write(name, value string) bool {
	v.t.Helper()
	method, path := http.MethodPost, secrets
	if _, is := v.has[name]; is {
		method, path = http.MethodPut, secrets+"/"+name
	}
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"stringData":{"x":%q}}`, name, value)
	v.written, v.maybe = name, value
	a := v.c.Do(v.t.Context(), method, path, []byte(body))
	switch {
	case a.Code == 0:
		return false
	case a.Code != http.StatusOK && a.Code != http.StatusCreated:
		v.t.Errorf("%s %s: %s", method, path, a)
	default:
		v.has[name] = value
	}
	v.written = ""
	return true
}

// rotate puts a new key in front, waits until it is in force, writes every secret again without
// a change, and removes the old keys. It reports whether the server still lives.
func (v *vault) rotate(ended <-chan struct{}) bool {
	v.t.Helper()
	keys := append([]int{v.keys[0] + 1}, v.keys...)
	if !v.replace(keys, ended) {
		return false
	}
	for name, value := range v.has {
		if !v.write(name, value) {
			return false
		}
	}
	return v.replace(keys[:1], ended)
}

// replace replaces the keys, and waits until they are in force.
func (v *vault) replace(keys []int, ended <-chan struct{}) bool {
	v.t.Helper()
	v.configure(keys)
	v.keys = keys
	for {
		a := v.c.Do(v.t.Context(), http.MethodGet, "/metrics", nil)
		if a.Code == http.StatusOK && bytes.Contains(a.Body, []byte(`hash="`+hashOf(v.t, v.file)+`"`)) {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// configure writes the configuration with these keys. Every other key is of another provider.
func (v *vault) configure(keys []int) {
	v.t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: " +
		"[secrets]\n  providers:\n"
	for _, key := range keys {
		secret := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%032d", key))
		text += fmt.Sprintf("  - %s: {keys: [{name: key%d, secret: %s}]}\n", []string{"aesgcm", "secretbox"}[key%2], key, secret)
	}
	if err := os.WriteFile(v.file+".new", []byte(text), 0o600); err != nil {
		v.t.Fatalf("write a file: %v", err)
	}
	if err := os.Rename(v.file+".new", v.file); err != nil {
		v.t.Fatalf("rename a file: %v", err)
	}
}

// read returns the value of a secret; "" if there is none.
func (v *vault) read(name string) string {
	v.t.Helper()
	a := v.c.Do(v.t.Context(), http.MethodGet, secrets+"/"+name, nil)
	var secret struct{ Data map[string][]byte }
	if a.Code == http.StatusNotFound {
		return ""
	}
	if err := json.Unmarshal(a.Body, &secret); err != nil || a.Code != http.StatusOK {
		v.t.Fatalf("read %s: %s", name, a)
	}
	return string(secret.Data["x"])
}

func (v *vault) mustHaveAll() {
	v.t.Helper()
	for name, want := range v.has {
		if got := v.read(name); got != want {
			v.t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// mustHaveNo looks for a text, also in base64, in all files below a directory.
func mustHaveNo(t *testing.T, dir, text string) {
	t.Helper()
	encoded := strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(text)), "=")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) || bytes.Contains(content, []byte(encoded[:len(encoded)-2])) {
			t.Errorf("plaintext in %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
}

// hashOf is how the metric of the configuration names a file.
func hashOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(content))
}
