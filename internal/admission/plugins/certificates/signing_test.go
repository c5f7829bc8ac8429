package certificates_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/admission/plugins/certificates"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

var requests = kinds.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}

// csr is a request in YAML.
func csr(signer, status string) string {
	return "{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: r}, " +
		"spec: {signerName: " + signer + "}, status: {" + status + "}}"
}

func TestWhoApprovesAndSignsMayDoSo(t *testing.T) {
	const refused = `certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to `
	for _, c := range []struct {
		subresource, now, old string
		may                   auth.Authorizer
		want                  string
	}{
		{"approval", csr("e.x/s", ""), csr("e.x/s", ""), uses{"approve", "e.x/s"}, ""},
		{"approval", csr("e.x/s", ""), csr("e.x/s", ""), uses{"approve", "e.x/*"}, ""},
		{
			"approval", csr("e.x/s", ""), csr("e.x/s", ""),
			uses{"sign", "e.x/s"},
			refused + `approve requests with signerName "e.x/s"`,
		},
		{ // what the update makes of the name does not count
			"approval", csr("e.x/mine", ""), csr("e.x/s", ""),
			uses{"approve", "e.x/mine"},
			refused + `approve requests with signerName "e.x/s"`,
		},
		{"status", csr("e.x/s", "certificate: YQ=="), csr("e.x/s", ""), uses{"sign", "e.x/s"}, ""},
		{
			"status", csr("e.x/s", "certificate: YQ=="), csr("e.x/s", ""),
			uses{"approve", "e.x/s"},
			refused + `sign requests with signerName "e.x/s"`,
		},
		{
			"status", csr("e.x/s", "conditions: [{type: Failed}]"), csr("e.x/s", ""),
			uses{},
			refused + `sign requests with signerName "e.x/s"`,
		},
		{"status", csr("e.x/s", ""), csr("e.x/s", ""), uses{}, ""},
	} {
		p := certificates.CertificateApproval(c.may)
		if c.subresource == "status" {
			p = certificates.CertificateSigning(c.may)
		}
		err := pluginstest.Of(p, requests).Subresource(c.subresource).By("jane").
			About(t, pluginstest.Tree(t, c.now), pluginstest.Tree(t, c.old))
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s %s: %v, want %q", c.subresource, c.now, err, c.want)
		}
	}
}

func TestNobodyRequestsACertificateOfMasters(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	request := func(organization string) string {
		raw, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane", Organization: []string{organization}}}, key)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
	}
	for _, c := range []struct{ signer, request, want string }{
		{"kubernetes.io/kube-apiserver-client", request("dev"), ""},
		{
			"kubernetes.io/kube-apiserver-client", request("system:masters"),
			"use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
		},
		{"example.com/s", request("system:masters"), ""},
		{"kubernetes.io/kube-apiserver-client", "YQ==", "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"},
	} {
		now := pluginstest.Tree(t, strings.Replace(csr(c.signer, ""), "spec: {", "spec: {request: "+c.request+", ", 1))
		err := pluginstest.Of(certificates.CertificateSubjectRestriction(), requests).By("jane").About(t, now, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.signer, err, c.want)
		}
	}
}
