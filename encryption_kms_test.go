package gapless_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kmsapi "k8s.io/kms/apis/v2"

	"github.com/gapless-io/gapless"
)

// keyService is a KMS v2 plugin whose ciphertext is its plaintext, reversed.
type keyService struct {
	kmsapi.UnimplementedKeyManagementServiceServer

	mu   sync.Mutex // guards away
	away bool
}

func (k *keyService) set(away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away = away
}

func (k *keyService) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.away {
		return status.Error(codes.Unavailable, "away")
	}
	return nil
}

func reversed(b []byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[len(b)-1-i] = b[i]
	}
	return out
}

func (k *keyService) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: "1"}, k.check()
}

func (k *keyService) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	return &kmsapi.EncryptResponse{KeyId: "1", Ciphertext: reversed(r.GetPlaintext())}, k.check()
}

func (k *keyService) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	return &kmsapi.DecryptResponse{Plaintext: reversed(r.GetCiphertext())}, k.check()
}

// messages is a log that says when it contains a text.
type messages struct {
	mu    sync.Mutex // guards the following
	all   bytes.Buffer
	text  string
	found chan struct{} // closed when it is there
}

func (m *messages) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.all.Write(b)
	if m.text != "" && strings.Contains(m.all.String(), m.text) {
		m.text = ""
		close(m.found)
	}
	return n, err
}

// TestStartWaitsForTheKeyManagementService: it serves nothing before it can read everything, and
// then all of it.
func TestStartWaitsForTheKeyManagementService(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	sockets, err := os.MkdirTemp("", "kms") //nolint:usetesting // the path of a socket must be short
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	socket := filepath.Join(sockets, "s")
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	service, plugin := grpc.NewServer(), &keyService{}
	kmsapi.RegisterKeyManagementServiceServer(service, plugin)
	ended := make(chan error, 1)
	go func() { ended <- service.Serve(listener) }() // ends with Stop
	t.Cleanup(func() {
		service.Stop()
		<-ended //nolint:errcheck // it was stopped
	})

	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	text := fmt.Sprintf(
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n"+
			"  providers:\n  - kms: {apiVersion: v2, name: test, endpoint: 'unix://%s'}\n", socket)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	cfg := gapless.Config{DataDir: dir, EncryptionProviderConfig: file}
	s := launch(t, cfg)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"password": []byte(secretMarker)}}
	if _, err := clientset(t, s).CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create secrets: %v", err)
	}
	s.stop()

	plugin.set(true)
	log := &messages{text: `for="key management service"`, found: make(chan struct{})}
	cfg.Listen, cfg.Logger = "127.0.0.1:0", slog.New(slog.NewTextHandler(log, nil))
	waiting, err := gapless.New(cfg)
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- waiting.Run(ctx) }() // ends with ctx
	<-log.found
	select {
	case <-waiting.Ready():
		t.Error("it serves without the service")
	default:
	}
	plugin.set(false)
	select {
	case <-waiting.Ready():
		replaceUnchanged(t, launched{Server: waiting})
	case err := <-done:
		done <- nil
		t.Errorf("the start has ended: %v", err)
	}
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if found := marked(t, dir); found != nil {
		t.Errorf("plaintext in %v", found)
	}
}
