package auth_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/auth"
)

var stride = flag.Int("stride", 11, "damage every so many bytes; 1 takes a minute")

// TestEveryDamagedByteOfTheCredentialsIsRepairedOrReported damages one byte at a
// time. What a client of before needs, the CA, is never replaced by another one.
func TestEveryDamagedByteOfTheCredentialsIsRepairedOrReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, algorithm := range []auth.KeyAlgorithm{auth.ECDSA, auth.RSA} {
		t.Run(string(algorithm), func(t *testing.T) { damageEach(t, algorithm) })
	}
}

func damageEach(t *testing.T, algorithm auth.KeyAlgorithm) {
	t.Helper()
	const url = "https://127.0.0.1:6443"
	sound := t.TempDir()
	c, err := auth.Open(sound, auth.Options{ClientKey: algorithm})
	if err != nil {
		t.Fatalf("open the credentials: %v", err)
	}
	if _, err := c.WriteKubeconfig(url); err != nil {
		t.Fatalf("write the kubeconfig: %v", err)
	}
	sign(t, sound)
	bodies := files(t, sound)
	kubeconfig, err := os.ReadFile(filepath.Join(sound, "kubeconfig"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if faults, err := auth.Inspect(sound); err != nil || len(faults) > 0 {
		t.Fatalf("a sound directory: %+v, %v", faults, err)
	}
	step := *stride
	if testing.Short() {
		step = max(step, 61)
	}
	names := append(slices.Sorted(maps.Keys(bodies)), "kubeconfig")
	if algorithm == auth.RSA {
		names, step = []string{"admin.key"}, 5*step // the others are the same
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, path := t.TempDir(), filepath.Join("pki", name)
			body := []byte(bodies[name])
			if name == "kubeconfig" {
				path, body = name, kubeconfig
			}
			counts := map[auth.Severity]int{}
			for at := 0; at < len(body); at += step {
				restore(t, dir, bodies, kubeconfig)
				bad := slices.Clone(body)
				bad[at] ^= 0x15
				if err := os.WriteFile(filepath.Join(dir, path), bad, 0o600); err != nil {
					t.Fatalf("write a file: %v", err)
				}
				counts[damaged(t, dir, path, at)]++
				if now, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt")); err == nil && path != "pki/ca.crt" &&
					string(now) != bodies["ca.crt"] {
					t.Fatalf("byte %d: the CA was replaced", at)
				}
			}
			t.Logf("%d bytes: %v", len(body), counts)
		})
	}
}

func restore(t *testing.T, dir string, bodies map[string]string, kubeconfig []byte) {
	t.Helper()
	for _, sub := range []string{"pki", "kept"} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			t.Fatalf("remove a directory: %v", err)
		}
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
	}
	for name, body := range bodies {
		replace(t, dir, name, body)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), kubeconfig, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
}

// damaged inspects a directory with one damaged byte, repairs it and starts on it. It
// returns how grave the fault was.
func damaged(t *testing.T, dir, path string, at int) auth.Severity {
	t.Helper()
	before := auth.Check(dir)
	faults, err := auth.Inspect(dir)
	if err != nil {
		t.Fatalf("byte %d: %v", at, err)
	}
	worst := auth.Severity("unseen")
	named := false
	for _, f := range faults {
		named = named || filepath.FromSlash(f.File) == path ||
			strings.TrimSuffix(f.File, filepath.Ext(f.File)) == strings.TrimSuffix(path, filepath.Ext(path))
		if worst != auth.Beyond && f.File != "kubeconfig" || worst == "unseen" {
			worst = f.Severity
		}
	}
	if before != nil && (worst == "unseen" || worst == auth.Note) {
		t.Fatalf("byte %d: a start refuses (%v), and the faults are %+v", at, before, faults)
	}
	if !named && path != "kubeconfig" { // a changed address cannot be detected
		t.Fatalf("byte %d: not reported: %+v", at, faults)
	}
	if worst == auth.Beyond {
		if !strings.HasPrefix(path, "pki/ca.") || before == nil || !strings.Contains(before.Error(), "ca.") {
			t.Fatalf("byte %d: %+v is beyond repair, and a start says %v", at, faults, before)
		}
		return worst
	}
	if err := auth.Repair(dir, filepath.Join(dir, "kept"), faults); err != nil {
		t.Fatalf("byte %d: repair: %v", at, err)
	}
	c, err := auth.Open(dir, auth.Options{})
	if err != nil {
		t.Fatalf("byte %d: open after a repair of %+v: %v", at, faults, err)
	}
	if _, err := c.WriteKubeconfig("https://127.0.0.1:6443"); err != nil {
		t.Fatalf("write the kubeconfig: %v", err)
	}
	if _, err := auth.SigningKey(dir); err != nil {
		t.Fatalf("byte %d: after a repair of %+v: %v", at, faults, err)
	}
	if at%29 == 0 {
		shake(t, c)
	}
	if again, err := auth.Inspect(dir); err != nil || len(again) > 0 {
		t.Fatalf("byte %d: after a repair of %+v there are %+v (%v)", at, faults, again, err)
	}
	return worst
}

// TestAMissingSigningKeyIsReported as a note: a start makes another one, whose tokens are others.
func TestAMissingSigningKeyIsReported(t *testing.T) {
	dir := t.TempDir()
	if faults, err := auth.Inspect(dir); err != nil || len(faults) > 0 {
		t.Errorf("nothing was created yet: %+v, %v", faults, err)
	}
	open(t, dir)
	faults, err := auth.Inspect(dir)
	if err != nil || len(faults) != 1 || faults[0].File != "pki/sa.key" || faults[0].Severity != auth.Note ||
		!strings.Contains(faults[0].Repair, "tokens that the former one has signed") {
		t.Errorf("%+v, %v", faults, err)
	}
}
