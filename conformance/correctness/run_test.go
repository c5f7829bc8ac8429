package correctness_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/testing/correctness"

	"github.com/gapless-io/gapless/conformance/upstream"
)

// run is a server under random load from which everything is recorded.
type run struct {
	storage *upstream.Storage
	config  upstream.Config
	history history

	// gate is held for reading by who writes or compacts, and for writing by who
	// opens the store again: so that the outcome of every write is known.
	gate     sync.RWMutex
	acked    atomic.Uint64 // the highest resourceVersion that a write was answered with
	marked   atomic.Uint64 // the highest up to which a compaction was asked for
	openings atomic.Int64
	writes   atomic.Int64 // how many writes there will still be
	unique   atomic.Int64

	// What the compactor has done, including in stores that were closed.
	compactions, restarts int
	historyReads          int64
}

// dice makes the choices of one actor.
type dice struct{ *rand.Rand }

func newDice(seed uint64, actor int) dice { return dice{rand.New(rand.NewPCG(seed, uint64(actor)))} }

func (d dice) oneOf(choices ...string) string { return choices[d.IntN(len(choices))] }

// key is that of one of few pods, so that they are written often. One namespace
// sorts before another that it begins with.
func (d dice) key() (key, namespace, name string) {
	namespace, name = d.oneOf("a", "a-b", "b"), "p"+strconv.Itoa(d.IntN(9))
	return "/pods/" + namespace + "/" + name, namespace, name
}

// scope is the key of a list or a watch: all pods, a namespace, or one pod.
func (d dice) scope() (key string, recursive bool) {
	switch d.IntN(4) {
	case 0:
		return "/pods/", true
	case 1:
		key, _, _ := d.key()
		return key, false
	}
	return "/pods/" + d.oneOf("a", "a-b", "b"), true
}

// predicate selects everything, or by a label or fields.
func (d dice) predicate() storage.SelectionPredicate {
	p := storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), GetAttrs: attributes}
	switch d.IntN(6) {
	case 0:
		p.Label = labels.SelectorFromSet(labels.Set{"color": d.oneOf("red", "green", "blue")})
	case 1:
		p.Label = labels.NewSelector().Add(must(labels.NewRequirement("color", "notin", []string{"red"})))
	case 2:
		p.Field = fields.OneTermEqualSelector("spec.nodeName", d.oneOf("n1", "n2"))
	case 3:
		p.Field = fields.ParseSelectorOrDie("metadata.namespace=" + d.oneOf("a", "a-b") + ",spec.nodeName!=n1")
	}
	return p
}

func attributes(o runtime.Object) (labels.Set, fields.Set, error) {
	pod, is := o.(*example.Pod)
	if !is {
		return nil, nil, fmt.Errorf("%T is no pod", o)
	}
	return pod.Labels, fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName,
	}, nil
}

func must(r *labels.Requirement, err error) labels.Requirement {
	if err != nil {
		panic(err)
	}
	return *r
}

// past is a resourceVersion that was there: a recent one, an older one that memory
// may not have, or one of long ago that may be forgotten.
func (d dice) past(acked uint64) uint64 {
	reach := []uint64{30, 30, 300, 300, 300, math.MaxUint64}[d.IntN(6)]
	return acked - d.Uint64N(min(acked, reach))
}

