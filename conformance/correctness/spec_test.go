package correctness_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/testing/correctness"

	"github.com/gapless-io/gapless/conformance/upstream"
)

// keyOf is the key of a pod.
func keyOf(o runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", o) }

// open runs a server until the test ends, or what the storage uses by then.
func open(t *testing.T, cfg upstream.Config) *upstream.Storage {
	t.Helper()
	server, err := upstream.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	s, err := upstream.New(server)
	if err != nil {
		t.Fatalf("new storage: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Server().Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestCorrectness(t *testing.T) {
	for name, config := range map[string]func(t *testing.T) upstream.Config{
		"memory":  func(*testing.T) upstream.Config { return upstream.Config{} },
		"disk":    func(t *testing.T) upstream.Config { return upstream.Config{Dir: t.TempDir()} },
		"history": func(t *testing.T) upstream.Config { return upstream.Config{Dir: t.TempDir(), Window: 2} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			correctness.RunTestCorrectness(t.Context(), t, open(t, config(t)), "", keyOf)
		})
	}
}
