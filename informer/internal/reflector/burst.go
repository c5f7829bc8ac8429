package reflector

import (
	"runtime"
	"sync"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/kube"
)

const (
	// burstBytes bounds what is kept of events that have arrived together.
	burstBytes = 256 << 10
	// burstShare is how many events are worth a goroutine.
	burstShare = 4
)

// burst is events that have arrived together and are not applied yet: they are decoded concurrently, which is most of what an
// event costs, and applied in order.
type burst[T handle.Object] struct {
	raw    []byte // the objects, concatenated
	events []arrived[T]
}

// arrived is an event of a burst.
type arrived[T handle.Object] struct {
	event  kube.EventType
	raw    [2]int // where in the burst's
	object handle.Handle[T]
	err    error
}

// take applies an event about an object, at once if it came alone, else with those that have arrived behind it.
func (f *follower[T]) take(frame client.Frame) {
	if !f.source.Lends || runtime.GOMAXPROCS(0) == 1 || len(f.events) == 0 && !f.a.Ready() {
		f.applyBurst()
		object, err := f.decodeWanted(frame.Object)
		f.apply(frame, object, err)
		return
	}
	begin := len(f.raw)
	f.raw = append(f.raw, frame.Object...)
	f.events = append(f.events, arrived[T]{event: frame.Type, raw: [2]int{begin, len(f.raw)}})
	if len(f.raw) >= burstBytes {
		f.applyBurst()
	}
}

// applyBurst applies the events that have arrived.
func (f *follower[T]) applyBurst() {
	n := len(f.events)
	if n == 0 {
		return
	}
	var others sync.WaitGroup
	shares := min(runtime.GOMAXPROCS(0), max(n/burstShare, 1))
	for share := 1; share < shares; share++ {
		others.Go(func() { f.decodeShare(n*share/shares, n*(share+1)/shares) })
	}
	f.decodeShare(0, n/shares)
	others.Wait()
	for i := range f.events {
		e := &f.events[i]
		f.apply(client.Frame{Type: e.event, Object: f.at(e)}, e.object, e.err)
	}
	clear(f.events)
	f.events, f.raw = f.events[:0], f.raw[:0]
}

// decodeShare decodes some events of a burst, beside others.
func (f *follower[T]) decodeShare(from, to int) {
	for i := from; i < to; i++ {
		e := &f.events[i]
		e.object, e.err = f.decodeWanted(f.at(e))
	}
}

func (f *follower[T]) at(e *arrived[T]) []byte { return f.raw[e.raw[0]:e.raw[1]:e.raw[1]] }

// decodeWanted decodes an object, unless it is outside the collection: then it returns no object and no error.
func (f *follower[T]) decodeWanted(raw []byte) (object handle.Handle[T], err error) {
	if f.source.Wants != nil {
		if meta, err := client.MetaOf(raw); err == nil && !f.wanted(meta) {
			return object, nil
		}
	}
	return f.decode(raw)
}
