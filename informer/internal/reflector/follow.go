package reflector

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

// stream reads the whole state as a streaming list (KEP-3157) up to its end
// bookmark. The watch is returned open then, and nil otherwise.
func (r *Reflector[T]) stream(ctx context.Context, s transition.State,
	st transition.Step,
) (*attempt.Attempt, transition.Result, error) {
	initial := true
	begun := time.Now()
	o := r.source.Select
	o.ResourceVersion, o.ResourceVersionMatch = st.RV, metav1.ResourceVersionMatchNotOlderThan
	o.SendInitialEvents = &initial
	a, err := r.open(ctx, st.Timeout, o)
	if err != nil {
		res, err := attempt.Failed(ctx, err)
		res.Lived = time.Since(begun)
		return nil, res, err
	}
	res, err := r.initial(a, s, st)
	if res.Kind != transition.ResultStreamed {
		a.Close()
		return nil, res, err
	}
	return a, res, nil
}

// initial reads the initial events. Each new object extends the deadline; other events do
// not, so that a server that never marks the end is detected.
func (r *Reflector[T]) initial(a *attempt.Attempt, s transition.State, st transition.Step) (transition.Result, error) {
	g := r.newGatherer(s)
	defer g.drain()
	patience := s.Tuned().SyncDeadline
	deadline := time.Now().Add(patience)
	for {
		// Objects extend the deadline when they have been decoded.
		if !a.Ready() && time.Until(deadline) < patience-patience/16 && g.drain() {
			deadline = time.Now().Add(patience)
		}
		f, err := a.Next(deadline)
		if err != nil {
			return a.Ended(err)
		}
		switch f.Type {
		case kube.Added:
			if g.take(f.Object) {
				deadline = time.Now().Add(patience)
			}
		case kube.Modified:
			g.take(f.Object)
		case kube.Deleted:
			if meta, err := f.Meta(); err == nil {
				g.drain()
				g.g.Drop(handle.Key{Namespace: meta.Namespace, Name: meta.Name})
			}
		case kube.InitialEventsEnd:
			a.Marked = true
			meta, err := f.Meta()
			if err != nil {
				return a.Failed(err)
			}
			r.contact()
			g.drain()
			return r.complete(g.g, s, st, meta.ResourceVersion)
		case kube.Bookmark, kube.Error: // they mean nothing before the end of the initial events
		default:
			r.unreadable(f.Object, &kube.DecodeError{Offset: -1, Why: "no event: " + excerpt(f.Object)})
		}
	}
}

// watch opens a watch from a resource version.
func (r *Reflector[T]) watch(ctx context.Context, st transition.Step) (*attempt.Attempt, transition.Result, error) {
	begun := time.Now()
	o := r.source.Select
	o.ResourceVersion = st.RV
	a, err := r.open(ctx, st.Timeout, o)
	if err != nil {
		res, err := attempt.Failed(ctx, err)
		res.Lived = time.Since(begun)
		return nil, res, err
	}
	return a, transition.Result{}, nil
}

// follower reads one watch.
type follower[T handle.Object] struct {
	*Reflector[T]
	a     *attempt.Attempt
	begin transition.State // as it was when the watch began
	rv    string           // the position, events in batch included
	batch []state.Change[T]
	moved bool // rv is ahead of what was published
	burst[T]
}

// read follows an open watch until it ends, and closes it.
func (r *Reflector[T]) read(a *attempt.Attempt, s transition.State) (transition.Result, error) {
	defer a.Close()
	f := &follower[T]{Reflector: r, a: a, begin: s, rv: s.RV}
	a.Gap = a.Gap || s.Missed()
	a.Marked = false // the end bookmark does not say whether the server sends others
	res, err := f.run()
	f.flush()
	return res, err
}

func (f *follower[T]) run() (transition.Result, error) {
	for frames := 0; ; frames++ {
		if len(f.batch)+len(f.events) >= batchLimit || !f.a.Ready() {
			f.flush()
		}
		if frames > 0 && f.a.Gap && !f.a.Ready() && f.begin.MayReread(f.a.Lived()) {
			res, err := f.end(nil)
			res.Kind = transition.ResultGap
			return res, err
		}
		frame, err := f.a.Next(f.begin.Deadline(time.Now(), f.a.Until, f.a.Marked))
		if err != nil {
			return f.end(err)
		}
		switch frame.Type {
		case kube.Added, kube.Modified, kube.Deleted:
			f.take(frame)
		case kube.Bookmark, kube.InitialEventsEnd:
			f.applyBurst()
			f.a.Marked = true
			meta, err := frame.Meta()
			if err != nil || meta.ResourceVersion == "" {
				f.unreadable(frame.Object, &kube.DecodeError{Offset: -1, Why: "a bookmark without resourceVersion"})
				continue
			}
			if kube.OlderRV(meta.ResourceVersion, f.rv) {
				res, err := f.end(nil)
				res.Kind = transition.ResultWentBack
				return res, err
			}
			f.advance(meta.ResourceVersion)
		case kube.Error:
		default:
			f.applyBurst()
			f.unreadable(frame.Object, &kube.DecodeError{Offset: -1, Why: "no event: " + excerpt(frame.Object)})
		}
	}
}

