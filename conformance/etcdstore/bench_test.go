package etcdstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

// BenchmarkCreate writes 1 KB with 256 clients, through a replica with its log on disk, and to etcd alone.
func BenchmarkCreate(b *testing.B) {
	ctx := context.WithoutCancel(b.Context())
	member, err := oracle.Start(ctx, oracle.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatalf("start etcd: %v", err)
	}
	o := optionsFor(member.URL())
	o.Memory, o.Dir = false, b.TempDir()
	s, err := etcd.Open(ctx, o)
	if err != nil {
		b.Fatalf("open the store: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with Close
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Errorf("close the store: %v", err)
		}
		if err := member.Stop(); err != nil {
			b.Errorf("stop etcd: %v", err)
		}
	})
	value := []byte(strings.Repeat("x", 1024))
	var n atomic.Int64
	b.Run("replica", func(b *testing.B) {
		b.SetParallelism(128)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := s.Commit(ctx, store.Txn{Key: fmt.Sprint("pods/", n.Add(1)), Value: value}); err != nil {
					b.Errorf("commit: %v", err)
				}
			}
		})
	})
	b.Run("etcd", func(b *testing.B) {
		b.SetParallelism(128)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				key := fmt.Sprint("/alone/pods/", n.Add(1))
				_, err := s.Client().Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
					Then(clientv3.OpPut(key, string(value))).Else(clientv3.OpGet(key)).Commit()
				if err != nil {
					b.Errorf("commit to etcd: %v", err)
				}
			}
		})
	})
}
