package etcdstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	oracle "github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/etcd"
)

// anotherCluster runs an etcd whose cluster has an id of its own.
func anotherCluster(t *testing.T) *oracle.Member {
	t.Helper()
	return oracle.StartFor(t, oracle.Options{NoSync: true, Token: "another"})
}

// TestAConnectionThatLeadsToAnotherClusterIsNoticed: also in the middle of a watch, which clientv3
// continues at any server.
func TestAConnectionThatLeadsToAnotherClusterIsNoticed(t *testing.T) {
	l := newLossy(t)
	l.put(store.Txn{Key: "pods/a", Value: []byte("1")})
	ctx := within(t)
	l.connected(ctx, true)
	other := anotherCluster(t)
	client := connect(t, other.URL())
	for i := range 20 {
		if _, err := client.Put(ctx, fmt.Sprint("/registry/pods/other", i), string(mark)+"1"); err != nil {
			t.Fatalf("write to the other etcd: %v", err)
		}
	}
	l.wire.lead(t, other.URL())
	l.wire.cut()
	select {
	case err := <-l.store.ended:
		if _, is := errors.AsType[*etcd.HistoryError](err); !is {
			t.Errorf("a store that was led to another cluster ends with %v", err)
		}
	case <-ctx.Done():
		t.Error("a store that was led to another cluster goes on")
	}
	page, err := l.store.Read(ctx, store.Query{Start: "pods/", End: "pods0"})
	if err != nil || len(page.Records) != 1 {
		t.Errorf("%d objects are read, with those of another cluster: %v", len(page.Records), err)
	}
}

// TestServersOfSeveralClustersAreNamed: a wrong URL is to be corrected, and costs no history.
func TestServersOfSeveralClustersAreNamed(t *testing.T) {
	own, other := startEtcd(t), anotherCluster(t)
	options := etcd.Options{
		Cluster: etcd.Cluster{Servers: []string{own.URL()}}, Prefix: "/registry", Layout: plain("/registry/"), Dir: t.TempDir(),
	}
	s := run(t, options)
	if _, err := s.Commit(within(t), store.Txn{Key: "pods/a", Value: []byte("1")}); err != nil {
		t.Fatalf("commit: %v", err)
	}
	s.stop(t)
	for name, c := range map[string]struct {
		servers []string
		advice  string
	}{
		"both":          {[]string{own.URL(), other.URL()}, "name the servers of one cluster only"},
		"the other one": {[]string{other.URL()}, "if the URLs are wrong, correct them"},
	} {
		t.Run(name, func(t *testing.T) {
			options := options
			options.Cluster.Servers = c.servers
			text := refusesHistory(t, options).Error()
			for _, server := range c.servers {
				if !strings.Contains(text, server+" is of the cluster ") {
					t.Errorf("it does not say of which cluster %s is: %s", server, text)
				}
			}
			if !strings.Contains(text, c.advice) || strings.Contains(text, "move that directory away") != (len(c.servers) == 1) {
				t.Errorf("the advice is not %q: %s", c.advice, text)
			}
		})
	}
}
