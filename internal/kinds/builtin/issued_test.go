package builtin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestIssuedCertificateMustFitItsRequest issues certificates to a pod, and for each one the
// update of the status is refused or not.
func TestIssuedCertificateMustFitItsRequest(t *testing.T) {
	for _, tt := range []struct {
		name         string
		otherKey     bool
		begins, ends time.Duration // of the certificate, from now
		refresh      time.Duration
		want         string // "": accepted
	}{
		{name: "as requested", ends: 2 * time.Hour, refresh: time.Hour},
		{
			name: "of another key", otherKey: true, ends: 2 * time.Hour, refresh: time.Hour,
			want: "leaf certificate was not issued to the requested public key",
		},
		{
			name: "from yesterday", begins: -24 * time.Hour, ends: 2 * time.Hour, refresh: time.Hour,
			want: "must be set to within 5 minutes",
		},
		{
			name: "for minutes", ends: 30 * time.Minute, refresh: 15 * time.Minute,
			want: "leaf certificate lifetime must be >= 1 hour",
		},
		{
			name: "for days", ends: 48 * time.Hour, refresh: time.Hour,
			want: "leaf certificate lifetime must be <= spec.maxExpirationSeconds (86400)",
		},
		{
			name: "refreshed too late", ends: 2 * time.Hour, refresh: 115 * time.Minute,
			want: "must be at least 10 minutes before status.notAfter",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key, signer := newKey(t), newKey(t)
				stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
				if err != nil {
					t.Fatal(err)
				}
				if tt.otherKey {
					key = signer
				}
				now := time.Now().UTC().Truncate(time.Second)
				leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(tt.begins), NotAfter: now.Add(tt.ends)}
				raw, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), signer)
				if err != nil {
					t.Fatal(err)
				}
				r := byPlural(t, "podcertificaterequests")
				before := `{"spec":{"stubPKCS10Request":"` + base64.StdEncoding.EncodeToString(stub) + `"}}`
				status, err := json.Marshal(map[string]any{"status": map[string]any{
					"certificateChain": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})),
					"notBefore":        leaf.NotBefore, "notAfter": leaf.NotAfter, "beginRefreshAt": now.Add(tt.refresh),
					"conditions": []any{map[string]any{
						"type": "Issued", "status": "True", "reason": "Test", "message": "m", "lastTransitionTime": now,
					}},
				}})
				if err != nil {
					t.Fatal(err)
				}
				old := changed(t, r, before)
				issued := changed(t, r, before)
				maps.Copy(issued.Object, object(t, status))
				errs, _ := r.Type.Validate(issued, old)
				got := errs.ToAggregate()
				if tt.want == "" && got != nil || tt.want != "" && (got == nil || !strings.Contains(got.Error(), tt.want)) {
					t.Errorf("got %v\nwant %q", got, tt.want)
				}
			})
		})
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func object(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o
}
