package registry_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// dawdling is a store in which the creation of objects with the name late takes long.
type dawdling struct {
	store.Store

	began chan struct{}
	takes time.Duration
}

func (d dawdling) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if strings.HasSuffix(t.Key, "/late") && !t.Delete {
		d.began <- struct{}{}
		<-time.After(d.takes)
	}
	return d.Store.Commit(ctx, t)
}

// replicas runs two registries over one store. The first one leads; commits of the other take long.
func replicas(t *testing.T) (leader, other *server, began <-chan struct{}) {
	t.Helper()
	log := openLog(t)
	leader, _ = serveWith(t, log, registry.Config{
		Store: log, NamespaceQuiet: 500 * time.Millisecond,
		Lead: func(ctx context.Context, work func(context.Context) error) error { return work(ctx) },
	})
	slow := dawdling{log, make(chan struct{}, 1), 4900 * time.Millisecond}
	other, _ = serveWith(t, log, registry.Config{
		Store: slow, NamespaceQuiet: 500 * time.Millisecond,
		Lead: func(ctx context.Context, _ func(context.Context) error) error { <-ctx.Done(); return nil },
	})
	return leader, other, slow.began
}

// cutOff is a store whose present state cannot be read while it is away.
type cutOff struct {
	store.Store

	away *atomic.Bool
}

func (c cutOff) Progress(ctx context.Context) (int64, error) {
	if c.away.Load() {
		return 0, &store.UnavailableError{Reading: true, Cause: errAway}
	}
	return c.Store.Progress(ctx)
}

// TestAWriteIsNotRefusedByAStateThatMayBePast: a replica that is cut off does not know what others have written, so
// that it can say neither that there is no such object, nor that it has changed.
func TestAWriteIsNotRefusedByAStateThatMayBePast(t *testing.T) {
	var away atomic.Bool
	s, _ := serveOn(t, openLog(t), func(st store.Store) store.Store { return cutOff{st, &away} })
	s.create(s.at("configmaps", "default"), configMap("a"))
	at, none := s.at("configmaps", "default", "a"), s.at("configmaps", "default", "none")
	newer := []byte(`{"metadata":{"name":"a","resourceVersion":"1000000"},"data":{"a":"2"}}`)
	for name, write := range map[string]func() error{
		"update of a newer version": func() error {
			_, err := s.Update(t.Context(), at, newer, metav1.UpdateOptions{})
			return err
		},
		"update of what is not there": func() error {
			_, err := s.Update(t.Context(), none, []byte(configMap("none")), metav1.UpdateOptions{})
			return err
		},
		"patch of what is not there": func() error {
			_, err := s.Patch(t.Context(), none, mergePatch(`{"data":{"a":"2"}}`), metav1.PatchOptions{})
			return err
		},
		"deletion of what is not there": func() error {
			_, err := s.Delete(t.Context(), none, metav1.DeleteOptions{})
			return err
		},
	} {
		away.Store(true)
		if got := wire.StatusOf(write()); got.Code != http.StatusServiceUnavailable {
			t.Errorf("%s at a replica that is cut off: %d %s, want 503", name, got.Code, got.Message)
		}
		away.Store(false)
		if got := wire.StatusOf(write()); got.Code != http.StatusNotFound && got.Code != http.StatusConflict {
			t.Errorf("%s: %d %s, want the refusal", name, got.Code, got.Message)
		}
	}
}

// TestNothingOutlivesItsNamespaceOnReplicas, nor its definition: a replica that had let a creation in
// when another one deleted its container has 5 s to commit it. It is so in a namespace that was empty.
func TestNothingOutlivesItsNamespaceOnReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		containers, container string
		resource, body        string
	}{
		"namespace":  {"namespaces", "n", "configmaps", configMap("late")},
		"definition": {crds, "foos.t.example.com", foos, fooAt("late", "", "")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leader, other, began := replicas(t)
				leader.create(leader.at(crds), definition(""))
				leader.create(leader.at("namespaces"), `{"metadata":{"name":"n"}}`)
				synctest.Wait() // the other one has seen them
				created := make(chan error, 1)
				target := other.at(c.resource, "n")
				go func() { // ends when the creation does
					_, err := other.Create(t.Context(), target, []byte(c.body), metav1.CreateOptions{})
					created <- err
				}()
				<-began
				gone := leader.watch(leader.at(c.containers), nil)
				since := time.Now()
				leader.delete(leader.at(c.containers, "", c.container))
				gone.until(kube.Deleted, c.container)
				if took := time.Since(since); took != 5*time.Second {
					t.Errorf("it has gone after %v, want 5s", took)
				}
				if err := <-created; err != nil {
					t.Errorf("create what was let in: %v", err)
				}
				prefix := target.Resource.GR().String() + "/"
				page, err := leader.log.Read(t.Context(), store.Query{Start: prefix, End: prefix + "\xff"})
				if err != nil || len(page.Records) > 0 {
					t.Errorf("the store has %d records of %s that has gone, %v", len(page.Records), name, err)
				}
			})
		})
	}
}
