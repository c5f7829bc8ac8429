package load

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/linear"
	"github.com/gapless-io/gapless/conformance/crash/program"
	"github.com/gapless-io/gapless/conformance/crash/record"
)

const (
	// registerKeys and registerClients bound how many operations meet on one key,
	// and with it how long a history takes to check.
	registerKeys    = 4
	registerClients = 3 * registerKeys
	registerPause   = 20 * time.Millisecond
)

// Register is the clients whose operations are checked for linearizability. Each
// key is used by three clients, and for one epoch.
type Register struct {
	l *Load

	mu sync.Mutex
	// mu guards what follows.
	epoch int
	next  int // the next number of a client
	ops   []linear.Op
	known map[record.Key]known
}

// known is a version of an object that a client has seen.
type known struct{ rv, id int64 }

func newRegister(l *Load) *Register {
	return &Register{l: l, next: registerClients, known: map[record.Key]known{}}
}

func (r *Register) key(i int) record.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	return record.Key{Resource: configMaps, Namespace: linearSpace, Name: fmt.Sprintf("r%d-%d", r.epoch, i%registerKeys)}
}

// run is one client. After an operation without an answer it continues as
// another client, because the operation may still take effect.
func (r *Register) run(ctx context.Context, i int, random *rand.Rand, c *program.Client) {
	name := i
	for r.l.gate.enter(ctx) == nil {
		k := r.key(i)
		var op linear.Op
		if random.IntN(100) < 40 {
			op = r.get(ctx, k, c)
		} else {
			op = r.write(ctx, k, random, c)
		}
		op.Client = name
		pause := between(random, max(registerPause, r.l.cfg.Calm))
		r.mu.Lock()
		if op.Result != "" {
			r.ops = append(r.ops, op)
		}
		if op.Result == linear.OK && op.RV != 0 {
			r.known[k] = known{op.RV, op.Value}
		}
		switch op.Result {
		case linear.Unknown:
			name, pause = r.next, retry
			r.next++
		case "":
			pause = retry
		case linear.OK, linear.Exists, linear.Conflict, linear.NotFound:
		}
		r.mu.Unlock()
		r.l.gate.leave()
		if !wait(ctx, pause) {
			return
		}
	}
}

// get returns an Op without a Result if there was no server.
func (r *Register) get(ctx context.Context, k record.Key, c *program.Client) linear.Op {
	op := linear.Op{Key: k.Name, Kind: linear.Get, Call: int64(r.l.record.Now())}
	a := c.Do(ctx, http.MethodGet, pathOf(scopeOf(k))+"/"+k.Name, nil)
	op.Return = int64(r.l.record.Now())
	var w wire
	switch {
	case a.Unsent:
	case a.Code == http.StatusNotFound:
		op.Result = linear.NotFound
	case a.Code == http.StatusOK && json.Unmarshal(a.Body, &w) == nil:
		v := w.version(k.Resource)
		r.l.record.Versions("a GET", v)
		op.Result, op.RV, op.Value = linear.OK, v.RV, v.ID
	default:
		op.Result, op.Return = linear.Unknown, 0
		r.l.unexpected("GET "+k.String(), a)
	}
	return op
}

// write returns an Op without a Result if there was no server.
func (r *Register) write(ctx context.Context, k record.Key, random *rand.Rand, c *program.Client) linear.Op {
	r.mu.Lock()
	last := r.known[k]
	r.mu.Unlock()
	want := record.Attempt{Key: k, Size: 100, If: last.rv}
	op := linear.Op{Key: k.Name}
	switch n := random.IntN(12); {
	case n < 3 || last.rv == 0:
		want.Kind, op.Kind = record.Create, linear.Create
	case n < 7:
		want.Kind, op.Kind = record.Update, linear.Update
	case n < 8:
		want.Kind, op.Kind = record.Replace, linear.Replace
	case n < 9:
		want.Kind, op.Kind = record.Patch, linear.Replace
	case n < 11:
		want.Kind, op.Kind = record.DeleteIf, linear.DeleteIf
	default:
		want.Kind, op.Kind = record.Delete, linear.Delete
	}
	if op.Kind == linear.Update || op.Kind == linear.DeleteIf {
		op.If, op.IfValue = last.rv, last.id
	} else {
		want.If = 0
	}
	op.Call = int64(r.l.record.Now())
	a, answer := r.l.attempt(ctx, c, want)
	op.Return = int64(r.l.record.Now())
	if !want.Kind.Deletes() {
		op.Value = a.ID
	}
	reason := answer.Status().Reason
	switch {
	case answer.Unsent: // nothing happened
	case answer.Code == http.StatusTooManyRequests || answer.Code == http.StatusServiceUnavailable: // neither
	case answer.Code == http.StatusOK || answer.Code == http.StatusCreated:
		op.Result = linear.OK
		if !want.Kind.Deletes() {
			op.RV = a.RV
		}
	case answer.Code == http.StatusNotFound:
		op.Result = linear.NotFound
	case reason == "AlreadyExists":
		op.Result = linear.Exists
	case reason == "Conflict":
		op.Result = linear.Conflict
	default:
		op.Result, op.Return = linear.Unknown, 0
	}
	return op
}

// Killed notes that no server runs: what got no answer has taken effect, or never
// will. A check may otherwise have to try all orders of the writes of several kills.
func (r *Register) Killed() {
	now := int64(r.l.record.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ops {
		if op := &r.ops[i]; op.Result == linear.Unknown && op.Return == 0 {
			op.Return = now
		}
	}
}

// End ends an epoch, while the load is held: it reads every key a last time,
// removes it, and returns the history.
func (r *Register) End(ctx context.Context) []linear.Op {
	for i := range registerKeys {
		k := r.key(i)
		op := r.get(ctx, k, r.l.clients[0])
		r.mu.Lock()
		op.Client = r.next
		r.next++
		r.ops = append(r.ops, op)
		r.mu.Unlock()
		if op.Result == linear.OK {
			// whether it is gone, the record checks
			_, _ = r.l.attempt(ctx, r.l.clients[0], record.Attempt{Key: k, Kind: record.Delete})
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := r.ops
	r.ops, r.next = nil, registerClients
	r.epoch++
	clear(r.known)
	return ops
}
