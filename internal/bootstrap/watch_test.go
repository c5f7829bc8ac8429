package bootstrap_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// late deletes the ConfigMap of a namespace just before the ConfigMaps are watched, and, if it can be,
// after the namespace was checked.
type late struct {
	*cluster
	once    sync.Once
	checked chan struct{} // closed when the ServiceAccount, the last in a namespace, was read
	reads   atomic.Int64
}

func (l *late) Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error) {
	o, err := l.cluster.Get(ctx, t, rv)
	if t.Resource.Plural == "serviceaccounts" && l.reads.Add(1) == 4 { // one in each namespace
		close(l.checked)
	}
	return o, err
}

func (l *late) Watch(ctx context.Context, t kinds.Target, o wire.ListOptions) (wire.Watch, error) {
	if t.Resource.Plural == "configmaps" {
		l.once.Do(func() {
			select {
			case <-l.checked: // too early: what is deleted now is not seen
			case <-time.After(200 * time.Millisecond): // nothing is checked before it is watched
			}
			t.Namespace, t.Name = "kube-public", "kube-root-ca.crt"
			if _, err := l.Delete(ctx, t, metav1.DeleteOptions{}); err != nil {
				l.t.Errorf("delete the ConfigMap: %v", err)
			}
			t.Namespace, t.Name = "", ""
		})
	}
	return l.cluster.Watch(ctx, t, o)
}

// TestWhatIsDeletedBeforeItIsWatchedIsRecreated: the watches are not opened at the same moment.
func TestWhatIsDeletedBeforeItIsWatchedIsRecreated(t *testing.T) {
	log := openLog(t)
	c := keep(t, log, here, ca())
	c.waitComplete()
	was := c.find(c.at("", "configmaps", "kube-public", "kube-root-ca.crt")).UID()
	c.stop()
	c = keepBy(t, log, func(c *cluster) bootstrap.Config {
		return bootstrap.Config{Verbs: &late{cluster: c, checked: make(chan struct{})}, CA: ca()}
	})
	c.eventually(c.at("", "configmaps", "kube-public", "kube-root-ca.crt"), "another ConfigMap", func(o *wire.Object) bool {
		return o != nil && o.UID() != was
	})
}
