package gapless_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless"
)

// encryption writes an encryption configuration for Secrets with keys of these names, the first
// of which encrypts; identity stands for itself.
func encryption(t *testing.T, path string, mode fs.FileMode, names ...string) {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: " +
		"[secrets]\n  providers:\n"
	for _, name := range names {
		if name == "identity" {
			text += "  - identity: {}\n"
			continue
		}
		key := base64.StdEncoding.EncodeToString([]byte((name + strings.Repeat("-", 32))[:32]))
		text += fmt.Sprintf("  - aesgcm: {keys: [{name: %s, secret: %s}]}\n", name, key)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatalf("change the mode of a file: %v", err)
	}
}

const secretMarker = "MARKER-OF-A-SECRET"

// marked returns the files of a data directory that contain the marker as it is stored.
func marked(t *testing.T, dir string) []string {
	t.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte(secretMarker))
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(secretMarker)) || bytes.Contains(b, []byte(encoded)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("walk over a directory: %v", err)
	}
	return found
}

func clientset(t *testing.T, s launched) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return c
}

// startError runs a server that must not start, and returns why it did not.
func startError(t *testing.T, cfg gapless.Config) string {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	s, err := gapless.New(cfg)
	if err != nil {
		return err.Error()
	}
	err = s.Run(t.Context())
	if err == nil {
		t.Fatal("the server has started and ended without an error")
	}
	return err.Error()
}

// TestSecretsOfAPlaintextDirectoryAreEncrypted is the way of docs/encryption.md: encrypt, rewrite,
// compact, change keys; and what a start without the keys says.
func TestSecretsOfAPlaintextDirectoryAreEncrypted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	plain := launch(t, gapless.Config{DataDir: dir})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"password": []byte(secretMarker)}}
	if _, err := clientset(t, plain).CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create secrets: %v", err)
	}
	plain.stop()
	if marked(t, dir) == nil {
		t.Fatal("a secret that is not encrypted is not found on the disk: the test does not look in the right way")
	}

	encryption(t, file, 0o600, "key1", "identity")
	cfg := gapless.Config{DataDir: dir, EncryptionProviderConfig: file}
	s := launch(t, cfg)
	first := replaceUnchanged(t, s)
	if again := replaceUnchanged(t, s); again != first {
		t.Errorf("a secret that is encrypted with the present key is rewritten: %s after %s", again, first)
	}
	compactAll(t, s)
	if found := marked(t, dir); found != nil {
		t.Errorf("plaintext in %v", found)
	}
	s.stop()
	if found := marked(t, dir); found != nil {
		t.Errorf("after the stop: plaintext in %v", found)
	}

	encryption(t, file, 0o600, "key2", "key1")
	s = launch(t, cfg)
	if second := replaceUnchanged(t, s); second == first {
		t.Error("a secret that is encrypted with an old key is not rewritten")
	}
	s.stop()
	encryption(t, file, 0o600, "key2")
	s = launch(t, cfg)
	if raw := ready(t, s); !strings.Contains(raw, "[+]kms-providers ok") || !strings.Contains(raw, "[+]encrypted-values ok") {
		t.Errorf("readyz: %s", raw)
	}
	s.stop()

	for name, c := range map[string]struct{ keys, want string }{
		"another key":      {"key3", `"secrets/default/s" as of revision`},
		"the former key":   {"key1", "k8s:enc:aesgcm:v1:key2:"},
		"no configuration": {"", "--encryption-provider-config"},
	} {
		wrong := gapless.Config{DataDir: dir}
		if c.keys != "" {
			encryption(t, file, 0o600, c.keys)
			wrong.EncryptionProviderConfig = file
		}
		if err := startError(t, wrong); !strings.Contains(err, c.want) {
			t.Errorf("%s: %s, want %q in it", name, err, c.want)
		}
	}
	encryption(t, file, 0o600, "key2")
	s = launch(t, cfg) // nothing was changed by those starts
	got, err := clientset(t, s).CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || string(got.Data["password"]) != secretMarker {
		t.Errorf("at last: %v, %v", got, err)
	}
}

