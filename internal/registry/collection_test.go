package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/store"
)

// halting is a store in which the write of one object waits, and that of another one fails.
type halting struct {
	store.Store
	goOn chan struct{}
}

var errNoQuorum = errors.New("etcdserver: no leader")

func (h *halting) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	switch {
	case strings.HasSuffix(t.Key, "/a-waits") && t.Delete:
		<-h.goOn
		if err := ctx.Err(); err != nil {
			return store.Committed{}, err
		}
	case strings.HasSuffix(t.Key, "/b-fails") && t.Delete:
		return store.Committed{}, errNoQuorum
	}
	return h.Store.Commit(ctx, t)
}

func TestAFailedDeletionOfACollectionDoesNotInterruptOthersOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &halting{goOn: make(chan struct{})}
		s, _ := serveOn(t, openLog(t), func(below store.Store) store.Store { h.Store = below; return h })
		all := s.at("configmaps", "default")
		s.create(all, `{"metadata":{"name":"b-fails"}}`)
		s.create(all, `{"metadata":{"name":"a-waits"}}`)
		ended := make(chan error, 1)
		go func() { // ends once h goes on
			_, err := s.DeleteCollection(t.Context(), all, metav1.DeleteOptions{}, options(nil))
			ended <- err
		}()
		synctest.Wait() // one has failed, the other one waits
		close(h.goOn)
		if err := <-ended; !errors.Is(err, errNoQuorum) {
			t.Errorf("delete the collection: %v, want %v", err, errNoQuorum)
		}
		if got := strings.Join(names(s.list(all, nil)), " "); got != "default/b-fails" {
			t.Errorf("left: %s, want only the one whose deletion failed", got)
		}
	})
}
