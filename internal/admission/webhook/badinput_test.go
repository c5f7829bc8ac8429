package webhook_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
)

// raw answers with a body; %s in it is the uid of the review.
func raw(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(strings.ReplaceAll(body, "%s", string(reviewOf(r).Request.UID)))) // the caller may have left
	}
}

// head begins an answer of v1.
const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":`

func TestAnswersAreNotBelieved(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Mutating", "m", h.webhook("m.example.com", onMaps+`,"timeoutSeconds":30`))
	const failed = `500 Internal error occurred: failed calling webhook "m.example.com": `
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string // the beginning of the error
	}{
		"nothing": {
			raw(``),
			failed + `failed to call webhook: 0-length response with status code: 200 and content type: application/json`,
		},
		"garbage": {
			raw(`{"`),
			failed + `failed to call webhook: couldn't get version/kind; json parse error: unexpected end of JSON input`,
		},
		"trailing": {
			raw(head + `{"uid":"%s","allowed":true}}garbage`),
			failed +
				`failed to call webhook: couldn't get version/kind; json parse error: invalid character 'g' ` +
				`after top-level value`,
		},
		"another kind": {
			raw(`{"apiVersion":"v1","kind":"Pod"}`),
			failed + `failed to call webhook: no kind "Pod" is registered for version "v1"`,
		},
		"no kind": {
			raw(`{"response":{"uid":"%s","allowed":true}}`),
			failed +
				`received invalid webhook response: expected webhook response of admission.k8s.io/v1, ` +
				`Kind=AdmissionReview, got /, Kind=`,
		},
		"no response": {
			raw(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`),
			failed + `received invalid webhook response: webhook response was absent`,
		},
		"another uid": {
			raw(head + `{"uid":"x","allowed":true}}`), failed + `received invalid webhook response: expected response.uid="`,
		},
		"patch, no type": {
			raw(head + `{"uid":"%s","allowed":true,"patch":"W10="}}`),
			failed + `received invalid webhook response: webhook returned response.patch but not response.patchType`,
		},
		"type, no patch": {
			raw(head + `{"uid":"%s","allowed":true,"patchType":"JSONPatch"}}`),
			failed + `received invalid webhook response: webhook returned response.patchType but not response.patch`,
		},
		"another patch": {
			raw(head + `{"uid":"%s","allowed":true,"patch":"W3sib3AiOiJ4In1d","patchType":"Merge"}}`),
			failed + `unsupported patch type "Merge"`,
		},
		"no patch at all": {
			raw(head + `{"uid":"%s","allowed":true,"patch":"eA==","patchType":"JSONPatch"}}`),
			failed + `received undecodable patch in webhook response: invalid character 'x' looking for beginning of value`,
		},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte(" "), 3<<20+1)) // the caller leaves
		}, failed + `failed to call webhook: the answer has more than 3145728 bytes`},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, h.URL+"/elsewhere", http.StatusTemporaryRedirect)
		}, failed + `failed to call webhook: the server responded with the status code 307`},
		"HTTP error": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", http.StatusTeapot) },
			failed + `failed to call webhook: the server responded with the status code 418`,
		},
		"cut off": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			failed + `failed to call webhook: Post "` + h.URL + `/ask?timeout=30s": `,
		},
		"refusal that says 200": {
			raw(head + `{"uid":"%s","allowed":false,"status":{"code":200,"status":"Success","reason":"Bad"}}}`),
			`400 admission webhook "m.example.com" denied the request: Bad`,
		},
		"refusal with a code": {
			raw(head + `{"uid":"%s","allowed":false,"status":{"code":418,"message":"tea"}}}`),
			`418 admission webhook "m.example.com" denied the request: tea`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.instead(tt.answer)
			h.heard()
			_, err := s.createMap("a")
			if err == nil || !strings.HasPrefix(text(err), tt.want) {
				t.Errorf("%s, want %s", text(err), tt.want)
			}
			if n := len(h.heard()); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
	h.instead(nil)
	if _, err := s.createMap("a"); err != nil {
		t.Errorf("create map: %v", err)
	}
}

