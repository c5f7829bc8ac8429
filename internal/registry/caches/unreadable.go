package caches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Unreadable is an object whose latest value in the store cannot be read.
type Unreadable struct {
	Resource kinds.GroupResource
	Key      wire.Key
	// Known says that an earlier state of it is known, with which all go on that follow changes.
	Known bool
	Why   *store.UnreadableError
}

// unread are the objects of a resource whose latest values cannot be read. Only the publisher changes
// them, before anything of the revision is seen at which one comes or is replaced.
type unread struct {
	count atomic.Int64 // of all: readers need no lock while there are none
	// rereads is how many times the cache got a state that has some of them without a change of the store. It is
	// raised between that and their replacement: see Resource.State.
	rereads atomic.Int64
	tried   string // the key of the last one that was tried again; only for the publisher

	// mu guards what follows.
	mu      sync.Mutex
	all     map[wire.Key]*unreadable
	sorted  []Unreadable          // all of them in the order of their keys, never changed; nil: not known
	passing map[wire.Key]struct{} // those that are replaced
}

// unreadable is one of them. replaced is the revision of another value, which can be read when it is
// published; 0: there is none.
type unreadable struct {
	Unreadable

	replaced kube.ResourceVersion
}

func (u *unread) put(o Unreadable) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all, u.passing = map[wire.Key]*unreadable{}, map[wire.Key]struct{}{}
	}
	delete(u.passing, o.Key)
	u.all[o.Key], u.sorted = &unreadable{Unreadable: o}, nil
	u.count.Store(int64(len(u.all)))
}

// get returns one of them as it is at a revision; nil: it can be read.
func (u *unread) get(key wire.Key, at kube.ResourceVersion) *unreadable {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.all[key]
	if o == nil || o.replaced != 0 && o.replaced <= at {
		return nil
	}
	return o
}

// replaced notes that an object has another value at a revision, if it is one of them, and reports that.
func (u *unread) replaced(key wire.Key, at kube.ResourceVersion) bool {
	if u.count.Load() == 0 {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	o := u.all[key]
	if o == nil {
		return false
	}
	u.passing[key] = struct{}{}
	o.replaced = at
	return true
}

// settle removes those that were replaced, and returns how many are left. It is called after each batch, and does
// not look at the others.
func (u *unread) settle() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.passing) == 0 {
		return len(u.all)
	}
	for key := range u.passing {
		delete(u.all, key)
	}
	clear(u.passing)
	u.sorted = nil
	u.count.Store(int64(len(u.all)))
	return len(u.all)
}

// list returns those that there are at a revision, in the order of their keys. The caller does not change the slice.
func (u *unread) list(at kube.ResourceVersion) []Unreadable {
	if u.count.Load() == 0 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.passing) > 0 {
		return u.sortedLocked(at)
	}
	if u.sorted == nil {
		u.sorted = u.sortedLocked(at)
	}
	return u.sorted
}

func (u *unread) sortedLocked(at kube.ResourceVersion) []Unreadable {
	sorted := make([]Unreadable, 0, len(u.all))
	for _, o := range u.all {
		if o.replaced == 0 || o.replaced > at {
			sorted = append(sorted, o.Unreadable)
		}
	}
	slices.SortFunc(sorted, func(a, b Unreadable) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	return sorted
}

// seen is the revision up to which readers see everything; 0 in a mirror, where all can be read.
func (r *Resource) seen() kube.ResourceVersion {
	if r.of == nil {
		return 0
	}
	return r.of.published()
}

// Unreadable returns the objects whose latest values cannot be read, in the order of their keys. The caller does not
// change the slice.
func (r *Resource) Unreadable() []Unreadable { return r.unread.list(r.seen()) }

// Readable returns 500 for an object whose latest value cannot be read, otherwise nil.
func (r *Resource) Readable(key wire.Key) error {
	if o := r.unread.get(key, r.seen()); o != nil {
		return wire.Internal(o.Why)
	}
	return nil
}

// mostCauses bounds the objects that an error names: apiserver storage/etcd3 corrupt_obj_deleter.go
// maxCorruptObjErrsToAggregate.
const mostCauses = 100

// errElsewhere stands for why objects cannot be read that are not in the namespace of a request.
var errElsewhere = errors.New("an object in another namespace cannot be read")

// Whole returns 500 while there are objects whose latest values cannot be read: then nobody can say what all objects
// are, or follow their changes. Otherwise it is nil. It names those in the namespace of the request, or ("") all: who
// asks may not know what is in others. The reason and the causes are those of upstream's lists.
func (r *Resource) Whole(namespace string) error {
	all := r.Unreadable()
	if len(all) == 0 {
		return nil
	}
	first := errElsewhere
	named := among(all, namespace)
	if len(named) > 0 {
		first = named[0].Why
	}
	e := wire.Internal(first)
	e.ErrStatus.Reason = metav1.StatusReasonStoreReadError
	e.ErrStatus.Message = fmt.Sprintf("failed to read one or more %s from the storage: %v", r.GR, first)
	if more := len(all) - 1; more > 0 {
		e.ErrStatus.Message += fmt.Sprintf(" (and %d more)", more)
	}
	e.ErrStatus.Details = &metav1.StatusDetails{Group: r.GR.Group, Kind: r.GR.Resource, Name: "list"}
	for _, o := range named[:min(len(named), mostCauses)] {
		e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{
			Type: metav1.CauseTypeUnexpectedServerResponse, Field: cmp.Or(o.Why.Place, o.Why.Key), Message: o.Why.Error(),
		})
	}
	return e
}

