package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// write is one call of a verb that changes an object.
type write struct {
	target kinds.Target
	cached *caches.Resource // what the target is stored in
	dryRun bool
	// review asks plugins; op and options are the client's operation, nil for what the server does by itself.
	review  *admission.Review
	op      upstream.Operation
	options runtime.Object
	waits   bool // also without the review
	// manages says that manager, or that of the target if it is "", manages the fields that change;
	// otherwise the new object itself says who does.
	manages bool
	manager string
	// uid is that of the object which the client means, "" for any.
	uid types.UID
	// creates says that an update creates a missing object.
	creates bool
}

// newWrite finds what a target is stored in. Errors: those of caches.Set.Of.
func (r *Registry) newWrite(t kinds.Target, dryRun []string) (write, error) {
	cached, err := r.caches.Of(t)
	if err != nil {
		return write{}, err
	}
	return write{target: t, cached: cached, dryRun: len(dryRun) > 0}, nil
}

// asked returns the write with the review of a client's operation.
func (r *Registry) asked(w write, op upstream.Operation, o runtime.Object) write {
	w.op, w.options = op, o
	w.review = admission.ReviewOf(r.plugins, admission.Request{Target: w.target, Operation: op, Options: o, DryRun: w.dryRun})
	return w
}

// managedBy returns the write that records manager as the manager of the fields that change.
func (w write) managedBy(manager string) write {
	w.manages, w.manager = true, manager
	return w
}

// mayWait reports whether a write may wait for a webhook. It holds nothing meanwhile that
// another write needs.
func (w write) mayWait() bool { return w.waits || w.review.Waits() || mayCall(w.target.Resource) }

// manageFields records who manages the fields that change; old is nil for a creation, whose
// managedFields it may return as JSON, to be encoded with it, instead of putting them into u.
func (r *Registry) manageFields(w write, u, old *unstructured.Unstructured) (managed []byte, err error) {
	if !w.manages {
		return nil, nil
	}
	managed, err = r.fields.Update(w.target, u, old, w.manager)
	if err != nil || !w.review.Waits() {
		return managed, err
	}
	return nil, strategy.PutManaged(u, managed) // these plugins see them
}

// hide removes from a new object what plugins do not see of it; nil is nothing, if no plugin is
// asked.
func (w write) hide(u *unstructured.Unstructured) *strategy.Given {
	if !w.review.Asks() {
		return nil
	}
	return strategy.Hide(w.review.Target, u)
}

// mutated looks at an object as plugins, or a patch, have made it: owner references that stand
// twice in it go, with a warning. It stops the write of a client that has left.
func mutated(ctx context.Context, u *unstructured.Unstructured) error {
	warn(ctx, strategy.UniqueOwners(u, strategy.Admitted))
	return context.Cause(ctx)
}

// decision is what a write does to the object that it found.
type decision struct {
	value  []byte // the new stored form; nil when nothing is written
	remove bool   // the object is removed
	// marks says that the object is marked as being deleted: then it stays until it is removed, also where
	// others of its kind expire (apiserver registry/generic/registry store.go updateForGracefulDeletionAndFinalizers).
	marks bool
	// after is the form that the answer shows when the object is removed; nil: the object
	// that was found.
	after []byte
	// end ends what the decision holds until it is committed or given up; nil: it holds nothing.
	end func()
	// became get, in order, what has become of the write: who reserved something for it.
	became []func(admission.Outcome)
}

// release ends what a decision holds, of which o has become.
func (d decision) release(o admission.Outcome) {
	if d.end != nil {
		d.end()
	}
	for _, tell := range d.became {
		tell(o)
	}
}

// outcome is what a write has done.
type outcome struct {
	object  *wire.Object // the new state; the last state when it was removed
	removed bool
}

// commit does what was decided on the current object, waits until every reader can see it, and
// ends the decision. Errors: *store.ConflictError when the object has changed meanwhile; others are
// for the client.
func (r *Registry) commit(ctx context.Context, w write, current *wire.Object, d decision) (outcome, error) {
	became := admission.Refused
	defer func() { d.release(became) }()
	if !d.remove && d.value == nil {
		rewrite, err := r.mustRewrite(ctx, w, current)
		if err != nil || !rewrite {
			return outcome{object: current}, err
		}
		d.value = current.Value()
	}
	found := int64(current.ResourceVersion())
	txn := store.Txn{
		Key: w.cached.Key(current.Key()), Value: d.value, Delete: d.remove, ExpectedModRevision: found, Lasting: d.marks,
	}
	last := current
	if d.remove && d.after != nil {
		var err error
		if last, err = w.cached.Object(txn.Key, d.after, found); err != nil {
			return outcome{}, wire.Internal(err)
		}
	}
	if w.dryRun {
		if d.remove {
			return outcome{object: last, removed: true}, nil
		}
		o, err := w.cached.Object(txn.Key, d.value, found)
		return outcome{object: o}, err
	}
	done, err := w.send(ctx, txn, &became)
	if err != nil {
		return outcome{}, stored.Failure(err)
	}
	if err := w.published(ctx, done); err != nil {
		return outcome{}, err
	}
	became = admission.Stored
	if d.remove {
		r.giveBack(ctx, w, current)
		if d.after == nil && w.target.Resource.ReturnDeleted {
			// A deletion is answered under its own version (etcd3 store.conditionalDelete).
			last = last.WithResourceVersion(kube.ResourceVersion(done.Revision))
		}
		return outcome{last, true}, nil
	}
	o, err := written(w.cached, current.Key(), d.value, done.Revision)
	return outcome{object: o}, err
}

// send commits a transaction, and says what has become of it, which is Refused before. It sends nothing for a client that
// has left: whether that was written would not be known.
func (w write) send(ctx context.Context, txn store.Txn, became *admission.Outcome) (store.Committed, error) {
	if err := context.Cause(ctx); err != nil {
		return store.Committed{}, err
	}
	*became = admission.Doubtful // also if it panics
	ctx, span := tracing.Start(ctx, "Store: commit")
	done, err := w.cached.Commit(ctx, txn)
	span.End(err)
	*became = outcomeOf(err)
	w.tell(done, err)
	return done, err
}

// tell says who asks for it what was committed, unless that has failed.
func (w write) tell(done store.Committed, err error) {
	if err == nil && w.target.Wrote != nil {
		w.target.Wrote(done.Revision)
	}
}

// published waits until every reader sees what was committed.
func (w write) published(ctx context.Context, done store.Committed) error {
	ctx, span := tracing.Start(ctx, "Wait until published")
	err := w.cached.WaitFollowed(ctx, done.Revision)
	span.End(err)
	return err
}

// written returns the object of a write: the cache's, unless that is newer already.
func written(cached *caches.Resource, key wire.Key, value []byte, revision int64) (*wire.Object, error) {
	if o, found := cached.Cache.Snapshot().Get(key); found && int64(o.ResourceVersion()) == revision {
		return o, nil
	}
	o, err := cached.Object(cached.Key(key), value, revision)
	if err != nil {
		return nil, wire.Internal(err)
	}
	return o, nil
}

// mustRewrite reports whether a write that changes nothing is to be written all the same:
// upstream's etcd3 store does it for values that are encrypted with an old key.
func (r *Registry) mustRewrite(ctx context.Context, w write, current *wire.Object) (bool, error) {
	if r.stale == nil || w.dryRun || current == nil {
		return false, nil
	}
	stale, err := r.stale(ctx, w.cached.Key(current.Key()), int64(current.ResourceVersion()))
	if err != nil {
		return false, stored.Failure(err)
	}
	return stale, nil
}
