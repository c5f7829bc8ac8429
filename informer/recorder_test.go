package informer_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/informer"
)

type event = informer.Event[*thing]

// recorder is a handler that records its events and checks the guarantees for one key: no
// change twice, versions in order, one call at a time.
type recorder struct {
	fail func(event) error // nil: never
	slow time.Duration     // how long a call takes

	mu       sync.Mutex
	events   []event
	handled  map[informer.Key]*thing // handled last
	newest   map[informer.Key]int    // largest RV of its events
	busy     map[informer.Key]bool
	problems []string
	rewinds  bool // the server's history may go back

	where   func(*thing) bool // the handler's filter
	field   func(*thing) int  // the value that its filter compares; nil: all
	skipped bool              // it has the option SkipInitial
	asked   bool              // it gets unchanged objects too, by resync or Enqueue
	name    string
	stop    func()
	owes    map[informer.Key]bool
}

func newRecorder() *recorder {
	return &recorder{
		handled: map[informer.Key]*thing{}, newest: map[informer.Key]int{}, busy: map[informer.Key]bool{},
		owes: map[informer.Key]bool{},
	}
}

func (r *recorder) handle(ctx context.Context, e event) error {
	r.enter(e)
	select {
	case <-time.After(r.slow):
	case <-ctx.Done():
		r.leave(e, ctx.Err())
		return ctx.Err()
	}
	var err error
	if r.fail != nil {
		defer func() {
			if v := recover(); v != nil {
				r.leave(e, fmt.Errorf("%v", v))
				panic(v)
			}
		}()
		err = r.fail(e)
	}
	r.leave(e, err)
	return err
}

func (r *recorder) problem(e event, format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf("%v %v rv=%s: ", e.Type, e.Key.Name, e.RV)+fmt.Sprintf(format, args...))
}

func (r *recorder) enter(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[e.Key] {
		r.problem(e, "two calls for one key at once")
	}
	r.busy[e.Key] = true
	rv, _ := strconv.Atoi(e.RV)
	if rv < r.newest[e.Key] && !r.rewinds {
		r.problem(e, "older than %d, which came before", r.newest[e.Key])
	}
	r.newest[e.Key] = max(rv, r.newest[e.Key])
	handled := r.handled[e.Key]
	if e.New != nil && r.where != nil && !r.where(e.New) {
		r.problem(e, "%s does not match", digest(e.New))
	}
	if handled == nil && r.skipped && e.Old != nil {
		handled = e.Old // it was there
	}
	switch e.Type {
	case informer.Added:
		if handled != nil {
			r.problem(e, "added, but it was there: %s", digest(handled))
		}
		if e.Old != nil || e.New == nil {
			r.problem(e, "added with old %v, new %v", e.Old, e.New)
		}
	case informer.Modified:
		switch {
		case handled == nil || !r.same(handled, e.Old):
			r.problem(e, "modified, but old is not what was handled last")
		case r.field != nil && r.field(e.Old) == r.field(e.New) && !r.owes[e.Key] && !r.asked:
			r.problem(e, "modified, but not in what the handler looks at")
		case e.Old.UID != e.New.UID:
			r.problem(e, "modified across UIDs")
		case e.Old.ResourceVersion == e.New.ResourceVersion && !r.rewinds:
			r.problem(e, "modified, but nothing changed")
		}
	case informer.Deleted:
		if e.New != nil || e.Old == nil {
			r.problem(e, "deleted with old %v, new %v", e.Old, e.New)
		}
	case informer.Resync:
		if handled == nil && !r.skipped || handled != nil && !r.same(handled, e.New) {
			r.problem(e, "resync of something that is not what was handled last")
		}
	}
}

func (r *recorder) leave(e event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, e.Key)
	r.events = append(r.events, e)
	if err != nil {
		r.owes[e.Key] = true
		return
	}
	delete(r.owes, e.Key)
	if e.Type == informer.Deleted {
		delete(r.handled, e.Key)
	} else {
		r.handled[e.Key] = e.New
	}
}

// same reports whether now is the object handled last, or one that the filter considers
// equal to it.
func (r *recorder) same(handled, now *thing) bool {
	return handled == now || r.field != nil && handled.UID == now.UID && r.field(handled) == r.field(now)
}

func (r *recorder) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]event(nil), r.events...)
}

func (r *recorder) check(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.problems {
		if i == 5 {
			t.Errorf("and %d more", len(r.problems)-i)
			break
		}
		t.Error(p)
	}
}

// state returns what the handler has handled, in the form of server.state.
func (r *recorder) state() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]string{}
	for k, o := range r.handled {
		all[k.Name] = digest(o)
	}
	return all
}

// lines returns the events as one line each.
func (r *recorder) lines() []string {
	var all []string
	for _, e := range r.all() {
		line := fmt.Sprintf("%v %s", e.Type, e.Key.Name)
		if o := e.Object(); o != nil {
			line += " " + strconv.Itoa(o.Value)
		}
		for _, flag := range []struct {
			is   bool
			name string
		}{{e.Initial, "initial"}, {e.Inferred, "inferred"}} {
			if flag.is {
				line += " " + flag.name
			}
		}
		if e.Merged > 0 {
			line += " merged=" + strconv.Itoa(e.Merged)
		}
		all = append(all, line)
	}
	return all
}
