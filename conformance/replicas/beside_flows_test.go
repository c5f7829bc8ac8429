package replicas_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestBothServersWriteTheSameAboutAFlowSchema: each notes whether the level is there, and neither writes again what the other
// has written.
func TestBothServersWriteTheSameAboutAFlowSchema(t *testing.T) {
	b := startBoth(t, byCBC)
	const group = "/apis/flowcontrol.apiserver.k8s.io/v1"
	put := func(path, body string) {
		t.Helper()
		a, err := b.ours.do(t.Context(), request{
			method: http.MethodPost, path: group + path, contentType: "application/json", body: []byte(body),
		})
		if err != nil || a.code != http.StatusCreated {
			t.Fatalf("create %s: %+v, %v", body, a, err)
		}
	}
	says := func(reason string) {
		t.Helper()
		harness.Eventually(t, "the FlowSchema is "+reason, func() bool {
			resp, err := etcdAt(t, b.cluster.EtcdURL()).Get(t.Context(), "/registry/flowschemas/mine")
			return err == nil && len(resp.Kvs) == 1 && strings.Contains(string(resp.Kvs[0].Value), "Dangling") &&
				strings.Contains(string(resp.Kvs[0].Value), reason)
		})
	}
	put("/flowschemas", `{"metadata":{"name":"mine"},"spec":{"priorityLevelConfiguration":{"name":"mine"}}}`)
	says("there is no such object")
	put("/prioritylevelconfigurations",
		`{"metadata":{"name":"mine"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}`)
	says("and it exists")
	resp, err := etcdAt(t, b.cluster.EtcdURL()).Get(t.Context(), "/registry/flowschemas/", clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("read etcd: %v", err)
	}
	if len(resp.Kvs) != 12 {
		t.Errorf("there are %d FlowSchemas, want 11 and that of a user", len(resp.Kvs))
	}
	for _, kv := range resp.Kvs {
		// Of each condition one write, or one of each server at the same moment.
		if kv.Version > 5 {
			t.Errorf("%s was written %d times", kv.Key, kv.Version)
		}
	}
	theirs, err := b.upstream.get(t.Context(), group+"/flowschemas/mine")
	if err != nil {
		t.Fatalf("read it at kube-apiserver: %v", err)
	}
	ours, err := b.ours.get(t.Context(), group+"/flowschemas/mine")
	if err != nil {
		t.Fatalf("read it at gapless: %v", err)
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("-kube-apiserver +gapless:\n%s", diff)
	}
}
