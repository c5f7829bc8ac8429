package seed_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/seed"
	"github.com/gapless-io/gapless/internal/seed/manifest"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a registry over a log in memory.
type server struct {
	*registry.Registry
	t    testing.TB
	log  *revlog.Log
	live *kinds.Live
}

func start(t testing.TB) *server {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	s := &server{t: t, log: log, live: kinds.NewLive(builtin.Catalog())}
	s.Registry = registry.New(registry.Config{Store: log, Live: s.live})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- log.Run(context.WithoutCancel(ctx)) }() // ends with Close
	go func() { ended <- s.Run(ctx) }()                          // ends with ctx
	t.Cleanup(func() {
		cancel()
		first := <-ended
		if err := errors.Join(first, log.Close(), <-ended); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	return s
}

// write makes a directory of manifests: names and texts in turn.
func write(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for pair := range slices.Chunk(files, 2) {
		path := filepath.Join(dir, pair[0])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatalf("make a directory: %v", err)
		}
		if err := os.WriteFile(path, []byte(pair[1]), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	return dir
}

// apply applies the manifests of a directory, and returns the error with the paths below
// the directory.
func (s *server) apply(dir string) (seed.Result, string) {
	s.t.Helper()
	files, err := manifest.Find([]string{dir})
	if err != nil {
		s.t.Fatalf("find: %v", err)
	}
	done, err := seed.New(seed.Config{
		Verbs: s, Live: s.live, Files: files, Logger: slog.New(slog.DiscardHandler),
	}).Apply(s.t.Context())
	if err != nil {
		return done, strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	}
	return done, ""
}

// must applies manifests that are right, and compares what was done.
func (s *server) must(dir string, created, updated, unchanged int) {
	s.t.Helper()
	done, problem := s.apply(dir)
	if problem != "" {
		s.t.Fatal(problem)
	}
	if done.Created != created || done.Updated != updated || done.Unchanged != unchanged {
		s.t.Errorf("%+v, want %d created, %d updated, %d unchanged", done, created, updated, unchanged)
	}
}

// find returns an object, for example of "configmaps", "web", "settings"; nil when there
// is none.
func (s *server) find(group, plural, namespace, name string) *wire.Object {
	s.t.Helper()
	r, found := s.live.Load().Storage(kinds.GroupResource{Group: group, Resource: plural})
	if !found {
		return nil
	}
	o, err := s.Get(s.t.Context(), kinds.Target{Resource: r, Namespace: namespace, Name: name}, "")
	if e, is := errors.AsType[*wire.StatusError](err); is && e.ErrStatus.Reason == metav1.StatusReasonNotFound {
		return nil
	}
	if err != nil {
		s.t.Fatalf("get: %v", err)
	}
	return o
}

// revision is that of the last write.
func (s *server) revision() int64 {
	s.t.Helper()
	rv, err := s.log.Progress(s.t.Context())
	if err != nil {
		s.t.Fatalf("progress log: %v", err)
	}
	return rv
}

// configMap is a manifest.
func configMap(namespace, name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: %s\n  name: %s\ndata:\n  key: %s\n",
		namespace, name, value)
}
