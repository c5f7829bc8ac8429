package informer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/kube"
)

// batchLimit is how many events become one snapshot at most.
const batchLimit = 256

// errOlder stands for a server that answers with an older state than was asked for.
var errOlder = errors.New("the state is older than what was asked for")

// reflect performs what next says until ctx ends.
func (i *Informer[T]) reflect(ctx context.Context) {
	s := i.reflector
	s.NoStream = s.NoStream || i.opts.noStream
	s, st := course.Next(s, course.Result{Kind: course.ResultStart})
	var open *attempt.Attempt // between the end bookmark and reading on
	var why IncidentKind      // what last ended a watch
	for st.Do != course.DoStop {
		i.begins(s, st)
		i.counts(st.Do)
		begun := time.Now()
		var r course.Result
		var err error
		switch st.Do {
		case course.DoList:
			r, err = i.list(ctx, s, st)
		case course.DoStream:
			open, r, err = i.stream(ctx, s, st)
		case course.DoWatch:
			open, r, err = i.watch(ctx, st)
			if open != nil {
				r, err = i.read(open, s)
			}
		case course.DoRead:
			r, err = i.read(open, s)
		case course.DoWait:
			pause(ctx, nil, st.Wait+jitter(st.Spread))
			r.Kind = course.ResultElapsed
		case course.DoStop:
		}
		if ctx.Err() != nil && r.Kind != course.ResultListed && r.Kind != course.ResultStreamed {
			r.Kind = course.ResultStopped
		}
		i.measure(s, ending{did: st.Do, result: r, took: time.Since(begun), why: why})
		watched := s.Phase == course.Watching
		s, st = course.Next(s, r)
		if watched && st.Incident != 0 {
			why = IncidentKind(st.Incident)
		}
		if st.Incident != 0 && r.Kind != course.ResultStopped {
			i.report(Incident{Kind: IncidentKind(st.Incident), At: time.Now(), Err: err, RV: s.RV, Next: s.Describe(st)})
		}
	}
	i.reflector = s
	i.note(func(status *Status) { status.State = s.Phase.String() })
}

// begins counts what is about to be done.
func (i *Informer[T]) begins(s course.State, st course.Step) {
	i.note(func(status *Status) {
		status.State = s.Phase.String()
		switch st.Do {
		case course.DoList:
			status.Lists++
		case course.DoStream:
			status.Lists++
			status.Streams++
		case course.DoWatch:
			status.Watches++
		case course.DoRead, course.DoWait, course.DoStop:
		}
	})
}

func jitter(spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	return rand.N(spread)
}

// list reads the whole state by LIST, page by page.
func (i *Informer[T]) list(ctx context.Context, s course.State, st course.Step) (course.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(attempt.ErrFinished)
	dog := time.AfterFunc(course.ListSilence, func() { cancel(attempt.ErrSilent) })
	defer dog.Stop()
	o := metav1.ListOptions{
		LabelSelector: i.source.labels, FieldSelector: i.source.fields,
		ResourceVersion: st.RV, Limit: st.Limit,
	}
	if st.RV != "" && st.RV != "0" {
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	g := i.newGatherer()
	defer g.settle()
	for page := 0; ; page++ {
		meta, err := i.source.backend.List(ctx, o, func(item []byte) error {
			dog.Reset(course.ListSilence)
			g.take(item)
			return nil
		})
		if err != nil {
			r, err := attempt.Failed(ctx, err)
			r.Page = page
			return r, err
		}
		i.contact()
		if meta.Continue == "" {
			g.settle()
			return i.complete(g.g, s, st, meta.ResourceVersion)
		}
		o.Continue, o.ResourceVersion, o.ResourceVersionMatch = meta.Continue, "", ""
		dog.Reset(course.ListSilence)
	}
}

// complete makes the cache what was gathered.
func (i *Informer[T]) complete(g *gathering[T], s course.State, st course.Step, rv string) (course.Result, error) {
	if rv == "" || rv == "0" {
		err := &kube.DecodeError{Offset: -1, Why: "the list has no resourceVersion"}
		return course.Result{Kind: course.ResultFailed, Outcome: kube.OutcomeDecode}, err
	}
	if st.RV != "" && course.Before(rv, s.RV) {
		return course.Result{Kind: course.ResultFailed, Outcome: kube.OutcomeTooLarge}, errOlder
	}
	first := !s.Synced()
	changes := i.keeper.replace(g, rv)
	i.turn(changes, rv, true)
	i.publish(changes, rv, first)
	kind := course.ResultListed
	if st.Do == course.DoStream {
		kind = course.ResultStreamed
	}
	return course.Result{Kind: kind, RV: rv}, nil
}

func (i *Informer[T]) decode(raw []byte) (T, error) {
	object, err := i.source.decode(raw)
	if err == nil && object.GetName() == "" {
		err = &kube.DecodeError{Offset: -1, Why: "the object has no metadata.name"}
	}
	return object, err
}

// unreadable reports an object that cannot be decoded, and says which one it is if
// that much can be read.
func (i *Informer[T]) unreadable(raw []byte, err error) client.Meta {
	meta, metaErr := client.MetaOf(raw)
	if metaErr != nil {
		meta = client.Meta{}
	}
	i.report(Incident{
		Kind: Undecodable, At: time.Now(), Err: err, RV: meta.ResourceVersion,
		Key: Key{Namespace: meta.Namespace, Name: meta.Name},
	})
	return meta
}

// open begins a watch. On an error there is nothing to close.
func (i *Informer[T]) open(ctx context.Context, o metav1.ListOptions) (*attempt.Attempt, error) {
	timeout := course.MinWatchTimeout + jitter(course.MinWatchTimeout)
	seconds := int64(timeout / time.Second)
	o.LabelSelector, o.FieldSelector = i.source.labels, i.source.fields
	o.AllowWatchBookmarks = true
	o.TimeoutSeconds = &seconds
	a, err := attempt.Open(ctx, timeout, func(own context.Context) (attempt.Stream, error) { return i.source.backend.Watch(own, o) })
	if err == nil {
		i.contact()
	}
	return a, err
}

func (i *Informer[T]) contact() {
	now := time.Now()
	i.note(func(s *Status) { s.LastContact = now })
}
