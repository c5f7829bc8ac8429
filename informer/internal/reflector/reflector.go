// Package reflector keeps the state of one collection current: it lists and watches as
// the table in package transition says.
//
// A [Source] is what is read. A [Reflector] executes the table and holds the state. A [Host]
// gets the changes and incidents.
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
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

// batchLimit is how many events are published at once at most.
const batchLimit = 256

// errOlder says that the server returned an older state than was requested.
var errOlder = errors.New("the state is older than what was asked for")

// errSamePage and errBarren say that the pages of a list never end.
var (
	errSamePage = errors.New("a page's continue token was repeated")
	errBarren   = errors.New("too many pages without a new object")
)

// Source is what a reflector reads.
type Source[T handle.Object] struct {
	// List gets one page; Watch opens a watch, which ends with ctx.
	List  func(ctx context.Context, o metav1.ListOptions, each func(item []byte) error) (metav1.ListMeta, error)
	Watch func(ctx context.Context, o metav1.ListOptions) (client.Stream, error)
	// Decode decodes an object. It may keep the bytes unless they are lent. An error
	// concerns that object only.
	Decode func(object []byte) (handle.Handle[T], error)
	// Select is part of every request.
	Select metav1.ListOptions
	// Wants says which objects belong to the collection; nil: all. It depends only on uid.
	Wants func(uid types.UID) bool
	// Vouches says that the server refuses positions of another history, so that no objects
	// have to be compared; nil: it does not.
	Vouches func() bool
	// ListNow is in the error of a streaming list after which LIST is to be tried at once;
	// nil: there is no such error.
	ListNow error
	// Lends says that bytes are valid only until the source is called again, and that
	// Decode keeps none of them and may be called concurrently.
	Lends bool
}

// Host gets what a reflector reads. The goroutine of Run calls its methods and waits for
// them.
type Host[T handle.Object] interface {
	// Publish is called with the changes since the last call. The state is at rv now.
	// changes is valid only during the call.
	Publish(changes []state.Change[T], rv string, read Extent)
	// Report is called with each incident.
	Report(incident.Incident)
	// Begin and End are called before and after each action.
	Begin(does transition.Action)
	End(Ending)
}

// Extent says how much of the state was read.
type Extent int

// The extents: events; the whole state; the whole state, in another history than before.
const (
	Events Extent = iota
	Whole
	Rewritten
)

// Ending is how an action ended.
type Ending struct {
	Did    transition.Action
	Result transition.Result
	Took   time.Duration
	Again  bool          // there was a whole state before
	Why    incident.Kind // what last ended a watch
}

// Status describes a reflector. Counters are since New.
type Status struct {
	State       transition.Phase
	Undecodable int
	LastContact time.Time

	Lists, Streams, Watches int64
}

// Reflector keeps one state current.
type Reflector[T handle.Object] struct {
	source Source[T]
	host   Host[T]

	// mu guards status; nothing else is locked under it.
	mu     sync.Mutex
	status Status

	// machine and keeper belong to the goroutine of Run.
	machine transition.State
	keeper  state.Keeper[T]
}

// New returns a reflector with an empty state.
func New[T handle.Object](source Source[T], host Host[T], begin transition.State) *Reflector[T] {
	return &Reflector[T]{source: source, host: host, machine: begin, keeper: state.NewKeeper[T]()}
}

// Restore sets the state that another reflector of the same collection had at rv. It must
// be called before the first Run.
func (r *Reflector[T]) Restore(tree state.Tree[T], rv string) {
	r.keeper.Tree, r.machine.RV = tree, rv
}

// Reread makes Run read the state again, because the restored one is incomplete. It must
// be called before the first Run.
func (r *Reflector[T]) Reread() {
	r.machine.Phase, r.machine.Then = transition.Waiting, transition.Streaming
	if r.machine.NoStream {
		r.machine.Then = transition.Listing
	}
}

// Tree is the state. Outside of Publish it belongs to the goroutine of Run.
func (r *Reflector[T]) Tree() state.Tree[T] { return r.keeper.Tree }

// Status returns how the reflector is now.
func (r *Reflector[T]) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

