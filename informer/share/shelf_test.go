package share_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
	"github.com/gapless-io/gapless/informer/share"
)

// book is the objects' type in these tests.
type book struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`
	Value             int `json:"value"`
}

// shelf is a server of books, read without a wire.
type shelf struct{ *listwatchtest.Server }

func newShelf() shelf { return shelf{listwatchtest.New()} }

// put writes an object and returns its resource version.
func (s shelf) put(name string, value int) string { return fmt.Sprint(s.Put(name, value)) }

// watches is how many are open, and how many were opened.
func (s shelf) watches() (open, opened int) {
	for _, r := range s.Requests() {
		if r.Watch {
			opened++
		}
	}
	return s.Open(), opened
}

// reader is a View as a Backend.
type reader struct{ *listwatchtest.View }

func (r reader) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	w, err := r.View.Watch(ctx, o)
	if err != nil {
		return nil, err // and not a Stream around a nil pointer
	}
	return w, nil
}

func (s shelf) source(name string) informer.Source[*book] {
	return informer.From(name, reader{&listwatchtest.View{Server: s.Server}}, informer.JSON[*book]())
}

func keyOf(name string) informer.Key { return informer.Key{Namespace: "default", Name: name} }

// running is a pool that runs until the test ends, or until stop is called.
func running(t testing.TB, cfg share.Config) (pool *share.Pool, stop func()) {
	t.Helper()
	pool = share.New(cfg)
	return pool, run(t, pool)
}

func run(t testing.TB, pool *share.Pool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }() // ends with ctx
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// take takes a lease that the test must get.
func take(t testing.TB, pool *share.Pool, source informer.Source[*book], opts ...informer.Option) *share.Lease[*book] {
	t.Helper()
	l, err := share.Get(pool, source, opts...)
	if err != nil {
		t.Fatalf("take a lease: %v", err)
	}
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
