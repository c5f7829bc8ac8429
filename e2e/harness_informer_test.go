package e2e_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
)

// runInformer runs an informer until the test ends, or stop is called.
func runInformer[T informer.Object](t *testing.T, i *informer.Informer[T]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }() // ends with stop
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func names[T informer.Object](i *informer.Informer[T]) string {
	var all []string
	for k := range i.All() {
		all = append(all, k.String())
	}
	return strings.Join(all, " ")
}

func configMapsOf(s *gapless.Server, opts ...informer.SourceOption) informer.Source[*corev1.ConfigMap] {
	return informer.For[*corev1.ConfigMap](s.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps"), opts...)
}

// lockedBuffer is a buffer that a logger and a test share.
type lockedBuffer struct {
	mu sync.Mutex
	// mu guards text.
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