func (r *Reflector[T]) note(change func(*Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// Run keeps the state current until ctx ends, and then returns nil. With
// transition.Tuning.Stop4xx it can give up and return an error. It can be called again,
// and then continues from its position in the server's history.
func (r *Reflector[T]) Run(ctx context.Context) error {
	s, st := transition.Next(r.machine, transition.Result{Kind: transition.ResultStart})
	var open *attempt.Attempt // between the end bookmark and reading on
	var why incident.Kind     // what last ended a watch
	var err error             // of the last action
	for st.Do != transition.DoStop {
		r.begins(s, st)
		begun := time.Now()
		var res transition.Result
		err = nil
		switch st.Do {
		case transition.DoList:
			res, err = r.list(ctx, s, st)
		case transition.DoStream:
			open, res, err = r.stream(ctx, s, st)
		case transition.DoWatch:
			open, res, err = r.watch(ctx, st)
			if open != nil {
				res, err = r.readComparing(ctx, open, s, st.Probe)
			}
		case transition.DoRead:
			res, err = r.read(open, s)
		case transition.DoWait:
			pause(ctx, st.Wait+st.Extra)
			res.Kind = transition.ResultElapsed
		case transition.DoStop:
		}
		res.ListNow = r.source.ListNow != nil && res.Kind == transition.ResultFailed && errors.Is(err, r.source.ListNow)
		if ctx.Err() != nil && res.Kind != transition.ResultListed && res.Kind != transition.ResultStreamed {
			res.Kind = transition.ResultStopped
		}
		r.host.End(Ending{Did: st.Do, Result: res, Took: time.Since(begun), Again: s.Synced(), Why: why})
		watched := s.Phase == transition.Watching
		s, st = transition.Next(s, res)
		if watched && st.Incident != 0 {
			why = st.Incident
		}
		if st.Incident != 0 && res.Kind != transition.ResultStopped {
			r.host.Report(incident.Incident{Kind: st.Incident, Err: err, RV: s.RV, Next: s.Describe(st)})
		}
	}
	r.machine = s
	r.note(func(status *Status) { status.State = s.Phase })
	if st.GiveUp {
		return err
	}
	return nil
}

// begins counts an action that begins.
func (r *Reflector[T]) begins(s transition.State, st transition.Step) {
	r.note(func(status *Status) {
		status.State = s.Phase
		switch st.Do {
		case transition.DoList:
			status.Lists++
		case transition.DoStream:
			status.Lists++
			status.Streams++
		case transition.DoWatch:
			status.Watches++
		case transition.DoRead, transition.DoWait, transition.DoStop:
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
func (r *Reflector[T]) list(ctx context.Context, s transition.State, st transition.Step) (transition.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(attempt.ErrFinished)
	watchdog := time.AfterFunc(transition.ListSilence, func() { cancel(attempt.ErrSilent) })
	defer watchdog.Stop()
	o := r.source.Select
	o.ResourceVersion, o.Limit = st.RV, st.Limit
	if st.RV != "" && st.RV != "0" {
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	g := r.newGatherer(s)
	defer g.drain()
	turns := pages{tokens: map[string]struct{}{}}
	for page := 0; ; page++ {
		meta, err := r.source.List(ctx, o, func(item []byte) error {
			watchdog.Reset(transition.ListSilence)
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
			g.drain()
			return r.complete(g.g, s, st, meta.ResourceVersion)
		}
		if err := turns.next(meta.Continue, g.found); err != nil {
			if g.drain(); errors.Is(err, errSamePage) || turns.found == g.found() {
				return transition.Result{Kind: transition.ResultFailed, Outcome: kube.OutcomeInvalid, Page: page + 1}, err
			}
		}
		o.Continue, o.ResourceVersion, o.ResourceVersionMatch = meta.Continue, "", ""
		watchdog.Reset(transition.ListSilence)
	}
}

// complete replaces the state with a gathered one.
func (r *Reflector[T]) complete(g *state.Gathering[T], s transition.State, st transition.Step,
	rv string,
) (transition.Result, error) {
	if rv == "" || rv == "0" {
		err := &kube.DecodeError{Offset: -1, Why: "the list has no resourceVersion"}
		return transition.Result{Kind: transition.ResultFailed, Outcome: kube.OutcomeDecode}, err
	}
	if kube.OlderRV(rv, s.RV) {
		switch {
		case st.RV != "":
			return transition.Result{Kind: transition.ResultFailed, Outcome: kube.OutcomeTooLarge}, errOlder
		case !s.Anew: // objects that seemed unchanged may have changed
			return transition.Result{Kind: transition.ResultWentBack}, nil
		}
	}
	read := Whole
	if s.Back {
		read = Rewritten
	}
	r.publish(r.keeper.Replace(g, rv), rv, read)
	kind := transition.ResultListed
	if st.Do == transition.DoStream {
		kind = transition.ResultStreamed
	}
	return transition.Result{Kind: kind, RV: rv}, nil
}

func (r *Reflector[T]) publish(changes []state.Change[T], rv string, read Extent) {
	unread := len(r.keeper.Unread)
	r.note(func(s *Status) { s.Undecodable = unread })
	r.host.Publish(changes, rv, read)
}

func (r *Reflector[T]) decode(raw []byte) (handle.Handle[T], error) {
	object, err := r.source.Decode(raw)
	if err == nil && object.GetName() == "" {
		err = &kube.DecodeError{Offset: -1, Why: "the object has no metadata.name"}
	}
	return object, err
}

// wanted reports whether an object belongs to the collection. An object without UID does.
func (r *Reflector[T]) wanted(meta client.Meta) bool {
	return r.source.Wants == nil || meta.UID == "" || r.source.Wants(meta.UID)
}

// unreadable reports an object that cannot be decoded, and returns its metadata if that
// can be decoded.
func (r *Reflector[T]) unreadable(raw []byte, err error) client.Meta {
	meta, metaErr := client.MetaOf(raw)
	if metaErr != nil {
		meta = client.Meta{}
	}
	r.host.Report(incident.Incident{
		Kind: incident.Undecodable, Err: err, RV: meta.ResourceVersion,
		Key: handle.Key{Namespace: meta.Namespace, Name: meta.Name},
	})
	return meta
}

// open opens a watch, which the server is asked to end after timeout.
func (r *Reflector[T]) open(ctx context.Context, timeout time.Duration, o metav1.ListOptions) (*attempt.Attempt, error) {
	seconds := int64(timeout / time.Second)
	o.AllowWatchBookmarks = true
	o.TimeoutSeconds = &seconds
	a, err := attempt.Open(ctx, timeout, func(own context.Context) (client.Stream, error) { return r.source.Watch(own, o) })
	if err == nil {
		r.contact()
	}
	return a, err
}

func (r *Reflector[T]) contact() {
	now := time.Now()
	r.note(func(s *Status) { s.LastContact = now })
}
