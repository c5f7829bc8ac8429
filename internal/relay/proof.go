package relay

import (
	"context"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// proof says that a state of the mirror is the one that upstream had at through, although the mirror's
// watch has not said so: when a collection does not change, a watch says nothing but a bookmark
// each minute. It comes from a comparison: an object may have been created and deleted meanwhile, so
// the state does not get the resourceVersion through. A probe shows that nothing has happened
// meanwhile: it is progress of the mirror.
type proof struct {
	position int64 // of the state
	through  kube.ResourceVersion
}

// has returns the position of a state that is not older than a resourceVersion of upstream, if
// that is known.
func (h *history) has(rv kube.ResourceVersion) (position int64, has bool) {
	if h.log.Reached() >= rv {
		return h.log.Newest(), true
	}
	// A change that came after the proof is newer than it, but then the log has reached it.
	if p := h.proven.Load(); p != nil && p.through >= rv && p.position == h.log.Newest() {
		return p.position, true
	}
	return 0, false
}

// prove records a proof, unless there is a better one.
func (h *history) prove(p proof) {
	if was := h.proven.Load(); was == nil || was.position < p.position || was.position == p.position && was.through < p.through {
		h.proven.Store(&p)
	}
}

const (
	// A comparison is followed by a pause as long as it was, which bounds what readers cost
	// upstream to half of a processor. One that takes longer than compareSlow is slower than
	// a probe: the pause is slowShare times as long then.
	compareSlow = time.Second
	slowShare   = 10
	// probeSeconds is the timeout of a probe. Upstream sends a bookmark two seconds before
	// the end of a watch (apiserver cacher/cache_watcher.go nextBookmarkTime).
	probeSeconds = 3
	// probeWithin bounds a probe for an upstream that does not end it.
	probeWithin = 2 * probeSeconds * time.Second
)

// proving looks for proofs when they are wanted, until ctx ends.
func (c *collection) proving(ctx context.Context) {
	comparing := make(chan struct{})
	go func() { // it ends with ctx; this call waits for it
		defer close(comparing)
		c.comparing(ctx)
	}()
	defer func() { <-comparing }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.fresh.probe:
		}
		if h := c.current.Load(); h != nil {
			c.probe(ctx, h)
		}
		c.fresh.end()
		if pause(ctx, followWithin) != nil { // an upstream that refuses probes is not asked at once
			return
		}
	}
}

// comparing compares upstream with the mirror when that is wanted, until ctx ends.
func (c *collection) comparing(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.fresh.compare:
		}
		began := time.Now()
		var err error
		if h := c.current.Load(); h != nil {
			var is *seen
			if is, err = c.versions(ctx); err == nil {
				is.prove(h)
			}
		}
		c.fresh.mu.Lock()
		c.fresh.failed = err
		c.fresh.mu.Unlock()
		c.fresh.end()
		took := time.Since(began)
		if took > compareSlow {
			took *= slowShare
		}
		if pause(ctx, took) != nil {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// probe reads a short watch of upstream from where the mirror is, up to the bookmark before its
// end: what changed up to there has come over this watch. When the mirror has the last of it, it
// has all.
func (c *collection) probe(ctx context.Context, h *history) {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	c.asks("watch")
	last, timeout := h.log.Reached(), int64(probeSeconds)
	w, err := c.relay.metadata.Watch(ctx, c.of(), metav1.ListOptions{
		ResourceVersion: last.String(), AllowWatchBookmarks: true, TimeoutSeconds: &timeout,
	})
	if err != nil {
		return // the mirror's own watch says what is wrong
	}
	defer func() { _ = w.Close() }() // it holds nothing that is still needed
	for {
		frame, err := w.Next()
		if err != nil || frame.Type == 0 {
			return // as above
		}
		meta, err := frame.Meta()
		if err != nil {
			return
		}
		rv, err := kube.ParseResourceVersion(meta.ResourceVersion)
		if err != nil || rv < last {
			return
		}
		if frame.Type != kube.Bookmark {
			last = rv
			continue
		}
		if h.log.Wait(ctx, last) != nil {
			return
		}
		h.log.Progress(rv)
		c.fresh.end()
	}
}

// seen is what upstream has of a collection.
type seen struct {
	versions map[wire.Key]version
	last     kube.ResourceVersion // the highest of an object
	through  kube.ResourceVersion // of the state
}

// version is what tells two states of an object from each other.
type version struct {
	uid types.UID
	rv  string
}

// versions reads the versions of all of upstream's objects.
func (c *collection) versions(ctx context.Context) (*seen, error) {
	c.asks("compare")
	c.fresh.passed.Store(0)
	ctx, cancel := context.WithTimeout(ctx, progressWithin)
	defer cancel()
	s := &seen{versions: map[wire.Key]version{}}
	o := metav1.ListOptions{Limit: comparePage}
	for {
		meta, err := c.relay.metadata.ListLent(ctx, c.of(), o, func(item []byte) error {
			of, err := client.MetaOf(item)
			if err != nil {
				return err
			}
			s.versions[wire.Key{Namespace: strings.Clone(of.Namespace), Name: strings.Clone(of.Name)}] = version{
				of.UID, strings.Clone(of.ResourceVersion),
			}
			if rv, err := kube.ParseResourceVersion(of.ResourceVersion); err == nil {
				s.last = max(s.last, rv)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if s.through == 0 { // all pages are of the first one's state
			if s.through, err = kube.ParseResourceVersion(meta.ResourceVersion); err != nil {
				return nil, err
			}
		}
		if meta.Continue == "" {
			return s, nil
		}
		o.Continue = meta.Continue
	}
}

// prove records a proof, and reports it, if a history has what upstream has.
func (s *seen) prove(h *history) bool {
	state := h.cached.Cache.Snapshot()
	if state.Len() != len(s.versions) {
		return false
	}
	for key, is := range s.versions {
		if has, held := state.Get(key); !held || has.UID() != is.uid || has.ResourceVersion().String() != is.rv {
			return false
		}
	}
	h.prove(proof{position: int64(state.RV()), through: s.through}) //nolint:gosec // a position
	return true
}

// comparePage is how many objects of upstream are compared with one request.
const comparePage = 5000
