package etcdstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

// TestStoreOverEtcdIsAStore: with nobody else at etcd, revisions are contiguous too.
func TestStoreOverEtcdIsAStore(t *testing.T) {
	member := startEtcd(t)
	var claims atomic.Int64
	storetest.Run(t, func(t *testing.T) store.Store {
		t.Helper()
		prefix := fmt.Sprintf("/claim%d/", claims.Add(1))
		return run(t, etcd.Options{
			Cluster: etcd.Cluster{Servers: []string{member.URL()}}, Prefix: prefix, Layout: plain(prefix), Memory: true,
		})
	})
}
