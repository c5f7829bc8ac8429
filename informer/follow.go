package informer

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/kube"
)

// stream reads the whole state as a streaming list (KEP-3157) up to its end
// bookmark. The watch is returned open then, and nil otherwise.
func (i *Informer[T]) stream(ctx context.Context, s course.State, st course.Step) (*attempt.Attempt, course.Result, error) {
	initial := true
	begun := time.Now()
	a, err := i.open(ctx, metav1.ListOptions{
		ResourceVersion: st.RV, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		SendInitialEvents: &initial,
	})
	if err != nil {
		r, err := attempt.Failed(ctx, err)
		r.Lived = time.Since(begun)
		return nil, r, err
	}
	r, err := i.initial(a, s, st)
	if r.Kind != course.ResultStreamed {
		a.Close()
		return nil, r, err
	}
	return a, r, nil
}

// initial reads the initial events. Each new object extends the deadline; what is
// no initial event does not, so that a server that never marks the end is found out.
func (i *Informer[T]) initial(a *attempt.Attempt, s course.State, st course.Step) (course.Result, error) {
	g := i.newGatherer()
	defer g.settle()
	deadline := time.Now().Add(course.EndDeadline)
	for {
		// What was taken extends the deadline when it has been looked at.
		if !a.Ready() && time.Until(deadline) < course.EndDeadline-time.Second && g.settle() {
			deadline = time.Now().Add(course.EndDeadline)
		}
		f, err := a.Next(deadline)
		if err != nil {
			return a.Ended(err)
		}
		switch f.Type {
		case kube.Added:
			if g.take(f.Object) {
				deadline = time.Now().Add(course.EndDeadline)
			}
		case kube.Modified:
			g.take(f.Object)
		case kube.Deleted:
			if meta, err := f.Meta(); err == nil {
				g.settle()
				g.g.drop(Key{Namespace: meta.Namespace, Name: meta.Name})
			}
		case kube.InitialEventsEnd:
			a.Marked = true
			meta, err := f.Meta()
			if err != nil {
				return a.Failed(err)
			}
			i.contact()
			g.settle()
			return i.complete(g.g, s, st, meta.ResourceVersion)
		case kube.Bookmark, kube.Error: // no promise before the end of the initial events
		default:
			i.unreadable(f.Object, &kube.DecodeError{Offset: -1, Why: "no event: " + excerpt(f.Object)})
		}
	}
}

// watch opens a watch from a resource version.
func (i *Informer[T]) watch(ctx context.Context, st course.Step) (*attempt.Attempt, course.Result, error) {
	begun := time.Now()
	a, err := i.open(ctx, metav1.ListOptions{ResourceVersion: st.RV})
	if err != nil {
		r, err := attempt.Failed(ctx, err)
		r.Lived = time.Since(begun)
		return nil, r, err
	}
	return a, course.Result{}, nil
}

// follower reads one watch.
type follower[T Object] struct {
	*Informer[T]
	a       *attempt.Attempt
	rv      string // the position, events in batch included
	batch   []change[T]
	moved   bool // rv is ahead of what was published
	cadence bool // bookmarks are to be expected
}

// read follows an open watch until it ends, and closes it.
func (i *Informer[T]) read(a *attempt.Attempt, s course.State) (course.Result, error) {
	defer a.Close()
	f := &follower[T]{Informer: i, a: a, rv: s.RV, cadence: s.Cadence}
	a.Marked = false // the end bookmark says nothing about a cadence
	r, err := f.run()
	f.flush()
	return r, err
}

func (f *follower[T]) run() (course.Result, error) {
	for {
		if len(f.batch) >= batchLimit || !f.a.Ready() {
			f.flush()
		}
		frame, err := f.a.Next(f.deadline())
		if err != nil {
			return f.end(err)
		}
		switch frame.Type {
		case kube.Added, kube.Modified:
			f.upsert(frame)
		case kube.Deleted:
			f.remove(frame)
		case kube.Bookmark, kube.InitialEventsEnd:
			f.a.Marked = true
			f.cadence = true
			meta, err := frame.Meta()
			if err != nil || meta.ResourceVersion == "" {
				f.unreadable(frame.Object, &kube.DecodeError{Offset: -1, Why: "a bookmark without resourceVersion"})
				continue
			}
			if course.Before(meta.ResourceVersion, f.rv) {
				r, err := f.end(nil)
				r.Kind = course.ResultWentBack
				return r, err
			}
			f.advance(meta.ResourceVersion)
		case kube.Error:
		default:
			f.unreadable(frame.Object, &kube.DecodeError{Offset: -1, Why: "no event: " + excerpt(frame.Object)})
		}
	}
}

