package e2e_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless"
)

// manifests makes a directory with one file.
func manifests(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(text), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return dir
}

const team = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: team}\ndata: {a: b}\n---\napiVersion: " +
	"v1\nkind: Namespace\nmetadata: {name: team}\n"

// TestObjectsOfManifestsAreThereWhenTheServerIsReady: also with the objects that a cluster
// has, one of which is in the manifests.
func TestObjectsOfManifestsAreThereWhenTheServerIsReady(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	for name, bootstrap := range map[string]gapless.Bootstrap{
		"none": gapless.BootstrapNone, "server": gapless.BootstrapServer, "cluster": gapless.BootstrapCluster,
	} {
		t.Run(name, func(t *testing.T) {
			account := "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: team, " +
				"labels: {mine: x}}\n" +
				"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {mine: x}}\n"
			l := launch(t, gapless.Config{Bootstrap: bootstrap, From: []string{manifests(t, team+account)}})
			if diff := cmp.Diff(gapless.Applied{Files: 1, Created: 3, Updated: 1}, l.Applied()); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
			clientset, err := kubernetes.NewForConfig(l.RESTConfig())
			if err != nil {
				t.Fatalf("make a client: %v", err)
			}
			settings, err := clientset.CoreV1().ConfigMaps("team").Get(t.Context(), "settings", metav1.GetOptions{})
			if err != nil || settings.Data["a"] != "b" {
				t.Errorf("got %v, %v", settings, err)
			}
			sa, err := clientset.CoreV1().ServiceAccounts("team").Get(t.Context(), "default", metav1.GetOptions{})
			if err != nil || sa.Labels["mine"] != "x" {
				t.Errorf("got %v, %v", sa, err)
			}
		})
	}
}

// stopper is a log handler that calls stop at the first message about manifests.
type stopper struct {
	slog.Handler

	stop func()
	once sync.Once
}

func (s *stopper) Enabled(context.Context, slog.Level) bool { return true }

func (s *stopper) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "check manifests" {
		s.once.Do(s.stop)
	}
	return nil
}

// TestServerStopsWhileItAppliesManifests: an interrupt is no error, and the server is never ready.
func TestServerStopsWhileItAppliesManifests(t *testing.T) {
	var text strings.Builder
	text.WriteString(team)
	for i := range 2000 {
		text.WriteString(
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c" + strings.Repeat("x", i%50) + "-" + strings.Repeat("y",
				i/50) + "z}\n")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := gapless.New(gapless.Config{
		Memory: true, Listen: "127.0.0.1:0", From: []string{manifests(t, text.String())},
		Logger: slog.New(&stopper{Handler: slog.DiscardHandler, stop: cancel}),
	})
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	if err := s.Run(ctx); err != nil {
		t.Errorf("run: %v", err)
	}
	select {
	case <-s.Ready():
		t.Error("a server that was stopped before is ready")
	default:
	}
}