// WholeIn is Whole for who looks at one namespace only, or ("") at all: objects of others need not be readable.
func (r *Resource) WholeIn(namespace string) error {
	if len(among(r.Unreadable(), namespace)) == 0 {
		return nil
	}
	return r.Whole(namespace)
}

// WholeAt returns why not everything can be read that the resource has had at rv: 500 while a value cannot be, and
// then *kube.ExpiredError of a list.
func (r *Resource) WholeAt(namespace string, rv kube.ResourceVersion) error {
	if err := r.Whole(namespace); err != nil {
		return err
	}
	if from := r.WholeFrom(); rv < from {
		return stored.Unread(rv, from, kube.ExpiredList)
	}
	return nil
}

// among returns those of some objects that are in a namespace, or have none; all for "".
func among(all []Unreadable, namespace string) []Unreadable {
	if namespace == "" {
		return all
	}
	var found []Unreadable
	for _, o := range all {
		if o.Key.Namespace == "" || o.Key.Namespace == namespace {
			found = append(found, o)
		}
	}
	return found
}

// State returns the state that take gives, if what is asked of it can be read: readable is Whole, WholeIn, WholeAt,
// or Readable of an object. It never returns one that lacks a value which could not be read in between: it
// takes another one, that has it. Errors: those of take, readable and Cache.WaitFresh.
//
// A value that was replaced is in a later state; one that was read again is in another state of the same
// resourceVersion. Of these two readers get only the second: as long as its values count as unreadable they get an
// error, and after that rereads is not what it was before the first one was taken.
func (r *Resource) State(
	ctx context.Context, readable func() error, take func(context.Context) (*watchcache.Snapshot, error),
) (*watchcache.Snapshot, error) {
	for {
		rereads := r.unread.rereads.Load()
		s, err := take(ctx)
		if err == nil {
			err = readable() // after the state: whatever that has was noted before
		}
		if err != nil {
			return nil, err
		}
		if r.unread.rereads.Load() != rereads {
			continue
		}
		from := r.WholeFrom()
		if s.RV() >= from {
			return s, nil
		}
		if _, err := r.Cache.WaitFresh(ctx, from); err != nil {
			return nil, err
		}
	}
}

// Unreadable returns the objects of all resources whose latest values cannot be read, in the order of
// their resources and keys.
func (s *Set) Unreadable() []Unreadable {
	all := s.resources.Load()
	if all == nil {
		return nil
	}
	var found []Unreadable
	for _, name := range slices.Sorted(maps.Keys(*all)) {
		found = append(found, (*all)[name].Unreadable()...)
	}
	return found
}

// Unknown returns an error that names an object of which nothing is known, because its value cannot be
// read: in one namespace or without one, or ("") in any. A definition that cannot be read hides all of its
// objects, and a store that was not read yet (503) all of its own.
func (s *Set) Unknown(namespace string) error {
	for _, q := range s.apart {
		if err := q.notRead(); err != nil {
			return stored.Failure(err)
		}
	}
	all := s.resources.Load() // after that: the resources of a store are added before it counts as read
	if all == nil {
		return nil
	}
	for _, r := range *all {
		if r.unread.count.Load() == 0 {
			continue
		}
		if r.GR == kinds.Definitions() {
			return r.Whole("")
		}
		if err := r.unknown(namespace, ""); err != nil {
			return err
		}
	}
	return nil
}

// UnknownOf is Unknown for the objects of one resource: name is "" for all of the namespace. Who finds nothing cannot
// know without it that there is nothing.
func (s *Set) UnknownOf(gr kinds.GroupResource, namespace, name string) error {
	unread := s.Unread(gr) // before the look: see Of
	if r := s.Lookup(gr); r != nil {
		return r.unknown(namespace, name)
	}
	return unread
}

// unknown is Set.UnknownOf.
func (r *Resource) unknown(namespace, name string) error {
	for _, o := range among(r.Unreadable(), namespace) {
		if !o.Known && (name == "" || o.Key.Name == name) {
			return wire.Internal(o.Why)
		}
	}
	return nil
}

// loadReadable gives a resource the objects at a revision that can be read, and notes the others.
func (r *Resource) loadReadable(ctx context.Context, revision int64) error {
	objects, lost, err := r.LoadReadable(ctx, revision)
	if err != nil {
		return err
	}
	for _, why := range lost {
		r.unread.put(Unreadable{Resource: r.GR, Key: r.KeyOf(why.Key), Why: why})
	}
	r.Cache.Load(objects, kube.ResourceVersion(revision))
	return nil
}
