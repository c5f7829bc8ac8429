package apiserver_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// benchPod is a pod as a Deployment's, with what a kubelet has written: 3 KB.
const benchPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"default","generateName":"web-6d4b75cb6d-",
"labels":{"app":"web","pod-template-hash":"6d4b75cb6d"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-6d4b75cb6d",
"uid":"2d0f6d0e-4c2b-4e0a-9c0e-3d7d0b2f7a11","controller":true,"blockOwnerDeletion":true}]},
"spec":{"nodeName":"node-7","serviceAccountName":"default","volumes":[{"name":"config","configMap":{"name":"web"}},
{"name":"token","projected":{"sources":[{"serviceAccountToken":{"path":"token","expirationSeconds":3607}}]}}],
"containers":[{"name":"web","image":"registry.example.org/team/web:1.27.3","args":["--port=8080","--verbose"],
"ports":[{"name":"http","containerPort":8080}],"env":[{"name":"MODE","value":"production"},{"name":"POD","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"memory":"256Mi"}},
"readinessProbe":{"httpGet":{"path":"/ready","port":8080}},"livenessProbe":{"httpGet":{"path":"/live","port":8080}},
"volumeMounts":[{"name":"config","mountPath":"/etc/web"},{"name":"token","mountPath":"/var/run/secrets/token","readOnly":true}]}],
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]},
"status":{"phase":"Running","podIP":"10.244.3.17","podIPs":[{"ip":"10.244.3.17"}],"hostIP":"10.0.0.7","startTime":"2026-05-01T12:00:00Z","qosClass":"Burstable",
"conditions":[{"type":"Initialized","status":"True","lastTransitionTime":"2026-05-01T12:00:00Z"},{"type":"Ready","status":"True","lastTransitionTime":"2026-05-01T12:00:09Z"},
{"type":"ContainersReady","status":"True","lastTransitionTime":"2026-05-01T12:00:09Z"},{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-05-01T12:00:00Z"}],
"containerStatuses":[{"name":"web","ready":true,"started":true,"restartCount":2,"image":"registry.example.org/team/web:1.27.3",
"imageID":"registry.example.org/team/web@sha256:9d6b6ad1d3b5e3f5b8a6c8d2a1e7b5a4c3d2e1f0a9b8c7d6e5f4a3b2c1d0e9f8","containerID":"containerd://4f1d2c3b4a59687786950a1b2c3d4e5f",
"state":{"running":{"startedAt":"2026-05-01T12:00:08Z"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error","finishedAt":"2026-05-01T12:00:05Z"}}}]}}`

// benchCertificate is a custom resource with seven columns (see certificates.yaml).
const benchCertificate = `{"apiVersion":"certs.example.com/v1","kind":"Certificate","metadata":{"name":%q,` +
	`"labels":{"team":"web"}},
"spec":{"secretName":"web-tls","isCA":false,"share":0.5,"dnsNames":["web.example.org","www.example.org"],"issuerRef":{"name":"ca","kind":"Issuer"}},
"status":{"conditions":[{"type":"Issuing","status":"False"},{"type":"Ready","status":"True"}],"revision":3,"notAfter":"2027-05-01T12:00:00Z"}}`

// loadedTables returns a handler, and the paths of n pods and of n custom resources behind it.
func loadedTables(b *testing.B, n int) (h http.Handler, pods, certificates string) {
	b.Helper()
	live := kinds.NewLive(builtin.Catalog())
	reg := openRegistry(b, live)
	h = apiserver.New(b.Context(), apiserver.Config{Reader: reg, Writer: reg, Live: live})
	definition, err := os.ReadFile("../kinds/custom/testdata/certificates.yaml")
	if err != nil {
		b.Fatalf("read a file: %v", err)
	}
	if definition, err = yaml.YAMLToJSON(definition); err != nil {
		b.Fatalf("YAML to JSON: %v", err)
	}
	r := get(b, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
	create := httptest.NewRequestWithContext(b.Context(), http.MethodPost, r.URL.Path, strings.NewReader(string(definition)))
	create.TLS = r.TLS
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, create); w.Code != http.StatusCreated {
		b.Fatalf("create the definition: %s", w.Body)
	}
	fill := func(gvr kinds.GroupVersionResource, body string) {
		t := kinds.Target{Namespace: "default"}
		t.Resource, _ = live.Load().Lookup(gvr)
		for i := range n {
			name := fmt.Sprintf("%s-%05d", gvr.Resource, i)
			object := fmt.Appendf(nil, body, name)
			made, err := reg.Create(b.Context(), t, object, metav1.CreateOptions{})
			if err != nil {
				b.Fatalf("create reg: %v", err)
			}
			object = bytes.Replace(object, []byte(`"metadata":{`),
				fmt.Appendf(nil, `"metadata":{"resourceVersion":"%s",`, made.Object.ResourceVersion()), 1)
			status := t
			status.Name, status.Subresource = name, "status"
			if _, err := reg.Update(b.Context(), status, object, metav1.UpdateOptions{}); err != nil {
				b.Fatalf("update reg: %v", err)
			}
		}
	}
	fill(kinds.GroupVersionResource{Version: "v1", Resource: "pods"}, benchPod)
	fill(kinds.GroupVersionResource{Group: "certs.example.com", Version: "v1", Resource: "certificates"}, benchCertificate)
	return h, "/api/v1/namespaces/default/pods", "/apis/certs.example.com/v1/namespaces/default/certificates"
}

// BenchmarkTable lists 10 000 pods and 10 000 custom resources as rows and as metadata
// through the handler.
func BenchmarkTable(b *testing.B) {
	h, pods, certificates := loadedTables(b, 10_000)
	for _, c := range []struct{ name, path, accept string }{
		{"pods", pods + "?resourceVersion=0", acceptTable},
		{"pods-wide-objects", pods + "?resourceVersion=0&includeObject=Object", acceptTable},
		{"pods-metadata", pods + "?resourceVersion=0", acceptPartials},
		{"custom", certificates + "?resourceVersion=0", acceptTable},
		{"custom-metadata", certificates + "?resourceVersion=0", acceptPartials},
	} {
		b.Run(c.name, func(b *testing.B) {
			loop(b, func() {
				w := &sink{header: http.Header{}}
				h.ServeHTTP(w, get(b, c.path, c.accept))
				b.SetBytes(w.bytes)
			})
		})
	}
}
