package informer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

// addRandomHandler adds a handler of some kind, with some options, that fails now
// and then, and returns what it records.
func addRandomHandler(t *testing.T, i *informer.Informer[*thing], rng *rand.Rand, n int) *recorder {
	rec := newRecorder()
	rec.name, rec.stop = fmt.Sprint("handler ", n), func() {}
	failures := rng.IntN(4) // in ten calls
	rec.slow = time.Duration(rng.IntN(500)) * time.Millisecond
	calls := rng.IntN(10)
	rec.fail = func(event) error {
		rec.mu.Lock()
		calls++
		verdict := calls * 7919 % 10
		rec.mu.Unlock()
		if verdict < failures {
			if verdict == 1 {
				panic("oh")
			}
			return errNo
		}
		return nil
	}
	opts := append(rec.randomOptions(rng), informer.Name(rec.name))
	switch rng.IntN(6) {
	case 0:
		rec.name += " of keys"
		reg := i.Reconcile(func(ctx context.Context, k informer.Key) error {
			return rec.reconcile(ctx, i, k)
		}, opts...)
		rec.enqueueAtRandom(t, rng, reg)
	case 1:
		rec.name += " that pulls"
		rec.fail = nil
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		rec.stop = func() { cancel(); <-ended }
		go func() { // ends with stop
			defer close(ended)
			for e := range i.Events(ctx, opts...) {
				rec.enter(e)
				select {
				case <-time.After(rec.slow):
				case <-ctx.Done():
				}
				rec.leave(e, nil)
			}
		}()
	default:
		rec.enqueueAtRandom(t, rng, i.Handle(rec.handle, opts...))
	}
	return rec
}

// randomOptions returns random options and adapts the recorder to them.
func (r *recorder) randomOptions(rng *rand.Rand) []informer.HandleOption {
	opts := []informer.HandleOption{informer.Workers(1 + rng.IntN(3)), informer.Retry(time.Second, 10*time.Second, 0)}
	if rng.IntN(3) == 0 {
		r.asked = true
		opts = append(opts, informer.EveryResync(time.Duration(1+rng.IntN(300))*time.Second))
	}
	if rng.IntN(3) == 0 {
		full := []informer.Policy{informer.Block, informer.Merge}[rng.IntN(2)]
		opts = append(opts, informer.Every(1+rng.IntN(50), full))
		r.name += fmt.Sprint(" every ", full)
	}
	if rng.IntN(3) == 0 {
		r.where = func(o *thing) bool { return o.Value%3 != 0 }
		opts = append(opts, informer.Where(r.where))
		r.name += " where"
	}
	if rng.IntN(3) == 0 {
		r.field = func(o *thing) int { return o.Value % 2 }
		opts = append(opts, informer.Changed(r.field))
		r.name += " changed"
	}
	if rng.IntN(6) == 0 {
		r.skipped = true
		opts = append(opts, informer.SkipInitial())
		r.name += " skip"
	}
	return opts
}

// enqueueAtRandom calls Enqueue for random keys at random times.
func (r *recorder) enqueueAtRandom(t *testing.T, rng *rand.Rand, reg *informer.Registration) {
	if rng.IntN(3) != 0 {
		return
	}
	r.asked = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	r.stop = func() { cancel(); <-ended }
	own := rand.New(rand.NewPCG(rng.Uint64(), 3))
	go func() { // ends with stop
		defer close(ended)
		for ctx.Err() == nil {
			select {
			case <-time.After(time.Duration(own.IntN(5000)) * time.Millisecond):
			case <-ctx.Done():
			}
			reg.Enqueue(key(fmt.Sprint("o", own.IntN(45))))
			if reg.Lag() < 0 {
				t.Error("a negative lag")
			}
		}
	}()
}

// reconcile records the cached object as handled. It is never older than before.
func (r *recorder) reconcile(ctx context.Context, i *informer.Informer[*thing], k informer.Key) error {
	e := event{Key: k}
	r.mu.Lock()
	if r.busy[k] {
		r.problem(e, "two calls for one key at once")
	}
	r.busy[k] = true
	now, is := i.Get(k)
	if is {
		e.RV = now.ResourceVersion
		rv, _ := strconv.Atoi(e.RV)
		if rv < r.newest[k] && !r.rewinds {
			r.problem(e, "older than %d, which was seen before", r.newest[k])
		}
		r.newest[k] = rv
	}
	r.mu.Unlock()
	select {
	case <-time.After(r.slow):
	case <-ctx.Done():
	}
	err := ctx.Err()
	if err == nil {
		err = r.guard(e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, k)
	switch {
	case err != nil:
	case !is || r.where != nil && !r.where(now):
		delete(r.handled, k)
	default:
		r.handled[k] = now
	}
	return err
}

// guard turns a panic into an error, so that the recorder sees the end of the call.
func (r *recorder) guard(e event) (err error) {
	defer func() {
		if recover() != nil {
			err = errNo
		}
	}()
	return r.fail(e)
}

// missing compares what the handler has handled with want. A handler with SkipInitial may
// have fewer objects.
func (r *recorder) missing(want map[informer.Key]*thing) string {
	know, handled := map[string]string{}, map[string]string{}
	look := digest
	if r.field != nil {
		look = func(o *thing) string { return fmt.Sprint(o.UID, " field ", r.field(o)) }
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, o := range want {
		if r.where == nil || r.where(o) {
			know[k.String()] = look(o)
		}
	}
	for k, o := range r.handled {
		handled[k.String()] = look(o)
	}
	for name := range know {
		if _, is := handled[name]; r.skipped && !is {
			delete(know, name)
		}
	}
	return cmp.Diff(know, handled)
}
