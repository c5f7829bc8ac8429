package etcdstore_test

import (
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
	"github.com/gapless-io/gapless/internal/store/storetest"
)

// address is where a member listens.
type address string

func (a address) Address() string { return string(a) }

// behind returns a proxy before an etcd, which can be cut.
func behind(t *testing.T, memberURL string) *harness.Proxy {
	t.Helper()
	u, err := url.Parse(memberURL)
	if err != nil {
		t.Fatalf("parse the URL of etcd: %v", err)
	}
	return harness.NewProxy(t, address(u.Host))
}

// plainURL is a proxy's URL for etcd without TLS.
func plainURL(t *testing.T, p *harness.Proxy) string {
	t.Helper()
	u, err := url.Parse(p.URL())
	if err != nil {
		t.Fatalf("parse the URL of the proxy: %v", err)
	}
	return "http://" + u.Host
}

// cutStore is a store whose connection to etcd can be cut.
type cutStore struct {
	*running

	proxy  *harness.Proxy
	prefix string
}

// TestStoreOverEtcdShowsWhatOthersWrite: transactions on several keys, and what etcd compacted while
// the replica was away.
func TestStoreOverEtcdShowsWhatOthersWrite(t *testing.T) {
	member := startEtcd(t)
	client := connect(t, member.URL())
	var claims atomic.Int64
	commit := func(t *testing.T, s *cutStore, txns ...store.Txn) int64 {
		t.Helper()
		var ops []clientv3.Op
		for _, txn := range txns {
			key := s.prefix + txn.Key
			if txn.Delete {
				ops = append(ops, clientv3.OpDelete(key))
				continue
			}
			value, err := plain(s.prefix).Encode(txn.Key, txn.Value, nil)
			if err != nil {
				t.Fatalf("encode %q: %v", txn.Key, err)
			}
			ops = append(ops, clientv3.OpPut(key, string(value)))
		}
		done, err := client.Txn(within(t)).Then(ops...).Commit()
		if err != nil {
			t.Fatalf("commit as another client: %v", err)
		}
		return done.Header.Revision
	}
	storetest.RunForeign(t, storetest.Foreign{
		Open: func(t *testing.T) store.Store {
			t.Helper()
			prefix := fmt.Sprintf("/foreign%d/", claims.Add(1))
			proxy := behind(t, member.URL())
			return &cutStore{proxy: proxy, prefix: prefix, running: run(t, etcd.Options{
				Cluster: etcd.Cluster{Servers: []string{plainURL(t, proxy)}}, Prefix: prefix, Layout: plain(prefix), Memory: true,
			})}
		},
		Together: func(t *testing.T, s store.Store, txns ...store.Txn) int64 {
			t.Helper()
			if _, err := s.Progress(within(t)); err != nil { // it has its first state
				t.Fatalf("ask for the progress: %v", err)
			}
			cut, _ := s.(*cutStore)
			revision := commit(t, cut, txns...)
			if now, err := s.Progress(within(t)); err != nil || now < revision {
				t.Fatalf("the progress after revision %d is %d, %v", revision, now, err)
			}
			return revision
		},
		Miss: func(t *testing.T, s store.Store, write func(together func(txns ...store.Txn) int64)) store.Hole {
			t.Helper()
			cut, _ := s.(*cutStore)
			from, err := s.Progress(within(t))
			if err != nil {
				t.Fatalf("ask for the progress: %v", err)
			}
			holes := len(cut.Stats().Holes)
			cut.proxy.Refuse()
			cut.proxy.Cut()
			write(func(txns ...store.Txn) int64 { return commit(t, cut, txns...) })
			other, err := client.Put(within(t), "/other", "1")
			if err != nil {
				t.Fatalf("write something else: %v", err)
			}
			if err := member.Compact(within(t), other.Header.Revision); err != nil {
				t.Fatalf("compact etcd: %v", err)
			}
			cut.proxy.Accept(t)
			to := reaches(within(t), t, s, other.Header.Revision)
			if n := len(cut.Stats().Holes); n != holes+1 {
				t.Fatalf("the store has %d holes, want one more than %d", n, holes)
			}
			return store.Hole{From: from, To: to}
		},
	})
}