// replaceUnchanged replaces the secret by itself, and returns its resourceVersion.
func replaceUnchanged(t *testing.T, s launched) string {
	t.Helper()
	secrets := clientset(t, s).CoreV1().Secrets("default")
	o, err := secrets.Get(t.Context(), "s", metav1.GetOptions{})
	if err == nil {
		o, err = secrets.Update(t.Context(), o, metav1.UpdateOptions{})
	}
	if err != nil || string(o.Data["password"]) != secretMarker {
		t.Fatalf("replace: %v, %v", o, err)
	}
	return o.ResourceVersion
}

// compactAll removes all history, also from the files.
func compactAll(t *testing.T, s launched) {
	t.Helper()
	body, err := clientset(t, s).RESTClient().Post().AbsPath("/gapless/v1/compact").SetHeader("Content-Type", "application/json").
		Body([]byte(`{"olderThan":"1ns","purge":true}`)).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("compact: %v: %s", err, body)
	}
}

func ready(t *testing.T, s launched) string {
	t.Helper()
	raw, err := clientset(t, s).RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("do raw: %v", err)
	}
	return string(raw)
}

// TestKeysAreRotatedWhileServing: a change of the file holds for the next write after it is
// loaded, and a file that cannot be used changes nothing; metrics tell both.
func TestKeysAreRotatedWhileServing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	encryption(t, file, 0o600, "key1")
	s := launch(t, gapless.Config{DataDir: dir, EncryptionProviderConfig: file, EncryptionProviderConfigAutomaticReload: true})
	c := clientset(t, s)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"password": []byte(secretMarker)}}
	o, err := c.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create secrets: %v", err)
	}
	encryption(t, file, 0o600, "key2") // it cannot read the secret
	await(t, s, `apiserver_encryption_config_controller_automatic_reloads_total{apiserver_id_hash="…",status="failure"}`)
	if again := replaceUnchanged(t, s); again != o.ResourceVersion {
		t.Error("a file that was refused has changed what is stale")
	}
	encryption(t, file, 0o600, "key2", "key1")
	await(t, s, `apiserver_encryption_config_controller_automatic_reloads_total{apiserver_id_hash="…",status="success"}`)
	if again := replaceUnchanged(t, s); again == o.ResourceVersion {
		t.Error("the secret is not rewritten with the new key")
	}
	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	if _, err := c.CoreV1().Secrets("default").Patch(t.Context(), "s", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatalf("patch secrets: %v", err)
	}
	s.stop()
	encryption(t, file, 0o600, "key2")
	s = launch(t, gapless.Config{DataDir: dir, EncryptionProviderConfig: file})
	replaceUnchanged(t, s)
	if found := marked(t, dir); found != nil {
		t.Errorf("plaintext in %v", found)
	}
}

// await waits until the metrics have a line; … stands for a hash.
func await(t *testing.T, s launched, line string) {
	t.Helper()
	before, after, _ := strings.Cut(line, "…")
	for t.Context().Err() == nil {
		raw, err := clientset(t, s).RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatalf("do raw: %v", err)
		}
		for l := range strings.Lines(string(raw)) {
			if strings.HasPrefix(l, before) && strings.Contains(l, after) {
				return
			}
		}
	}
	t.Fatalf("the metrics never have %s", line)
}

func TestEncryptionConfigurationIsChecked(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	encryption(t, file, 0o644, "key1")
	for name, c := range map[string]struct {
		cfg  gapless.Config
		want string
	}{
		"readable by others":    {gapless.Config{EncryptionProviderConfig: file}, "chmod go= " + file},
		"missing":               {gapless.Config{EncryptionProviderConfig: file + "x"}, "no such file"},
		"reload without a file": {gapless.Config{EncryptionProviderConfigAutomaticReload: true}, "name the file"},
	} {
		c.cfg.DataDir, c.cfg.Logger = dir, slog.New(slog.DiscardHandler)
		if err := startError(t, c.cfg); !strings.Contains(err, c.want) {
			t.Errorf("%s: %s, want %q in it", name, err, c.want)
		}
	}
}
