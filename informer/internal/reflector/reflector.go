// Package reflector keeps one collection's state current: it reads it, watches it,
// and reads it again where that is the only way, as the table in package course says.
//
// It has three nouns. A [Source] is what is read. A [Reflector] performs the table
// and holds the state. A [Host] is who hears of it.
package reflector

import (
	"context"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/attempt"
	"github.com/gapless-io/gapless/informer/internal/course"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/kube"
)

// batchLimit is how many events become one state at most.
const batchLimit = 256

// errOlder stands for a server that answers with an older state than was asked for.
var errOlder = errors.New("the state is older than what was asked for")

// errSamePage stands for a server whose pages go round in a circle.
var errSamePage = errors.New("a page's continue token is the one that led to it")

// Source is what a reflector reads.
type Source[S state.Object] struct {
	// List gets one page; Watch opens a watch, which ends with ctx.
	List  func(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error)
	Watch func(ctx context.Context, o metav1.ListOptions) (attempt.Stream, error)
	// Decode makes an object of its bytes, which it may keep unless they are lent. An
	// error concerns that object only.
	Decode func(object []byte) (S, error)
	// Select is part of every request.
	Select metav1.ListOptions
	// Wants says which objects belong to the collection, as long as they live; nil: all.
	Wants func(uid types.UID) bool
	// Lends says that bytes are lent until the source is called again, and that Decode
	// keeps nothing of them and can be called by several.
	Lends bool
}

// Host is who hears of a reflector. Its methods are called by the goroutine of Run,
// which waits for them.
type Host[S state.Object] interface {
	// Publish says that the state is at rv now, and what changed since the last call.
	// whole says that all of it was read. changes are lent.
	Publish(changes []state.Change[S], rv string, whole bool)
	// Report says what went wrong.
	Report(Incident)
	// Begin and End say what is done, and how it ended.
	Begin(does course.Action)
	End(Ending)
}

// Incident is something that went wrong.
type Incident struct {
	Trouble course.Trouble
	Err     error // nil where nobody returned one
	RV      string
	Key     state.Key
	Next    string // what is done about it
}

// Ending is how an action ended.
type Ending struct {
	Did    course.Action
	Result course.Result
	Took   time.Duration
	Again  bool           // the whole state had been there before
	Why    course.Trouble // what last ended a watch
}

// Status is how a reflector is. Counters are since New.
type Status struct {
	State       course.Phase
	Undecodable int
	LastContact time.Time

	Lists, Streams, Watches int64
}

// Reflector keeps one state current.
type Reflector[S state.Object] struct {
	source Source[S]
	host   Host[S]

	// mu guards status; nothing else is locked under it.
	mu     sync.Mutex
	status Status

	// course and keeper belong to the goroutine of Run.
	course course.State
	keeper state.Keeper[S]
}

// New makes a reflector with an empty state.
func New[S state.Object](source Source[S], host Host[S], begin course.State) *Reflector[S] {
	return &Reflector[S]{source: source, host: host, course: begin, keeper: state.NewKeeper[S]()}
}

// Restore makes the state what another reflector of the same collection left behind,
// as if this one had read it. It is for before the first Run.
func (r *Reflector[S]) Restore(tree state.Tree[S], rv string) {
	r.keeper.Tree, r.course.RV = tree, rv
}

// Reread says that the state that was restored lacks something from before its position,
// so that it has to be read again. It is for before the first Run.
func (r *Reflector[S]) Reread() {
	r.course.Phase, r.course.Then = course.Waiting, course.Streaming
	if r.course.NoStream {
		r.course.Then = course.Listing
	}
}

// Tree is the state. Outside of Publish it belongs to the goroutine of Run.
func (r *Reflector[S]) Tree() state.Tree[S] { return r.keeper.Tree }

