package reflector

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/kube"
)

// stream reads the whole state as a streaming list (KEP-3157) up to its end
// bookmark. The watch is returned open then, and nil otherwise.
func (r *Reflector[S]) stream(ctx context.Context, s course.State, st course.Step) (*attempt.Attempt, course.Result, error) {
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
	if res.Kind != course.ResultStreamed {
		a.Close()
		return nil, res, err
	}
	return a, res, nil
}

// initial reads the initial events. Each new object extends the deadline; what is
// no initial event does not, so that a server that never marks the end is found out.
func (r *Reflector[S]) initial(a *attempt.Attempt, s course.State, st course.Step) (course.Result, error) {
	g := r.newGatherer()
	defer g.settle()
	patience := s.Tuned().SyncDeadline
	deadline := time.Now().Add(patience)
	for {
		// What was taken extends the deadline when it has been looked at.
		if !a.Ready() && time.Until(deadline) < patience-patience/16 && g.settle() {
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
				g.settle()
				g.g.Drop(state.Key{Namespace: meta.Namespace, Name: meta.Name})
			}
		case kube.InitialEventsEnd:
			a.Marked = true
			meta, err := f.Meta()
			if err != nil {
				return a.Failed(err)
			}
			r.contact()
			g.settle()
			return r.complete(g.g, s, st, meta.ResourceVersion)
		case kube.Bookmark, kube.Error: // no promise before the end of the initial events
		default:
			r.unreadable(f.Object, &kube.DecodeError{Offset: -1, Why: "no event: " + excerpt(f.Object)})
		}
	}
}

// watch opens a watch from a resource version.
func (r *Reflector[S]) watch(ctx context.Context, st course.Step) (*attempt.Attempt, course.Result, error) {
	begun := time.Now()
	o := r.source.Select
	o.ResourceVersion = st.RV
	a, err := r.open(ctx, st.Timeout, o)
	if err != nil {
		res, err := attempt.Failed(ctx, err)
		res.Lived = time.Since(begun)
		return nil, res, err
	}
	return a, course.Result{}, nil
}

// follower reads one watch.
type follower[S state.Object] struct {
	*Reflector[S]
	a     *attempt.Attempt
	begin course.State // as it was when the watch began
	rv    string       // the position, events in batch included
	batch []state.Change[S]
	moved bool // rv is ahead of what was published
}

// read follows an open watch until it ends, and closes it.
func (r *Reflector[S]) read(a *attempt.Attempt, s course.State) (course.Result, error) {
	defer a.Close()
	f := &follower[S]{Reflector: r, a: a, begin: s, rv: s.RV}
	a.Marked = false // the end bookmark says nothing about a cadence
	res, err := f.run()
	f.flush()
	return res, err
}

func (f *follower[S]) run() (course.Result, error) {
	for {
		if len(f.batch) >= batchLimit || !f.a.Ready() {
			f.flush()
		}
		frame, err := f.a.Next(f.begin.Deadline(time.Now(), f.a.Until, f.a.Marked))
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
			meta, err := frame.Meta()
			if err != nil || meta.ResourceVersion == "" {
				f.unreadable(frame.Object, &kube.DecodeError{Offset: -1, Why: "a bookmark without resourceVersion"})
				continue
			}
			if course.Before(meta.ResourceVersion, f.rv) {
				res, err := f.end(nil)
				res.Kind = course.ResultWentBack
				return res, err
			}
			f.advance(meta.ResourceVersion)
		case kube.Error:
		default:
			f.unreadable(frame.Object, &kube.DecodeError{Offset: -1, Why: "no event: " + excerpt(frame.Object)})
		}
	}
}

func (f *follower[S]) end(err error) (course.Result, error) {
	f.a.Reached = f.rv
	return f.a.Ended(err)
}

func (f *follower[S]) advance(rv string) {
	if rv != "" && rv != f.rv && !course.Before(rv, f.rv) {
		f.rv, f.moved = rv, true
	}
}

func (f *follower[S]) upsert(frame client.Frame) {
	if f.foreign(frame) {
		return
	}
	object, err := f.decode(frame.Object)
	if err != nil {
		f.missed(f.unreadable(frame.Object, err))
		return
	}
	rv, key := object.GetResourceVersion(), state.KeyOf(object)
	var v state.Verdict
	f.batch, v = f.keeper.Upsert(f.batch, object, f.rv)
	f.settle(v, key, rv)
}

// missed notes that an object has a state that could not be read. The position
// moves on: the same bytes would come again.
func (f *follower[S]) missed(meta client.Meta) {
	if meta.Name != "" {
		f.keeper.Unread[state.Key{Namespace: meta.Namespace, Name: meta.Name}] = struct{}{}
	}
	f.advance(meta.ResourceVersion)
}

// foreign says that an event is about an object of somebody else's, which a server
// sends that does not know what we asked for.
func (f *follower[S]) foreign(frame client.Frame) bool {
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

func (f *follower[S]) remove(frame client.Frame) {
	if f.foreign(frame) {
		return
	}
	object, err := f.decode(frame.Object)
	var meta client.Meta
	if err == nil {
		meta = client.Meta{
			Namespace: object.GetNamespace(), Name: object.GetName(),
			UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		}
	} else {
		var none S
		object = none // it is gone, and what it was is known from before
		var metaErr error
		if meta, metaErr = frame.Meta(); metaErr != nil || meta.Name == "" {
			f.unreadable(frame.Object, err)
			return
		}
	}
	var v state.Verdict
	f.batch, v = f.keeper.Remove(f.batch, meta, object)
	f.settle(v, state.Key{Namespace: meta.Namespace, Name: meta.Name}, meta.ResourceVersion)
}

// settle takes note of what the keeper did with an event.
func (f *follower[S]) settle(v state.Verdict, key state.Key, rv string) {
	if len(f.keeper.Unread) > 0 && v == state.Taken {
		delete(f.keeper.Unread, key)
	}
	if v == state.Stale {
		f.host.Report(Incident{Trouble: course.Stale, RV: rv, Key: key})
	}
	f.advance(rv)
}

// flush publishes what was read.
func (f *follower[S]) flush() {
	if len(f.batch) == 0 && !f.moved {
		return
	}
	f.contact()
	f.publish(f.batch, f.rv, false)
	clear(f.batch)
	f.batch, f.moved = f.batch[:0], false
}

func excerpt(b []byte) string { return string(b[:min(len(b), 128)]) }
