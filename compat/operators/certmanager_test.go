package operators

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	namespace = "cert-manager"

	invalidIssuer = "apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: invalid, namespace: demo}\nspec: {}\n"
	selfSigned    = "apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: self-signed, namespace: " +
		"demo}\nspec: {selfSigned: {}}\n"
	ca = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ca, namespace: demo}
spec:
  isCA: true
  commonName: ca
  secretName: ca
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: self-signed, kind: Issuer, group: cert-manager.io}
`
	caIssuer = "apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata: {name: ca, namespace: demo}\nspec: {ca: " +
		"{secretName: ca}}\n"
	leaf = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: web, namespace: demo}
spec:
  secretName: web
  dnsNames: [web.example.org]
  privateKey: {algorithm: ECDSA, size: 256}
  issuerRef: {name: ca, kind: Issuer, group: cert-manager.io}
`
)

var (
	certificates = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}
	requests     = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificaterequests"}
	issuers      = schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "issuers"}
)

// installCertManager installs cert-manager's chart and starts its programs.
func (c *cluster) installCertManager(t *testing.T) {
	t.Helper()
	chart := filepath.Join(module(t, "certmanager", certManager), "deploy/charts/cert-manager")
	c.helm(t, "install", "cert-manager", chart, "--namespace="+namespace, "--create-namespace",
		"--set=crds.enabled=true,startupapicheck.enabled=false")
	c.mustCreate(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n")
	// Nobody answers yet, and its failure policy is Fail.
	if err := c.create(t, selfSigned); !apierrors.IsInternalError(err) ||
		!strings.Contains(err.Error(), `failed calling webhook "webhook.cert-manager.io"`) {
		t.Errorf("without the webhook's program, the creation of an issuer returns %v", err)
	}
	c.start(t, "controller", namespace, "cert-manager", "--kubeconfig=$KUBECONFIG", "--cluster-resource-namespace="+namespace)
	c.start(t, "cainjector", namespace, "cert-manager-cainjector", "--kubeconfig=$KUBECONFIG")
	free := freePort(t)
	c.start(t, "webhook", namespace, "cert-manager-webhook", "--kubeconfig=$KUBECONFIG", "--secure-port="+free,
		"--healthz-port=0", "--metrics-listen-address=0",
		"--dynamic-serving-ca-secret-namespace="+namespace, "--dynamic-serving-ca-secret-name=cert-manager-webhook-ca",
		"--dynamic-serving-dns-names=cert-manager-webhook.cert-manager.svc")
	port, err := strconv.ParseInt(free, 10, 32)
	if err != nil {
		t.Fatalf("read a number: %v", err)
	}
	c.endpoint(t, namespace, "cert-manager-webhook", int32(port))
}

// certificatesAreIssued waits for a certificate of a self-signed authority, and for one that this
// authority signs.
func (c *cluster) certificatesAreIssued(t *testing.T) {
	c.bundlesAreFilled(t)
	// cert-manager's webhook may still have no certificate of its own.
	var refusal error
	harness.Eventually(t, "the webhook answers", func() bool {
		refusal = c.create(t, invalidIssuer)
		return refusal == nil || !strings.Contains(refusal.Error(), "failed calling webhook")
	})
	const want = `admission webhook "webhook.cert-manager.io" denied the request: spec: Required value: at least one ` +
		`issuer must be configured`
	if refusal == nil || refusal.Error() != want {
		t.Errorf("an invalid issuer is answered with %v, want %s", refusal, want)
	}

	c.mustCreate(t, selfSigned)
	c.ready(t, issuers, "demo", "self-signed")
	c.mustCreate(t, ca)
	c.ready(t, certificates, "demo", "ca")
	secret := c.secret(t, "demo", "ca")
	verify(t, secret.Data["tls.crt"], secret.Data["ca.crt"], "")

	c.mustCreate(t, caIssuer)
	c.ready(t, issuers, "demo", "ca")
	c.mustCreate(t, leaf)
	c.ready(t, certificates, "demo", "web")
	verify(t, c.secret(t, "demo", "web").Data["tls.crt"], secret.Data["tls.crt"], "web.example.org")
	c.requestsHaveTheirUser(t)
}

// bundlesAreFilled waits until the cainjector has written the webhook's authority into the
// configurations.
func (c *cluster) bundlesAreFilled(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "the configurations have the webhook's authority", func() bool {
		secret, err := c.typed.CoreV1().Secrets(namespace).Get(t.Context(), "cert-manager-webhook-ca", metav1.GetOptions{})
		if err != nil {
			return false
		}
		want := secret.Data["ca.crt"]
		validating, mutating := c.validating(t, "cert-manager-webhook"), c.mutating(t, "cert-manager-webhook")
		return len(want) > 0 && bytes.Equal(validating.Webhooks[0].ClientConfig.CABundle, want) &&
			bytes.Equal(mutating.Webhooks[0].ClientConfig.CABundle, want)
	})
}

func (c *cluster) validating(t *testing.T, name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	o, err := c.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get validating webhook configurations: %v", err)
	}
	return o
}

func (c *cluster) mutating(t *testing.T, name string) *admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	o, err := c.typed.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get mutating webhook configurations: %v", err)
	}
	return o
}

// requestsHaveTheirUser checks what the mutating webhook writes: who made a request, which is the
// controller's service account.
func (c *cluster) requestsHaveTheirUser(t *testing.T) {
	t.Helper()
	all, err := c.objects.Resource(requests).Namespace("demo").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list namespace: %v", err)
	}
	if len(all.Items) != 2 {
		t.Errorf("there are %d requests, want 2", len(all.Items))
	}
	for i := range all.Items {
		user, _, err := unstructured.NestedString(all.Items[i].Object, "spec", "username")
		if want := "system:serviceaccount:cert-manager:cert-manager"; err != nil || user != want {
			t.Errorf("request %s is of %q, want %q (%v)", all.Items[i].GetName(), user, want, err)
		}
	}
}

// accountsMayDoNoMore checks that the identities are those of the roles: the webhook's account may
// not read what only the controller's may.
func (c *cluster) accountsMayDoNoMore(t *testing.T) {
	for account, may := range map[string]bool{"cert-manager": true, "cert-manager-webhook": false} {
		config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig(t, namespace, account))
		if err != nil {
			t.Fatalf("read the kubeconfig: %v", err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatalf("make a client: %v", err)
		}
		if _, err := client.CoreV1().Secrets("demo").Get(t.Context(), "web", metav1.GetOptions{}); may && err != nil ||
			!may && !apierrors.IsForbidden(err) {
			t.Errorf("%s reads a Secret of another namespace: %v, want it to be allowed: %t", account, err, may)
		}
	}
}

func (c *cluster) secret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	secret, err := c.typed.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get secrets: %v", err)
	}
	return secret
}

// verify checks a certificate against an authority, for a DNS name if there is one.
func verify(t *testing.T, certificate, authority []byte, name string) {
	t.Helper()
	block, _ := pem.Decode(certificate)
	if block == nil {
		t.Fatalf("tls.crt is no PEM: %q", certificate)
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatalf("parse the certificate: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("the authority is no PEM: %q", authority)
	}
	if _, err := parsed.Verify(x509.VerifyOptions{
		Roots: roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}); err != nil {
		t.Errorf("verify the certificate of %q: %v", parsed.Subject, err)
	}
}
