package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// TestEndlessFrameIsRefusedEarly: it costs less than 96 MiB of heap, garbage
// included, in a watch and in a list.
func TestEndlessFrameIsRefusedEarly(t *testing.T) {
	var most atomic.Uint64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		begin := `{"kind":"ConfigMapList","metadata":{},"items":[{"data":{"x":"`
		if r.URL.Query().Get("watch") != "" {
			begin = `{"type":"ADDED","object":{"data":{"x":"`
		}
		_, err := io.WriteString(w, begin)
		for part := strings.Repeat("x", 1<<20); err == nil; _, err = io.WriteString(w, part) {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
		}
	}))
	defer srv.Close()
	c, err := client.New(&rest.Config{Host: srv.URL})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer c.CloseIdle()
	maps := client.Collection{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	for name, read := range map[string]func() error{
		"watch": func() error {
			w, err := c.Watch(context.WithoutCancel(t.Context()), maps, metav1.ListOptions{})
			if err != nil {
				return err
			}
			_, err = w.Next()
			return errors.Join(err, w.Close())
		},
		"list": func() error {
			_, err := c.List(t.Context(), maps, metav1.ListOptions{}, func([]byte) error { return nil })
			return err
		},
	} {
		runtime.GC()
		most.Store(0)
		if err := read(); kube.Classify(err) != kube.OutcomeDecode {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %d MiB of heap", name, most.Load()>>20)
		if most.Load() > 96<<20 {
			t.Errorf("%s: %d MiB of heap", name, most.Load()>>20)
		}
	}
}
