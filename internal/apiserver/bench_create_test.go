package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkCreate creates objects of about 1 KB through the handler.
func BenchmarkCreate(b *testing.B) {
	for _, c := range []struct{ resource, head, tail string }{
		{"configmaps", `{"kind":"ConfigMap","apiVersion":"v1"`, `"data":{"a":"` + strings.Repeat("x", 780) + `"}`},
		{
			"pods", `{"kind":"Pod","apiVersion":"v1"`,
			`"spec":{"serviceAccountName":"default","nodeSelector":{"zone":"a"},"containers":[` +
				`{"name":"server","image":"registry.example/team/server:v1.24.3","args":["--listen=:8080"],` +
				`"ports":[{"name":"http","containerPort":8080}],` +
				`"env":[{"name":"TOKEN","value":"` + strings.Repeat("x",
				150) + `"}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"}},` +
				`"volumeMounts":[{"name":"config","mountPath":"/etc/config"}]},` +
				`{"name":"proxy","image":"registry.example/team/proxy:v0.9.1","readinessProbe":{"httpGet":{"path":"/healthz",` +
				`"port":8443},"periodSeconds":5}}],` +
				`"volumes":[{"name":"config","configMap":{"name":"config"}}]}`,
		},
	} {
		b.Run(c.resource, func(b *testing.B) {
			handler, _, _ := loaded(b, 1)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				body := fmt.Sprintf(`%s,"metadata":{"name":"made-%d","labels":{"app":"bench"}},%s}`, c.head, n, c.tail)
				r := get(b, "/api/v1/namespaces/default/"+c.resource, "Content-Type: application/json")
				r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(body)), int64(len(body))
				w := &sink{header: http.Header{}}
				if handler.ServeHTTP(w, r); w.status != http.StatusCreated {
					b.Fatalf("status %d", w.status)
				}
			}
		})
	}
}