// deadline is when silence means that the watch is dead: one and a half bookmark
// periods where bookmarks come, else when the server should have ended the watch.
func (f *follower[T]) deadline() time.Time {
	last := f.a.Until.Add(course.WatchGrace)
	if f.cadence {
		if soon := time.Now().Add(course.BookmarkSilence); soon.Before(last) {
			return soon
		}
	}
	return last
}

func (f *follower[T]) end(err error) (course.Result, error) {
	f.a.Reached = f.rv
	return f.a.Ended(err)
}

func (f *follower[T]) advance(rv string) {
	if rv != "" && rv != f.rv && !course.Before(rv, f.rv) {
		f.rv, f.moved = rv, true
	}
}

func (f *follower[T]) upsert(frame client.Frame) {
	object, err := f.decode(frame.Object)
	if err != nil {
		f.missed(f.unreadable(frame.Object, err))
		return
	}
	rv, key := object.GetResourceVersion(), keyOf(object)
	var v verdict
	f.batch, v = f.keeper.upsert(f.batch, object, f.rv)
	f.settle(v, key, rv)
}

// missed notes that an object has a state that could not be read. The position
// moves on: the same bytes would come again.
func (f *follower[T]) missed(meta client.Meta) {
	if meta.Name != "" {
		f.keeper.unread[Key{Namespace: meta.Namespace, Name: meta.Name}] = struct{}{}
	}
	f.advance(meta.ResourceVersion)
}

func (f *follower[T]) remove(frame client.Frame) {
	object, err := f.decode(frame.Object)
	var meta client.Meta
	if err == nil {
		meta = client.Meta{
			Namespace: object.GetNamespace(), Name: object.GetName(),
			UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		}
	} else {
		var none T
		object = none // it is gone, and what it was is known from before
		var metaErr error
		if meta, metaErr = frame.Meta(); metaErr != nil || meta.Name == "" {
			f.unreadable(frame.Object, err)
			return
		}
	}
	var v verdict
	f.batch, v = f.keeper.remove(f.batch, meta, object)
	f.settle(v, Key{Namespace: meta.Namespace, Name: meta.Name}, meta.ResourceVersion)
}

// settle takes note of what the keeper did with an event.
func (f *follower[T]) settle(v verdict, key Key, rv string) {
	if len(f.keeper.unread) > 0 && v == taken {
		delete(f.keeper.unread, key)
	}
	if v == stale {
		f.report(Incident{Kind: Stale, At: time.Now(), RV: rv, Key: key})
	}
	f.advance(rv)
}

// flush publishes what was read.
func (f *follower[T]) flush() {
	if len(f.batch) == 0 && !f.moved {
		return
	}
	f.contact()
	f.turn(f.batch, f.rv, false)
	f.publish(f.batch, f.rv, false)
	clear(f.batch)
	f.batch, f.moved = f.batch[:0], false
}

// publish makes the keeper's tree the current snapshot and tells the handlers.
// first says that it is the first complete state.
func (i *Informer[T]) publish(changes []change[T], rv string, first bool) {
	if len(changes) > 0 {
		i.waitRoom()
	}
	unread := len(i.keeper.unread)
	i.note(func(s *Status) { s.Undecodable = unread })
	i.publishing.Lock()
	defer i.publishing.Unlock()
	next := i.successor(changes, rv)
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.current.Swap(next).superseded)
	for _, h := range i.handlers {
		if len(changes) > 0 {
			i.tellLocked(h, changes, first)
		}
		if first {
			h.Prime()
		}
	}
	if first {
		close(i.synced)
	}
}

func excerpt(b []byte) string { return string(b[:min(len(b), 128)]) }
