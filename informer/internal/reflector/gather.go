package reflector

import (
	"runtime"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/transition"
)

const (
	// parcelItems and parcelBytes bound a parcel: large enough that passing it to a worker
	// costs little, small enough that the parcels need little memory.
	parcelItems = 64
	parcelBytes = 256 << 10
)

// gatherer decodes the objects of a whole state that is being read, concurrently if the
// source allows it, and adds them in the order of the list. It belongs to the goroutine of
// Run, and nothing else changes the cache meanwhile.
type gatherer[T handle.Object] struct {
	*Reflector[T]
	g      *state.Gathering[T]
	others int // objects outside the collection
	filled *parcel[T]
	open   []*parcel[T] // oldest first
	free   []*parcel[T]
}

// parcel is a batch of objects for a worker, and the results.
type parcel[T handle.Object] struct {
	raw  []byte // the objects, concatenated
	ends []int
	out  []gathered[T]
	done chan struct{} // of one turn: the worker sends once
}

// gathered is the result for one object.
type gathered[T handle.Object] struct {
	other  bool // it is outside the collection
	kept   bool // the cache has this version already, under key
	key    handle.Key
	object handle.Handle[T]
	err    error
}

func (r *Reflector[T]) newGatherer(s transition.State) *gatherer[T] {
	g := &gatherer[T]{Reflector: r, g: state.NewGathering[T]()}
	g.g.Anew = s.Anew
	return g
}

// found is how many different objects were found so far.
func (c *gatherer[T]) found() int { return c.g.Known() + c.others }

// take adds one object, perhaps later. It keeps raw only if the source does not lend it.
// fresh says that a new object was added: this or an earlier one.
func (c *gatherer[T]) take(raw []byte) (fresh bool) {
	if !c.source.Lends {
		return c.apply(raw, c.look(raw))
	}
	if c.filled == nil {
		c.filled = c.empty()
	}
	p := c.filled
	p.raw = append(p.raw, raw...)
	p.ends = append(p.ends, len(p.raw))
	if len(p.ends) >= parcelItems || len(p.raw) >= parcelBytes {
		return c.send()
	}
	return false
}

func (c *gatherer[T]) empty() *parcel[T] {
	if n := len(c.free); n > 0 {
		p := c.free[n-1]
		c.free = c.free[:n-1]
		return p
	}
	return &parcel[T]{done: make(chan struct{}, 1)}
}

// send passes the full parcel to a worker, and receives the parcels that are ready, or
// waits for some if too many are open.
func (c *gatherer[T]) send() (fresh bool) {
	p := c.filled
	c.filled = nil
	c.open = append(c.open, p)
	// take and drain receive what it sends; there is room for it in any case.
	go func() {
		c.work(p)
		p.done <- struct{}{}
	}()
	for len(c.open) > 0 {
		if len(c.open) <= runtime.GOMAXPROCS(0) {
			select {
			case <-c.open[0].done:
			default:
				return fresh
			}
		} else {
			<-c.open[0].done
		}
		fresh = c.receive() || fresh
	}
	return fresh
}

// drain waits until everything is added.
func (c *gatherer[T]) drain() (fresh bool) {
	if c.filled != nil {
		c.work(c.filled)
		c.filled.done <- struct{}{}
		c.open = append(c.open, c.filled)
		c.filled = nil
	}
	for len(c.open) > 0 {
		<-c.open[0].done
		fresh = c.receive() || fresh
	}
	return fresh
}

// work decodes each object of a parcel. It only reads the cache.
func (c *gatherer[T]) work(p *parcel[T]) {
	begin := 0
	for _, end := range p.ends {
		p.out = append(p.out, c.look(p.raw[begin:end:end]))
		begin = end
	}
}

// receive adds the objects of the oldest parcel.
func (c *gatherer[T]) receive() (fresh bool) {
	p := c.open[0]
	c.open = c.open[1:]
	begin := 0
	for n, end := range p.ends {
		fresh = c.apply(p.raw[begin:end:end], p.out[n]) || fresh
		begin = end
	}
	clear(p.out)
	p.raw, p.ends, p.out = p.raw[:0], p.ends[:0], p.out[:0]
	c.free = append(c.free, p)
	return fresh
}

// look decodes an object, unless the cache has this version.
func (c *gatherer[T]) look(raw []byte) gathered[T] {
	if c.keeper.Tree.Len() > 0 || c.source.Wants != nil {
		meta, err := client.MetaOf(raw)
		switch {
		case err != nil:
		case !c.wanted(meta):
			return gathered[T]{other: true}
		default:
			if e, has := c.keeper.Has(meta); has && !c.g.Anew {
				return gathered[T]{kept: true, key: e.Key, object: e.Object}
			}
		}
	}
	object, err := c.decode(raw)
	return gathered[T]{object: object, err: err}
}

// apply adds a decoded object. fresh says that it is new.
func (c *gatherer[T]) apply(raw []byte, found gathered[T]) (fresh bool) {
	before := c.g.Len()
	switch {
	case found.other:
		c.others++
	case found.kept:
		c.g.Keep(state.Entry[T]{Key: found.key, Object: found.object})
	case found.err != nil:
		if meta := c.unreadable(raw, found.err); meta.Name != "" {
			c.g.Unreadable(&c.keeper, meta)
		}
		return false
	default:
		c.g.Put(found.object)
	}
	return c.g.Len() > before
}
