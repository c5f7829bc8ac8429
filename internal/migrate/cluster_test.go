package migrate

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/store/encrypted"
)

// sorted is an etcd with keys in order, that counts how many of them it has visited for reads of values.
type sorted struct {
	clientv3.KV

	kvs     []*mvccpb.KeyValue
	visited int
}

// Get implements clientv3.KV. It visits all keys of the range, as etcd does to count them.
func (s *sorted) Get(_ context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	op := clientv3.OpGet(key, opts...)
	resp := &clientv3.GetResponse{Header: &etcdserverpb.ResponseHeader{Revision: 7}}
	for _, kv := range s.kvs {
		if bytes.Compare(kv.Key, op.KeyBytes()) < 0 || bytes.Compare(kv.Key, op.RangeBytes()) >= 0 {
			continue
		}
		if !op.IsKeysOnly() {
			s.visited++
		}
		if resp.More = op.Limit() > 0 && int64(len(resp.Kvs)) == op.Limit(); resp.More {
			continue
		}
		resp.Kvs = append(resp.Kvs, kv)
	}
	return resp, nil
}

// clusterOf returns the objects of an etcd with so many Secrets and ConfigMaps.
func clusterOf(t *testing.T, objects int) (*cluster, *sorted) {
	t.Helper()
	etcd := &sorted{}
	for _, of := range []struct{ resource, kind string }{{"configmaps", "ConfigMap"}, {"secrets", "Secret"}} {
		for i := range objects / 2 {
			etcd.kvs = append(etcd.kvs, &mvccpb.KeyValue{
				Key: fmt.Appendf(nil, "/registry/%s/default/o%06d", of.resource, i),
				Value: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"%s","metadata":{"name":"o%06d","namespace":"default"}}`,
					of.kind, i),
				ModRevision: int64(i + 1), CreateRevision: 1,
			})
		}
	}
	plain := layout.New("/registry", kinds.NewLive(builtin.Catalog()))
	values, err := encrypted.OpenLayout(t.Context(), plain, encrypted.Config{})
	if err != nil {
		t.Fatalf("open the layout: %v", err)
	}
	t.Cleanup(values.Close)
	m := &mover{Options: Options{Prefix: "/registry"}, plain: plain, layout: values, client: &clientv3.Client{KV: etcd}}
	return m.cluster(), etcd
}

// TestAReadOfAllObjectsVisitsEachKeyAFewTimes: etcd visits all keys up to the end of the range for each page.
func TestAReadOfAllObjectsVisitsEachKeyAFewTimes(t *testing.T) {
	for _, objects := range []int{0, 2, 2 * markEvery, 2*markEvery + 2, 10_000} {
		from, etcd := clusterOf(t, objects)
		if err := from.scan(t.Context(), func(key string) error { return fmt.Errorf("%s is no object", key) }); err != nil {
			t.Fatalf("find the keys of %d objects: %v", objects, err)
		}
		read, last := 0, ""
		err := each(t.Context(), from.pages(t.Context(), ""), func(o *object) error {
			if o.err != nil || o.key <= last {
				return fmt.Errorf("%s follows %s: %w", o.key, last, o.err)
			}
			read, last = read+1, o.key
			return nil
		})
		if err != nil || read != objects {
			t.Errorf("of %d objects %d were read: %v", objects, read, err)
		}
		if etcd.visited > 4*objects {
			t.Errorf("for %d objects etcd has visited %d keys, want a few for each", objects, etcd.visited)
		}
	}
}
