package registry_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/store"
)

// contested is a store in which some other write was always faster than the next writes of
// definitions. Each of them waits until the test goes on.
type contested struct {
	store.Store
	conflicts chan struct{} // an element for each write that conflicts
	goOn      chan struct{}
}

func (c *contested) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	if !strings.HasPrefix(t.Key, "customresourcedefinitions.") {
		return c.Store.Commit(ctx, t)
	}
	select {
	case <-c.conflicts:
		<-c.goOn
		return store.Committed{}, &store.ConflictError{Key: t.Key}
	default:
		return c.Store.Commit(ctx, t)
	}
}

// One definition is settled at a time, and after a conflict one write of an object at a time: two
// writes that conflict must not each have what the other one waits for.
func TestWritesOfADefinitionThatConflictDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &contested{conflicts: make(chan struct{}, 2), goOn: make(chan struct{})}
		s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { c.Store = below; return c })
		s.create(s.at(crds), definition(""))
		at := s.at(crds, "", "foos.t.example.com")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 2)
		write := func(label string) {
			_, err := s.Patch(ctx, at, mergePatch(`{"metadata":{"labels":{"`+label+`":"x"}}}`), metav1.PatchOptions{})
			ended <- err
		}
		c.conflicts <- struct{}{}
		c.conflicts <- struct{}{}
		go write("first") // ends with ctx, as the second
		synctest.Wait()
		go write("second")
		synctest.Wait()
		c.goOn <- struct{}{} // the first one takes the lock of the object
		synctest.Wait()
		c.goOn <- struct{}{} // the second one waits for that lock
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("label the definition: %v", err)
			}
		}
		labels := field(t, s.get(at), "metadata", "labels")
		if m, _ := labels.(map[string]any); len(m) != 2 {
			t.Errorf("the definition has the labels %v, want those of both writes", labels)
		}
	})
}