// Status returns how the reflector is now.
func (r *Reflector[S]) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *Reflector[S]) note(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// Run keeps the state current until ctx ends, and then returns nil. With
// course.Tuning.Stop4xx it returns the error for which it gave up. It can be run again,
// and then goes on from where it stopped, in the server's history as well.
func (r *Reflector[S]) Run(ctx context.Context) error {
	s, st := course.Next(r.course, course.Result{Kind: course.ResultStart})
	var open *attempt.Attempt // between the end bookmark and reading on
	var why course.Trouble    // what last ended a watch
	var err error             // of the last action
	for st.Do != course.DoStop {
		r.begins(s, st)
		begun := time.Now()
		var res course.Result
		err = nil
		switch st.Do {
		case course.DoList:
			res, err = r.list(ctx, s, st)
		case course.DoStream:
			open, res, err = r.stream(ctx, s, st)
		case course.DoWatch:
			open, res, err = r.watch(ctx, st)
			if open != nil {
				res, err = r.read(open, s)
			}
		case course.DoRead:
			res, err = r.read(open, s)
		case course.DoWait:
			pause(ctx, st.Wait+st.Extra)
			res.Kind = course.ResultElapsed
		case course.DoStop:
		}
		if ctx.Err() != nil && res.Kind != course.ResultListed && res.Kind != course.ResultStreamed {
			res.Kind = course.ResultStopped
		}
		r.host.End(Ending{Did: st.Do, Result: res, Took: time.Since(begun), Again: s.Synced(), Why: why})
		watched := s.Phase == course.Watching
		s, st = course.Next(s, res)
		if watched && st.Incident != 0 {
			why = st.Incident
		}
		if st.Incident != 0 && res.Kind != course.ResultStopped {
			r.host.Report(Incident{Trouble: st.Incident, Err: err, RV: s.RV, Next: s.Describe(st)})
		}
	}
	r.course = s
	r.note(func(status *Status) { status.State = s.Phase })
	if st.GiveUp {
		return err
	}
	return nil
}

// begins counts what is about to be done.
func (r *Reflector[S]) begins(s course.State, st course.Step) {
	r.note(func(status *Status) {
		status.State = s.Phase
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
	r.host.Begin(st.Do)
}

// pause waits for a time, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// list reads the whole state by LIST, page by page.
func (r *Reflector[S]) list(ctx context.Context, s course.State, st course.Step) (course.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(attempt.ErrFinished)
	dog := time.AfterFunc(course.ListSilence, func() { cancel(attempt.ErrSilent) })
	defer dog.Stop()
	o := r.source.Select
	o.ResourceVersion, o.Limit = st.RV, st.Limit
	if st.RV != "" && st.RV != "0" {
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	g := r.newGatherer()
	defer g.settle()
	for page := 0; ; page++ {
		meta, err := r.source.List(ctx, o, func(item []byte) error {
			dog.Reset(course.ListSilence)
			g.take(item)
			return nil
		})
		if err != nil {
			res, err := attempt.Failed(ctx, err)
			res.Page = page
			return res, err
		}
		r.contact()
		if meta.Continue == "" {
			g.settle()
			return r.complete(g.g, s, st, meta.ResourceVersion)
		}
		if meta.Continue == o.Continue {
			return course.Result{Kind: course.ResultFailed, Outcome: kube.OutcomeInvalid, Page: page + 1}, errSamePage
		}
		o.Continue, o.ResourceVersion, o.ResourceVersionMatch = meta.Continue, "", ""
		dog.Reset(course.ListSilence)
	}
}

// complete makes the state what was gathered.
func (r *Reflector[S]) complete(g *state.Gathering[S], s course.State, st course.Step, rv string) (course.Result, error) {
	if rv == "" || rv == "0" {
		err := &kube.DecodeError{Offset: -1, Why: "the list has no resourceVersion"}
		return course.Result{Kind: course.ResultFailed, Outcome: kube.OutcomeDecode}, err
	}
	if st.RV != "" && course.Before(rv, s.RV) {
		return course.Result{Kind: course.ResultFailed, Outcome: kube.OutcomeTooLarge}, errOlder
	}
	r.publish(r.keeper.Replace(g, rv), rv, true)
	kind := course.ResultListed
	if st.Do == course.DoStream {
		kind = course.ResultStreamed
	}
	return course.Result{Kind: kind, RV: rv}, nil
}

func (r *Reflector[S]) publish(changes []state.Change[S], rv string, whole bool) {
	unread := len(r.keeper.Unread)
	r.note(func(s *Status) { s.Undecodable = unread })
	r.host.Publish(changes, rv, whole)
}

func (r *Reflector[S]) decode(raw []byte) (S, error) {
	object, err := r.source.Decode(raw)
	if err == nil && object.GetName() == "" {
		err = &kube.DecodeError{Offset: -1, Why: "the object has no metadata.name"}
	}
	return object, err
}

// wanted says whether an object belongs to the collection. What cannot be read does.
func (r *Reflector[S]) wanted(meta client.Meta) bool {
	return r.source.Wants == nil || meta.UID == "" || r.source.Wants(meta.UID)
}

// unreadable reports an object that cannot be decoded, and says which one it is if
// that much can be read.
func (r *Reflector[S]) unreadable(raw []byte, err error) client.Meta {
	meta, metaErr := client.MetaOf(raw)
	if metaErr != nil {
		meta = client.Meta{}
	}
	r.host.Report(Incident{
		Trouble: course.Undecodable, Err: err, RV: meta.ResourceVersion,
		Key: state.Key{Namespace: meta.Namespace, Name: meta.Name},
	})
	return meta
}

// open begins a watch that the server is asked to end after timeout. On an error there
// is nothing to close.
func (r *Reflector[S]) open(ctx context.Context, timeout time.Duration, o metav1.ListOptions) (*attempt.Attempt, error) {
	seconds := int64(timeout / time.Second)
	o.AllowWatchBookmarks = true
	o.TimeoutSeconds = &seconds
	a, err := attempt.Open(ctx, timeout, func(own context.Context) (attempt.Stream, error) { return r.source.Watch(own, o) })
	if err == nil {
		r.contact()
	}
	return a, err
}

func (r *Reflector[S]) contact() {
	now := time.Now()
	r.note(func(s *Status) { s.LastContact = now })
}
