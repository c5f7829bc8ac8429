package share_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/share"
	"github.com/gapless-io/gapless/kube"
)

// book is the objects' type in these tests.
type book struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`
	Value             int `json:"value"`
}

// shelf is a Backend in memory whose objects are never deleted. It counts its watches.
type shelf struct {
	mu sync.Mutex
	// mu guards what is below.
	log          []client.Frame // log[n] is what happened at resource version firstRV+n
	latest       map[string]int // name -> index in log
	wake         chan struct{}
	open, opened int
}

const firstRV = 100

func newShelf() *shelf { return &shelf{latest: map[string]int{}, wake: make(chan struct{})} }

// put writes an object and returns its resource version.
func (s *shelf) put(name string, value int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := kube.Added
	if _, is := s.latest[name]; is {
		kind = kube.Modified
	}
	rv := fmt.Sprint(firstRV + len(s.log))
	object := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q},"value":%d}`, name, name, rv, value)
	s.latest[name] = len(s.log)
	s.log = append(s.log, client.Frame{Type: kind, Object: []byte(object)})
	close(s.wake)
	s.wake = make(chan struct{})
	return rv
}

// watches is how many are open, and how many were opened.
func (s *shelf) watches() (open, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open, s.opened
}

// List is not asked for: Watch knows streaming lists.
func (s *shelf) List(context.Context, metav1.ListOptions, func([]byte) error) (metav1.ListMeta, error) {
	return metav1.ListMeta{}, errors.New("a shelf has no lists")
}

// Watch opens a streaming list, or a watch.
func (s *shelf) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &reading{shelf: s, ctx: ctx}
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		for _, i := range s.latest {
			w.first = append(w.first, client.Frame{Type: kube.Added, Object: s.log[i].Object})
		}
		end := fmt.Sprintf(`{"metadata":{"resourceVersion":"%d","annotations":{"k8s.io/initial-events-end":"true"}}}`, firstRV+len(s.log)-1)
		w.first = append(w.first, client.Frame{Type: kube.InitialEventsEnd, Object: []byte(end)})
		w.at = len(s.log)
	} else if _, err := fmt.Sscan(o.ResourceVersion, &w.at); err != nil {
		return nil, fmt.Errorf("resourceVersion %q: %w", o.ResourceVersion, err)
	} else {
		w.at -= firstRV - 1
	}
	s.open++
	s.opened++
	return w, nil
}

// reading is an open watch of a shelf.
type reading struct {
	*shelf
	ctx    context.Context //nolint:containedctx // the watch's own
	first  []client.Frame
	at     int // in log
	closed bool
}

func (r *reading) Next() (client.Frame, error) {
	if len(r.first) > 0 {
		f := r.first[0]
		r.first = r.first[1:]
		return f, nil
	}
	for {
		r.mu.Lock()
		wake := r.wake
		if r.at < len(r.log) {
			f := r.log[r.at]
			r.at++
			r.mu.Unlock()
			return f, nil
		}
		r.mu.Unlock()
		select {
		case <-wake:
		case <-r.ctx.Done():
			return client.Frame{}, context.Cause(r.ctx)
		}
	}
}

func (r *reading) Ready() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.first) > 0 || r.at < len(r.log)
}

func (r *reading) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.open--
	}
	r.closed = true
	return nil
}

func (s *shelf) source(name string) informer.Source[*book] {
	return informer.From(name, s, informer.JSON[*book]())
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
		t.Fatal(err)
	}
	return l
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
