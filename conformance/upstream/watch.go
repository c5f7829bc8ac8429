package upstream

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	// bookmarkEvery is how often a stream sends its position. The API server does so
	// each minute; upstream's tests wait 3 s for it.
	bookmarkEvery = time.Second
	// buffered is how many events a stream takes before its reader has: what a
	// socket is to a client.
	buffered = 100
)

// errTick wakes a stream for a bookmark.
var errTick = errors.New("time for a bookmark")

// stream is one watch. Its goroutine ends with its context, which Stop cancels,
// or with the events.
type stream struct {
	storage   *Storage
	events    chan watch.Event
	stop      context.CancelFunc
	once      sync.Once
	bookmarks bool
	endMark   bool // the end of the initial events is sent
	sent      kube.ResourceVersion
}

var _ watch.Interface = (*stream)(nil)

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.events }

// Stop implements watch.Interface.
func (s *stream) Stop() { s.once.Do(s.stop) }

// Watch implements storage.Interface by the registry's WATCH. As in the API server,
// 410 and 504 come as an ERROR event.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if _, err := storage.PrepareKey(resourcePrefix, key, opts.Recursive); err != nil {
		return nil, err
	}
	if _, err := s.codec.versioner.ParseResourceVersion(opts.ResourceVersion); err != nil {
		return nil, err
	}
	initial := opts.SendInitialEvents
	// This layer knows no match for a watch; a client says it with the initial events.
	opts.ResourceVersionMatch = ""
	if initial != nil {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	p, q, err := request(key, opts)
	if err != nil {
		return nil, err
	}
	if initial != nil {
		q.Set("sendInitialEvents", map[bool]string{true: "true", false: "false"}[*initial])
	}
	o, err := wire.ParseListOptions(q, true)
	if err != nil {
		return nil, refusal(err)
	}
	o.Bookmarks = opts.Predicate.AllowWatchBookmarks || opts.ProgressNotify
	server := s.Server()
	w, err := server.registry.Watch(ctx, kinds.Target{Resource: server.pods, Namespace: p.namespace}, o)
	code := wire.StatusOf(err).Code
	if err != nil && ctx.Err() == nil && code != 410 && code != 504 {
		return nil, refusal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	out := &stream{
		storage: s, events: make(chan watch.Event, buffered), stop: cancel, sent: o.RV,
		bookmarks: o.Bookmarks, endMark: o.Bookmarks && initial != nil && *initial,
	}
	// The stream owns it; see there for its end.
	go out.run(ctx, w, err)
	return out, nil
}

// run delivers until the end, and says the end where there is something to say.
func (s *stream) run(ctx context.Context, w wire.Watch, failed error) {
	defer close(s.events)
	defer s.Stop()
	if failed == nil {
		defer w.Close()
		failed = s.follow(ctx, w)
	}
	if ctx.Err() != nil || errors.Is(failed, io.EOF) {
		return
	}
	status := wire.StatusOf(failed)
	_ = s.send(ctx, watch.Event{Type: watch.Error, Object: &status}) // the end comes anyway
}

// follow delivers until an error.
func (s *stream) follow(ctx context.Context, w wire.Watch) error {
	tick := time.Now().Add(bookmarkEvery)
	for {
		waiting, cancel := context.WithDeadlineCause(ctx, tick, errTick)
		events, err := w.Next(waiting)
		cancel()
		switch {
		case errors.Is(err, errTick):
			tick = time.Now().Add(bookmarkEvery)
			err = s.bookmark(ctx, w.Position())
		case err == nil:
			err = s.deliver(ctx, events)
		}
		if err != nil {
			return err
		}
	}
}

// deliver sends a batch.
func (s *stream) deliver(ctx context.Context, events []wire.WatchEvent) error {
	for _, e := range events {
		s.sent = max(s.sent, e.ResourceVersion)
		if e.Type == kube.InitialEventsEnd {
			if !s.endMark {
				continue
			}
			if err := s.mark(ctx, e.ResourceVersion, map[string]string{metav1.InitialEventsAnnotationKey: "true"}); err != nil {
				return err
			}
			continue
		}
		pod := &example.Pod{}
		if err := s.storage.fill(ctx, e.Object, pod); err != nil {
			return err
		}
		if err := s.send(ctx, watch.Event{Type: watch.EventType(e.Type.String()), Object: pod}); err != nil {
			return err
		}
	}
	return nil
}

// bookmark tells the position, also when the reader knows it: it says that the
// watch is alive. There is none before the initial events have been sent.
func (s *stream) bookmark(ctx context.Context, position kube.ResourceVersion) error {
	if !s.bookmarks || position == 0 {
		return nil
	}
	s.sent = max(s.sent, position)
	return s.mark(ctx, s.sent, nil)
}

func (s *stream) mark(ctx context.Context, rv kube.ResourceVersion, annotations map[string]string) error {
	pod := &example.Pod{}
	pod.ResourceVersion, pod.Annotations = rv.String(), annotations
	return s.send(ctx, watch.Event{Type: watch.Bookmark, Object: pod})
}

func (s *stream) send(ctx context.Context, e watch.Event) error {
	select {
	case s.events <- e:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
