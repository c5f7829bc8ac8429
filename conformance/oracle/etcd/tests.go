package etcd

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	store "github.com/gapless-io/gapless/internal/store/etcd"
)

// StartFor starts a member, in a directory of its own if the options name none, that ends with a test.
func StartFor(tb testing.TB, options Options) *Member {
	tb.Helper()
	if options.Dir == "" {
		options.Dir = tb.TempDir()
	}
	member, err := Start(tb.Context(), options)
	if err != nil {
		tb.Fatalf("start etcd: %v", err)
	}
	tb.Cleanup(func() {
		if err := member.Stop(); err != nil {
			tb.Errorf("stop etcd: %v", err)
		}
	})
	return member
}

// ClientFor returns a client of the etcd at a URL, as replicas have it, that ends with a test.
func ClientFor(tb testing.TB, url string) *clientv3.Client {
	tb.Helper()
	client, err := store.Dial(context.WithoutCancel(tb.Context()), store.Cluster{Servers: []string{url}})
	if err != nil {
		tb.Fatalf("make a client of etcd: %v", err)
	}
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Errorf("close the client of etcd: %v", err)
		}
	})
	return client
}