func TestFailuresAreIgnoredWherePolicySaysSo(t *testing.T) {
	s, h, next := start(t), newHook(t), newHook(t)
	s.configure("Mutating", "a", h.webhook("m.example.com", onMaps+`,"failurePolicy":"Ignore"`))
	s.configure("Mutating", "b", next.webhook("n.example.com", onMaps))
	s.configure("Validating", "a", h.webhook("v.example.com", onMaps+`,"failurePolicy":"Ignore"`))
	h.instead(raw(`{`))
	if _, err := s.createMap("a"); err != nil {
		t.Fatalf("create map: %v", err)
	}
	if n := len(next.heard()); n != 1 {
		t.Errorf("the next webhook was asked %d times", n)
	}
	h.says(admissionv1.AdmissionResponse{})
	if _, err := s.createMap("b"); codeOf(err) != 400 {
		t.Errorf("a refusal is no failure: %v", err)
	}
}

func TestPatchesChangeOnlyWhatTheyMay(t *testing.T) {
	s, h := start(t), newHook(t)
	if _, err := s.createMap("old"); err != nil {
		t.Fatalf("create map: %v", err)
	}
	s.configure("Mutating", "m", h.webhook("m.example.com", onMaps))
	update := func() error {
		_, err := s.merge(s.maps("old"), `{"data":{"z":"1"}}`)
		return err
	}
	create := func() error {
		_, err := s.createMap("new")
		return err
	}
	for _, tt := range []struct {
		name, patch string
		write       func() error
		want        string // of the error; "" for none
	}{
		{"the name", `[{"op":"replace","path":"/metadata/name","value":"x"}]`, update, "422"},
		{"the namespace", `[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`, update, "4"},
		{"the namespace of a new one", `[{"op":"add","path":"/metadata/namespace","value":"kube-system"}]`, create, "4"},
		{"the kind", `[{"op":"replace","path":"/kind","value":"Secret"}]`, create, "500"},
		{"the apiVersion", `[{"op":"replace","path":"/apiVersion","value":"v2"}]`, create, "500"},
		{"types", `[{"op":"replace","path":"/data","value":[1]}]`, create, "500"},
		{"all of it", `[{"op":"replace","path":"","value":[]}]`, create, "500"},
		{"what is not there", `[{"op":"remove","path":"/nothing"}]`, create, "500"},
		{"a test that fails", `[{"op":"test","path":"/data/a","value":"other"}]`, create, "500"},
		{"an operation that is none", `[{"op":"frob","path":"/data"}]`, create, "500"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.patches(tt.patch)
			if err := tt.write(); !strings.HasPrefix(text(err), tt.want) || err == nil {
				t.Errorf("%s, want %s", text(err), tt.want)
			}
		})
	}
	h.patches(`[{"op":"replace","path":"/metadata/uid","value":"mine"},{"op":"add","path":"/metadata/resourceVersion","value":"1"}]`)
	if o, err := s.merge(s.maps("old"), `{"data":{"y":"1"}}`); err == nil && (o.UID() == "mine" || o.ResourceVersion() == 1) {
		t.Errorf("uid %s, rv %d", o.UID(), o.ResourceVersion())
	}
	h.patches(`[{"op":"replace","path":"/metadata/managedFields","value":[{"manager":"x","operation":"Odd","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}]}]`)
	patch := wire.Patch{Type: types.MergePatchType, Body: []byte(`{"data":{"x":"1"}}`)}
	got, err := s.Patch(t.Context(), s.maps("old"), patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("patch: %v", err)
	}
	if len(got.Warnings) != 1 ||
		!strings.HasPrefix(got.Warnings[0], ".metadata.managedFields was in an invalid state after admission") {
		t.Errorf("warnings %q", got.Warnings)
	}
}

