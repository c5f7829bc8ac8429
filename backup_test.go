package gapless_test

import (
	"bytes"
	"encoding/base64"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/backup"
)

// TestABackupHasSecretsAsTheyAreStored restores encrypted Secrets, which need the key.
func TestABackupHasSecretsAsTheyAreStored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	encryption(t, file, 0o600, "key1", "identity")
	s := launch(t, gapless.Config{EncryptionProviderConfig: file})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"password": []byte(secretMarker)}}
	client := clientset(t, s)
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create a Secret: %v", err)
	}
	taken, err := client.RESTClient().Post().AbsPath("/gapless/v1/backup").Body([]byte("{}")).
		SetHeader("Content-Type", "application/json").DoRaw(t.Context())
	s.stop()
	if err != nil || bytes.Contains(taken, []byte(base64.StdEncoding.EncodeToString([]byte(secretMarker)))) {
		t.Fatalf("a backup of %d bytes, %v; it must not have the Secret in clear text", len(taken), err)
	}

	dir := filepath.Join(t.TempDir(), "restored")
	done, err := backup.Restore(t.Context(), bytes.NewReader(taken), backup.RestoreOptions{Dir: dir})
	if err != nil || !slices.Equal(done.Summary.Encryption, []string{"k8s:enc:aesgcm:v1:key1:"}) {
		t.Fatalf("restore: %+v, %v", done.Summary, err)
	}
	restored := launch(t, gapless.Config{DataDir: dir, EncryptionProviderConfig: file})
	got, err := clientset(t, restored).CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil || string(got.Data["password"]) != secretMarker {
		t.Errorf("the Secret is %v, %v", got, err)
	}
	restored.stop()
	encryption(t, file, 0o600, "key2", "identity")
	why := startError(t, gapless.Config{DataDir: dir, EncryptionProviderConfig: file})
	if !strings.Contains(why, "key1") {
		t.Errorf("without the key a start says %q", why)
	}
}
