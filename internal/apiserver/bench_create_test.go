package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkCreate creates config maps of about 1 KB through the handler.
func BenchmarkCreate(b *testing.B) {
	handler, _, _ := loaded(b, 1)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		body := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"made-%d"},"data":{"a":"%s"}}`, n, strings.Repeat("x", 780))
		r := get(b, "/api/v1/namespaces/default/configmaps", "Content-Type: application/json")
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(body)), int64(len(body))
		handler.ServeHTTP(&sink{header: http.Header{}}, r)
	}
}
