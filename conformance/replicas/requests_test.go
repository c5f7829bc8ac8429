package replicas_test

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestAPodCertificateRequestKeepsItsPublicKey: that of v1beta1, which v1 does not have, through writes of the object and of
// its status.
func TestAPodCertificateRequestKeepsItsPublicKey(t *testing.T) {
	url := member(t)
	r := start(t, url, t.TempDir(), nil)
	client := etcdAt(t, url)
	const key = "/registry/podcertificaterequests/default/a"
	_, err := client.Put(t.Context(), key, `{"apiVersion":"certificates.k8s.io/v1beta1","kind":"PodCertificateRequest",
		"metadata":{"name":"a","namespace":"default","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{
		"signerName":"example.com/s","podName":"p","podUID":"pu","serviceAccountName":"sa","serviceAccountUID":"sau",
		"nodeName":"n","nodeUID":"nu","maxExpirationSeconds":3600,"pkixPublicKey":"AQID","proofOfPossession":"BAUG"}}`)
	if err != nil {
		t.Fatalf("write to etcd: %v", err)
	}
	requests := dynamicOf(t, r.RESTConfig()).Resource(schema.GroupVersionResource{
		Group: "certificates.k8s.io", Version: "v1", Resource: "podcertificaterequests",
	}).Namespace("default")
	harness.Eventually(t, "the request is there", func() bool {
		_, err := requests.Get(t.Context(), "a", metav1.GetOptions{})
		return err == nil
	})
	for _, c := range []struct {
		patch string
		sub   []string
	}{
		{`{"metadata":{"labels":{"l":"1"}}}`, nil},
		{`{"status":{"conditions":[{"type":"Denied","status":"True","reason":"Tested","message":"","lastTransitionTime":` +
			`"2026-01-01T00:00:00Z"}]}}`, []string{"status"}},
	} {
		if _, err := requests.Patch(t.Context(), "a", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{},
			c.sub...); err != nil {
			t.Fatalf("patch %s: %v", c.patch, err)
		}
		o := requestAt(t, client, key)
		public, proof := string(o.Spec.PKIXPublicKey), string(o.Spec.ProofOfPossession) //nolint:staticcheck // still stored
		if public != "\x01\x02\x03" || proof != "\x04\x05\x06" || o.Labels["l"] != "1" {
			t.Errorf("after %s etcd has %+v", c.patch, o)
		}
	}
}

// requestAt reads a PodCertificateRequest from etcd, as kube-apiserver stores it.
func requestAt(t *testing.T, client *clientv3.Client, key string) certificatesv1beta1.PodCertificateRequest {
	t.Helper()
	var envelope runtime.Unknown
	var o certificatesv1beta1.PodCertificateRequest
	value := keysBelow(t, client, key).Kvs[0].Value
	if err := errors.Join(envelope.Unmarshal(value[len("k8s\x00"):]), o.Unmarshal(envelope.Raw)); err != nil {
		t.Fatalf("read %q: %v", value, err)
	}
	if envelope.APIVersion != certificatesv1beta1.SchemeGroupVersion.String() {
		t.Errorf("it is stored in %s", envelope.APIVersion)
	}
	return o
}
