package relay

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

const (
	// progressEvery is the time between two requests for upstream's progress, at least: 20
	// a second.
	progressEvery = 50 * time.Millisecond
	// progressWithin bounds such a request.
	progressWithin = 10 * time.Second
	// followWithin is how long the watch may take to deliver what upstream has, before
	// upstream's objects are compared with the mirror's. A watch that has something to
	// deliver takes less.
	followWithin = 50 * time.Millisecond
)

// freshness finds out whether a collection has everything that upstream had when a reader
// came. Readers that wait share the requests.
type freshness struct {
	collection *collection

	// mu guards next and began.
	mu    sync.Mutex
	next  *progress // the request that has not begun; readers that come now may use it
	began time.Time // when the last one began
}

// progress is one request that is shared.
type progress struct {
	done chan struct{} // closed when err is set
	err  error
}

// wait blocks until readers see everything that upstream had when it was called. Errors: 503 if
// upstream cannot be asked, 504 if the mirror does not get there, ctx's cause.
func (f *freshness) wait(ctx context.Context, h *history) error {
	p := f.join(ctx, h)
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join returns the next request, and sees to it that it is made.
func (f *freshness) join(ctx context.Context, h *history) *progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil {
		return f.next
	}
	p := &progress{done: make(chan struct{})}
	f.next = p
	pause := time.Until(f.began.Add(progressEvery))
	// It ends within progressWithin and aheadFor; the request of one reader is that of others.
	ctx = context.WithoutCancel(ctx)
	time.AfterFunc(max(0, pause), func() {
		f.mu.Lock()
		f.next, f.began = nil, time.Now()
		f.mu.Unlock()
		p.err = f.collection.catchUp(ctx, h)
		close(p.done)
	})
	return p
}

// catchUp asks upstream how far it is, and waits until the mirror is as far. If the collection
// has not changed, nothing says that the watch has delivered all: then all versions of
// upstream's objects are compared with the mirror's.
func (c *collection) catchUp(ctx context.Context, h *history) error {
	ctx, cancel := context.WithTimeout(ctx, progressWithin)
	defer cancel()
	c.relay.metrics.upstream.WithLabelValues(c.name, "progress").Inc()
	meta, err := c.relay.metadata.List(ctx, c.of(), metav1.ListOptions{Limit: 1}, func([]byte) error { return nil })
	if err != nil {
		return unreachable(err)
	}
	upstream, err := kube.ParseResourceVersion(meta.ResourceVersion)
	if err != nil || upstream == 0 {
		return kube.Internal(fmt.Errorf("upstream's list of %s has the resourceVersion %q", c.name, meta.ResourceVersion))
	}
	soon, stop := context.WithTimeout(ctx, followWithin)
	defer stop()
	if h.log.Wait(soon, upstream) == nil {
		return nil
	}
	return c.compare(ctx, h, upstream)
}

// compare reads the versions of all of upstream's objects, until they are those of the mirror:
// then the mirror has what upstream has, although its watch has not said so.
func (c *collection) compare(ctx context.Context, h *history, upstream kube.ResourceVersion) error {
	limited, cancel := context.WithTimeout(ctx, aheadFor)
	defer cancel()
	for pause := followWithin; ; pause *= 2 {
		same, err := c.sameAs(ctx, h)
		if err != nil {
			return unreachable(err)
		}
		if same {
			return nil
		}
		soon, stop := context.WithTimeout(limited, pause)
		err = h.log.Wait(soon, upstream)
		stop()
		if err == nil {
			return nil
		}
		if limited.Err() != nil {
			return &kube.TooLargeResourceVersionError{Requested: upstream, Current: h.log.Reached()}
		}
	}
}

// sameAs reports whether upstream has the same versions of the same objects as the mirror.
func (c *collection) sameAs(ctx context.Context, h *history) (bool, error) {
	c.relay.metrics.upstream.WithLabelValues(c.name, "compare").Inc()
	state := h.cached.Cache.Snapshot()
	same, found := true, 0
	o := metav1.ListOptions{Limit: comparePage}
	for {
		meta, err := c.relay.metadata.ListLent(ctx, c.of(), o, func(item []byte) error {
			of, err := client.MetaOf(item)
			if err != nil {
				return err
			}
			has, is := state.Get(kube.Key{Namespace: of.Namespace, Name: of.Name})
			same = same && is && has.UID() == of.UID && has.ResourceVersion().String() == of.ResourceVersion
			found++
			return nil
		})
		if err != nil {
			return false, err
		}
		if meta.Continue == "" {
			return same && found == state.Len(), nil
		}
		o.Continue = meta.Continue
	}
}

// comparePage is how many objects of upstream are compared with one request.
const comparePage = 5000

// unreachable is the error for a reader who wants the most recent state, when upstream does not
// say what it is.
func unreachable(err error) error {
	return kube.Unavailable(fmt.Sprintf("the most recent state is not known, because upstream does not answer: %v; resourceVersion=0 asks for the last known state", err), time.Second)
}