// writer writes until there have been enough writes.
func (r *run) writer(ctx context.Context, d dice) error {
	for r.writes.Add(-1) >= 0 {
		if err := r.write(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// write is one random write that is recorded when it has succeeded.
func (r *run) write(ctx context.Context, d dice) error {
	r.gate.RLock()
	defer r.gate.RUnlock()
	key, namespace, name := d.key()
	op := correctness.Operation{Request: correctness.Request{Key: key}}
	out := &example.Pod{}
	var err error
	begin := time.Now()
	switch d.IntN(10) {
	case 0:
		return r.writeOther(ctx)
	case 1, 2:
		op.Request.Op = correctness.OpDelete
		op.Request.Delete.Preconditions = r.condition(ctx, d, key)
		err = r.storage.Delete(ctx, key, out, op.Request.Delete.Preconditions, storage.ValidateAllObjectFunc, nil,
			storage.DeleteOptions{})
	case 3, 4:
		op.Request.Op = correctness.OpCreate
		pod := &example.Pod{
			Namespace: namespace, Name: name, UID: types.UID(strconv.FormatInt(r.unique.Add(1), 10)),
			Labels: map[string]string{"color": d.oneOf("red", "green", "blue")},
		}
		op.Request.Create.Object = pod
		err = r.storage.Create(ctx, key, pod, out, 0)
	default:
		op.Request.Op = correctness.OpUpdate
		op.Request.Update = correctness.UpdateRequest{IgnoreNotFound: d.IntN(3) == 0, UpdateFunc: r.change(d, namespace, name)}
		if !op.Request.Update.IgnoreNotFound {
			op.Request.Update.Preconditions = r.condition(ctx, d, key)
		}
		u := op.Request.Update
		err = r.storage.GuaranteedUpdate(ctx, key, out, u.IgnoreNotFound, u.Preconditions, u.UpdateFunc, nil)
	}
	switch {
	case storage.IsNotFound(err), storage.IsExist(err), storage.IsInvalidObj(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s %s: %w", op.Request.Op, key, err)
	}
	op.Response.Object, op.Start, op.End = out, begin, time.Now()
	return r.acknowledge(op, out.ResourceVersion)
}

// change returns an update that does the same to the same pod whenever it is
// called, and that no other makes.
func (r *run) change(d dice, namespace, name string) storage.UpdateFunc {
	color, node, generation := d.oneOf("red", "green", "blue"), d.oneOf("", "n1", "n2"), r.unique.Add(1)
	return storage.SimpleUpdate(func(o runtime.Object) (runtime.Object, error) {
		pod, is := o.DeepCopyObject().(*example.Pod)
		if !is {
			return nil, fmt.Errorf("%T is no pod", o)
		}
		pod.Namespace, pod.Name, pod.Generation, pod.Spec.NodeName = namespace, name, generation, node
		pod.Labels = map[string]string{"color": color}
		return pod, nil
	})
}

// condition is sometimes that the pod is as it was just now.
func (r *run) condition(ctx context.Context, d dice, key string) *storage.Preconditions {
	pod := &example.Pod{}
	if d.IntN(3) > 0 || r.storage.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, pod) != nil {
		return &storage.Preconditions{}
	}
	return &storage.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
}

// writeOther writes to another resource. In upstream's model it is an object
// that no client reads.
func (r *run) writeOther(ctx context.Context) error {
	op := correctness.Operation{Start: time.Now()}
	revision, err := r.storage.Server().WriteOther(ctx)
	if err != nil {
		return err
	}
	rv := strconv.FormatInt(revision, 10)
	pod := &example.Pod{Name: rv}
	op.Request = correctness.Request{
		Op: correctness.OpCreate, Key: "/others/" + rv, Create: correctness.CreateRequest{Object: pod.DeepCopy()},
	}
	pod.ResourceVersion = rv
	op.Response.Object, op.End = pod, time.Now()
	return r.acknowledge(op, rv)
}

// acknowledge records a write that was answered.
func (r *run) acknowledge(op correctness.Operation, text string) error {
	rv, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("resourceVersion of a write: %w", err)
	}
	r.history.wrote(rv, op)
	raise(&r.acked, rv)
	return nil
}

func raise(v *atomic.Uint64, to uint64) {
	for {
		was := v.Load()
		if was >= to || v.CompareAndSwap(was, to) {
			return
		}
	}
}

// compactor compacts now and then, and opens the store again, until ctx ends.
func (r *run) compactor(ctx context.Context, d dice, every time.Duration) error {
	for turn := 1; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		work := r.compact
		if turn%6 == 0 {
			work = r.reopen
		}
		if err := work(context.WithoutCancel(ctx), d); err != nil {
			return err
		}
	}
}

func (r *run) compact(ctx context.Context, d dice) error {
	r.gate.RLock()
	defer r.gate.RUnlock()
	acked := r.acked.Load()
	back := 100 + d.Uint64N(400)
	if d.IntN(10) == 0 {
		back = d.Uint64N(100) // so that also what watches are at is forgotten
	}
	if back >= acked {
		return nil
	}
	upTo := acked - back
	raise(&r.marked, upTo)
	r.compactions++
	return r.storage.Server().Compact(ctx, int64(upTo))
}

// reopen closes the store and opens it again, as a restart does.
func (r *run) reopen(ctx context.Context, _ dice) error {
	r.gate.Lock()
	defer r.gate.Unlock()
	r.openings.Add(1) // before and after: see passing
	r.historyReads += r.storage.Server().HistoryReads()
	if err := r.storage.Server().Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	server, err := upstream.Open(ctx, r.config)
	if err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	r.storage.Use(server)
	r.restarts++
	r.openings.Add(1)
	return nil
}