func (f *follower[T]) end(err error) (transition.Result, error) {
	f.applyBurst()
	f.a.Reached = f.rv
	return f.a.Ended(err)
}

func (f *follower[T]) advance(rv string) {
	if rv != "" && rv != f.rv && !kube.OlderRV(rv, f.rv) {
		f.rv, f.moved = rv, true
	}
}

// apply takes an event whose object was decoded, or was not for err, into the state.
func (f *follower[T]) apply(frame client.Frame, object handle.Handle[T], err error) {
	switch {
	case f.other(frame):
	case frame.Type == kube.Deleted:
		f.remove(frame, object, err)
	default:
		f.upsert(frame, object, err)
	}
}

func (f *follower[T]) upsert(frame client.Frame, object handle.Handle[T], err error) {
	if err != nil {
		f.missed(f.unreadable(frame.Object, err))
		return
	}
	rv, key := object.GetResourceVersion(), handle.KeyOf(object)
	f.checkGap(frame.Type, client.Meta{Namespace: key.Namespace, Name: key.Name, UID: object.GetUID(), ResourceVersion: rv})
	var v state.Verdict
	f.batch, v = f.keeper.Upsert(f.batch, object, f.rv)
	f.accept(v, key, rv)
}

// missed notes an object whose new state could not be decoded. The position advances
// nevertheless: the server would send the same bytes again.
func (f *follower[T]) missed(meta client.Meta) {
	if meta.Name != "" {
		f.keeper.Unread[handle.Key{Namespace: meta.Namespace, Name: meta.Name}] = meta
	}
	f.advance(meta.ResourceVersion)
}

// other reports whether an event is about an object outside the collection. A server
// that does not know the shard selector sends such events.
func (f *follower[T]) other(frame client.Frame) bool {
	if f.source.Wants == nil {
		return false
	}
	meta, err := frame.Meta()
	if err != nil || f.wanted(meta) {
		return false
	}
	f.advance(meta.ResourceVersion)
	return true
}

func (f *follower[T]) remove(frame client.Frame, object handle.Handle[T], err error) {
	var meta client.Meta
	if err == nil {
		meta = client.Meta{
			Namespace: object.GetNamespace(), Name: object.GetName(),
			UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		}
	} else {
		var none handle.Handle[T]
		object = none // the cache has its last state
		var metaErr error
		if meta, metaErr = frame.Meta(); metaErr != nil || meta.Name == "" {
			f.unreadable(frame.Object, err)
			return
		}
	}
	f.checkGap(kube.Deleted, meta)
	var v state.Verdict
	f.batch, v = f.keeper.Remove(f.batch, meta, object, f.rv)
	f.accept(v, handle.Key{Namespace: meta.Namespace, Name: meta.Name}, meta.ResourceVersion)
}

// checkGap notes an event that does not follow from the cache's state: an earlier event was
// missed. A selector is no cause: API servers turn MODIFIED into ADDED and DELETED then. An
// event that is not newer than the position is a repetition.
func (f *follower[T]) checkGap(event kube.EventType, of client.Meta) {
	key := handle.Key{Namespace: of.Namespace, Name: of.Name}
	if _, unread := f.keeper.Unread[key]; unread || !kube.OlderRV(f.rv, of.ResourceVersion) {
		return
	}
	old, had := f.keeper.Tree.Of(key)
	switch {
	case had:
		had = old.GetUID() == of.UID || old.GetUID() == "" || of.UID == ""
	case event == kube.Added:
		had = true
	}
	if !had {
		f.a.Gap = true
	}
}

// accept records what the keeper did with an event.
func (f *follower[T]) accept(v state.Verdict, key handle.Key, rv string) {
	if len(f.keeper.Unread) > 0 && v == state.Taken {
		delete(f.keeper.Unread, key)
	}
	if v == state.Stale {
		f.host.Report(incident.Incident{Kind: incident.Stale, RV: rv, Key: key})
	}
	f.advance(rv)
}

// flush publishes what was read.
func (f *follower[T]) flush() {
	f.applyBurst()
	if len(f.batch) == 0 && !f.moved {
		return
	}
	f.contact()
	f.publish(f.batch, f.rv, Events)
	clear(f.batch)
	f.batch, f.moved = f.batch[:0], false
}

func excerpt(b []byte) string { return string(b[:min(len(b), 128)]) }
