package layout_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
)

// request is a PodCertificateRequest as kube-apiserver may have it, in a version and a form: all fields are set.
func request(t *testing.T, version, form string) []byte {
	t.Helper()
	gvk := kinds.GroupVersionKind{Group: "certificates.k8s.io", Version: version, Kind: "PodCertificateRequest"}
	return read(t, fixture(fixtures(t, "HEAD"), gvk)+form)
}

// specOf reads the spec of a PodCertificateRequest in v1beta1.
func specOf(t *testing.T, stored []byte) certificatesv1beta1.PodCertificateRequestSpec {
	t.Helper()
	var envelope runtime.Unknown
	var o certificatesv1beta1.PodCertificateRequest
	if err := errors.Join(envelope.Unmarshal(stored[len("k8s\x00"):]), o.Unmarshal(envelope.Raw)); err != nil {
		t.Fatalf("read %q: %v", stored, err)
	}
	return o.Spec
}

// TestAWriteKeepsWhatAPodCertificateRequestHasInV1beta1Only: its public key and the proof that the client has its
// private one.
func TestAWriteKeepsWhatAPodCertificateRequestHasInV1beta1Only(t *testing.T) {
	l := newLayout()
	const key = "podcertificaterequests.certificates.k8s.io/default/a"
	stored := request(t, "v1beta1", ".pb")
	want, without := specOf(t, stored), specOf(t, stored)
	without.PKIXPublicKey, without.ProofOfPossession = nil, nil //nolint:staticcheck // deprecated, and still stored
	value, err := l.Decode(key, stored)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	for name, c := range map[string]struct {
		before []byte
		want   certificatesv1beta1.PodCertificateRequestSpec
	}{
		"protobuf in v1beta1": {stored, want}, "JSON in v1beta1": {request(t, "v1beta1", ".json"), want},
		"protobuf in v1": {request(t, "v1", ".pb"), without}, "JSON in v1": {request(t, "v1", ".json"), without},
		"nothing": {nil, without},
	} {
		got, err := l.Encode(key, value, func() ([]byte, error) { return c.before, nil })
		if err != nil {
			t.Fatalf("%s: encode: %v", name, err)
		}
		if diff := cmp.Diff(c.want, specOf(t, got)); diff != "" {
			t.Errorf("after %s the spec is another one (-want +got):\n%s", name, diff)
		}
	}
	unread := errors.New("it cannot be read")
	if _, err := l.Encode(key, value, func() ([]byte, error) { return nil, unread }); !errors.Is(err, unread) {
		t.Errorf("without the value before: %v", err)
	}
	if _, err := l.Encode(key, value, func() ([]byte, error) { return []byte("k8s\x00\xff"), nil }); err == nil {
		t.Error("a value before that cannot be read is taken for one without the fields")
	}
	// Others are not asked for what was before.
	if _, err := l.Encode("configmaps/default/a", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`),
		func() ([]byte, error) { return nil, unread }); err != nil {
		t.Errorf("a ConfigMap: %v", err)
	}
}
