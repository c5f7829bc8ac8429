package seed

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/seed/manifest"
	"github.com/gapless-io/gapless/internal/wire"
)

// forgetful has no objects, and stores none.
type forgetful struct{}

func (forgetful) Get(_ context.Context, t kinds.Target, _ string) (*wire.Object, error) {
	if t.Name == metav1.NamespaceDefault {
		return nil, nil //nolint:nilnil // there is one, and nobody looks at it
	}
	return nil, wire.NotFound(t.Resource.GR(), t.Name)
}

func (forgetful) Create(context.Context, kinds.Target, []byte, metav1.CreateOptions) (wire.Written, error) {
	return wire.Written{}, nil
}

func (forgetful) Patch(context.Context, kinds.Target, wire.Patch, metav1.PatchOptions) (wire.Written, error) {
	return wire.Written{Created: true}, nil
}

func (forgetful) Check(kinds.Target, []byte) error { return nil }

// TestLargeManifestsAreNotHeld: a file with more than what is kept is read again for each
// step, and what the Seeder holds of an object does not grow with the object.
func TestLargeManifestsAreNotHeld(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const objects, size = 7000, 10_000 // 70 MB
	var b strings.Builder
	for i := range objects {
		fmt.Fprintf(&b,
			"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c%d\"},\"data\":{\"x\":\"%s\"}}\n---\n", i,
			strings.Repeat("y", size))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(b.String()), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	b.Reset()
	files, err := manifest.Find([]string{dir})
	if err != nil {
		t.Fatalf("find: %v", err)
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s := New(Config{
		Verbs: forgetful{}, Live: kinds.NewLive(builtin.Catalog()), Files: files, Logger: slog.New(slog.DiscardHandler),
	})
	before := heap()
	done, err := s.Apply(t.Context())
	if err != nil || done.Created != objects {
		t.Fatalf("%+v, %v", done, err)
	}
	if took := (heap() - before) / objects; took > 1024 {
		t.Errorf("the Seeder holds %d bytes per object", took)
	}
	runtime.KeepAlive(s)
}
