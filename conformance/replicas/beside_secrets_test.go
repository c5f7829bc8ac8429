package replicas_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Providers of an EncryptionConfiguration. The keys are of 32 bytes.
const (
	byCBC       = `{"aescbc":{"keys":[{"name":"c","secret":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}}`
	bySecretbox = `{"secretbox":{"keys":[{"name":"s","secret":"ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="}]}}`
	byGCM       = `{"aesgcm":{"keys":[{"name":"g","secret":"YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk="}]}}`
)

// TestEachServerReadsTheSecretsOfTheOtherWhileKeysRotate: one server after the other is restarted with another key
// for what it writes. What was written before is read by both, and written again with the new key.
func TestEachServerReadsTheSecretsOfTheOtherWhileKeysRotate(t *testing.T) {
	b := startBoth(t, byCBC+","+bySecretbox+","+byGCM)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{b.cluster.EtcdURL()}})
	if err != nil {
		t.Fatalf("make a client of etcd: %v", err)
	}
	defer func() {
		if err := client.Close(); err != nil {
			t.Errorf("close the client of etcd: %v", err)
		}
	}()
	const path = "/api/v1/namespaces/default/secrets"
	// wants checks with which key a Secret is in etcd, and that both servers show it.
	wants := func(name, prefix string) {
		t.Helper()
		resp, err := client.Get(t.Context(), "/registry/secrets/default/"+name)
		if err != nil || len(resp.Kvs) != 1 {
			t.Fatalf("read %s in etcd: %v, %v", name, resp, err)
		}
		value := resp.Kvs[0].Value
		if !bytes.HasPrefix(value, []byte("k8s:enc:"+prefix+":")) || bytes.Contains(value, []byte("hidden")) {
			t.Errorf("%s is in etcd as %.60q, want it encrypted by %s", name, value, prefix)
		}
		theirs, err := b.upstream.get(t.Context(), path+"/"+name)
		if err != nil || theirs == nil {
			t.Fatalf("read %s at kube-apiserver: %v, %v", name, theirs, err)
		}
		ours, err := b.ours.get(t.Context(), path+"/"+name)
		if err != nil {
			t.Fatalf("read %s at gapless: %v", name, err)
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s: -kube-apiserver +gapless:\n%s", name, diff)
		}
	}
	put := func(at *end, method, path, body string) {
		t.Helper()
		a, err := at.do(t.Context(), request{method: method, path: path, contentType: "application/json", body: []byte(body)})
		if err != nil || a.code/100 != 2 {
			t.Fatalf("%s %s: %d %s, %v", method, path, a.code, a.text, err)
		}
	}
	create := func(at *end, name string) {
		t.Helper()
		put(at, http.MethodPost, path, fmt.Sprintf(`{"metadata":{"name":%q},"stringData":{"a":"hidden"}}`, name))
	}
	// rewrite writes what is there.
	rewrite := func(at *end, name string) {
		t.Helper()
		o, err := at.get(t.Context(), path+"/"+name)
		if err != nil || o == nil {
			t.Fatalf("read %s at %s: %v, %v", name, at.name, o, err)
		}
		put(at, http.MethodPut, path+"/"+name, jsonOf(o))
	}
	const cbc, secretbox, gcm = "aescbc:v1:c", "secretbox:v1:s", "aesgcm:v1:g"
	for _, at := range []*end{b.upstream, b.ours} {
		create(at, "first-"+at.name)
		wants("first-"+at.name, cbc)
	}

	b.gapless.stop(t)
	b.encrypt(t, "gapless", bySecretbox+","+byCBC+","+byGCM)
	b.startGapless(t)
	create(b.ours, "second-gapless")
	wants("second-gapless", secretbox)
	create(b.upstream, "second-kube-apiserver")
	wants("second-kube-apiserver", cbc)
	rewrite(b.ours, "first-kube-apiserver")
	wants("first-kube-apiserver", secretbox)

	b.cluster.Stop()
	b.encrypt(t, "kube-apiserver", byGCM+","+bySecretbox+","+byCBC)
	b.cluster.Start()
	for _, name := range []string{"first-gapless", "second-kube-apiserver"} {
		wants(name, cbc)
		rewrite(b.upstream, name)
		wants(name, gcm)
	}
	wants("second-gapless", secretbox)
	list, err := b.upstream.get(t.Context(), path)
	if err != nil {
		t.Fatalf("list at kube-apiserver: %v", err)
	}
	same, err := b.ours.get(t.Context(), path)
	if err != nil {
		t.Fatalf("list at gapless: %v", err)
	}
	if diff := cmp.Diff(list, same); diff != "" {
		t.Errorf("list of Secrets: -kube-apiserver +gapless:\n%s", diff)
	}
}