func TestAWebhookThatHangsCostsItsOwnTime(t *testing.T) {
	s, h := start(t), newHook(t)
	release := make(chan struct{})
	h.instead(func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	s.configure("Validating", "v", h.webhook("v.example.com", onMaps+`,"timeoutSeconds":1`))
	_, err := s.createMap("a")
	want := `500 Internal error occurred: failed calling webhook "v.example.com": failed to call webhook: Post "` + h.URL +
		`/ask?timeout=1s": context deadline exceeded`
	if text(err) != want {
		t.Errorf("%s, want %s", text(err), want)
	}
}

// TestAWebhookMayWriteWhileItIsAsked has a webhook that changes the object that is being
// written, its namespace and another object: whatever a write locked would never end.
func TestAWebhookMayWriteWhileItIsAsked(t *testing.T) {
	s, h := start(t), newHook(t)
	if _, err := s.createMap("a"); err != nil {
		t.Fatalf("create map: %v", err)
	}
	inside := func() {
		if _, err := s.merge(s.maps("a"), `{"data":{"inner":"1"}}`); err != nil {
			t.Errorf("merge: %v", err)
		}
		if _, err := s.createMap("b"); err != nil {
			t.Errorf("create map: %v", err)
		}
		if _, err := s.merge(s.at("", "v1", "namespaces", "", "default"), `{"metadata":{"labels":{"x":"y"}}}`); err != nil {
			t.Errorf("merge: %v", err)
		}
	}
	var asked atomic.Bool
	h.instead(func(w http.ResponseWriter, r *http.Request) {
		if asked.CompareAndSwap(false, true) {
			inside()
		}
		reply(w, reviewOf(r), admissionv1.AdmissionResponse{Allowed: true})
	})
	s.configure("Mutating", "m", h.webhook("m.example.com", onMaps+`,"timeoutSeconds":30`))
	o, err := s.merge(s.maps("a"), `{"data":{"outer":"1"}}`)
	if err != nil {
		t.Fatalf("merge: %v", err)
	}
	if !bytes.Contains(o.JSON(), []byte(`"inner":"1"`)) || !bytes.Contains(o.JSON(), []byte(`"outer":"1"`)) {
		t.Errorf("%s", o.JSON())
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	s := start(t)
	now := time.Now()
	for name, tt := range map[string]struct {
		host  string
		until time.Time
		want  string
	}{
		"another name": {"other.example.com", now.Add(time.Hour), "certificate"},
		"expired":      {"127.0.0.1", now.Add(-time.Hour), "certificate has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			pair, ca := certificate(t, tt.host, tt.until)
			h := &hook{t: t}
			h.Server = httptest.NewUnstartedServer(h)
			h.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
			h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			h.StartTLS()
			defer h.Close()
			at := strings.ReplaceAll(name, " ", "-")
			s.configure("Validating", at, item("v.example.com", `{"url":"`+h.URL+`","caBundle":`+ca+`}`, onMaps))
			if _, err := s.createMap("a"); !strings.Contains(text(err), tt.want) || codeOf(err) != 500 {
				t.Errorf("%s", text(err))
			}
			if n := len(h.heard()); n != 0 {
				t.Errorf("asked %d times", n)
			}
			configuration := s.at("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "", at)
			if _, err := s.Delete(t.Context(), configuration, metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

// TestServicesAreCalledByTheirName has a webhook behind a Service without a cluster network: an
// EndpointSlice has its address, and its certificate the name of the Service.
func TestServicesAreCalledByTheirName(t *testing.T) {
	s := start(t)
	pair, ca := certificate(t, "hook.default.svc", time.Now().Add(time.Hour))
	h := &hook{t: t}
	h.Server = httptest.NewUnstartedServer(h)
	h.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	h.StartTLS()
	defer h.Close()
	s.configure("Validating", "v",
		item("v.example.com", `{"service":{"namespace":"default","name":"hook","path":"/here"},"caBundle":`+ca+`}`, onMaps))
	if _, err := s.createMap("a"); !strings.Contains(text(err), `service "hook" not found in namespace "default"`) {
		t.Errorf("%s", text(err))
	}
	if _, err := s.create(s.at("", "v1", "services", "default"),
		`{"metadata":{"name":"hook"},"spec":{"clusterIP":"None","ports":[{"port":443}]}}`); err != nil {
		t.Fatalf("create: %v", err)
	}
	port := h.URL[strings.LastIndexByte(h.URL, ':')+1:]
	if _, err := s.create(s.at("discovery.k8s.io", "v1", "endpointslices", "default"), fmt.Sprintf(
		`{"metadata":{"name":"hook-1","labels":{"kubernetes.io/service-name":"hook"}},"addressType":"IPv4",`+
			`"endpoints":[{"addresses":["127.0.0.1"]}],"ports":[{"port":%s}]}`, port)); err != nil {
		t.Fatalf("create: %v", err)
	}
	if _, err := s.createMap("a"); err != nil {
		t.Errorf("create map: %v", err)
	}
}

// certificate returns a certificate that signs itself, and its PEM as JSON has it.
func certificate(t *testing.T, host string, until time.Time) (pair tls.Certificate, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, NotBefore: until.Add(-24 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if host == "127.0.0.1" {
		of.IPAddresses = append(of.IPAddresses, []byte{127, 0, 0, 1})
	} else {
		of.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	if err != nil {
		t.Fatalf("create a certificate: %v", err)
	}
	quoted, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(quoted)
}
