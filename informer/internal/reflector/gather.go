package reflector

import (
	"runtime"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/state"
)

const (
	// parcelItems and parcelBytes bound what a worker gets in one go: enough that
	// handing it over costs nothing, little enough that what is in the air does not
	// count beside the cache.
	parcelItems = 64
	parcelBytes = 256 << 10
)

// gatherer decodes the objects of a whole state that is being read, several at a
// time where the source allows it, and takes them over in the order they came. It
// belongs to the goroutine of Run, and nothing else changes the cache meanwhile.
type gatherer[S state.Object] struct {
	*Reflector[S]
	g      *state.Gathering[S]
	filled *parcel[S]
	open   []*parcel[S] // oldest first
	free   []*parcel[S]
}

// parcel is what a worker gets, and what it makes of it.
type parcel[S state.Object] struct {
	raw  []byte // the objects, one behind the other
	ends []int
	out  []gathered[S]
	done chan struct{} // of one turn: the worker sends once
}

// gathered is what became of one object's JSON.
type gathered[S state.Object] struct {
	foreign bool // it is somebody else's
	kept    bool // the cache has this state of it already, under key
	key     state.Key
	object  S
	err     error
}

func (r *Reflector[S]) newGatherer() *gatherer[S] {
	return &gatherer[S]{Reflector: r, g: state.NewGathering[S]()}
}

// take takes one object. It may keep raw only if the source does not lend it. fresh
// says that an object was taken over that was not there before: this or an earlier one.
func (c *gatherer[S]) take(raw []byte) (fresh bool) {
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

func (c *gatherer[S]) empty() *parcel[S] {
	if n := len(c.free); n > 0 {
		p := c.free[n-1]
		c.free = c.free[:n-1]
		return p
	}
	return &parcel[S]{done: make(chan struct{}, 1)}
}

// send gives away the parcel that is being filled, and takes back what is ready, or
// what is needed so that not too many are under way.
func (c *gatherer[S]) send() (fresh bool) {
	p := c.filled
	c.filled = nil
	c.open = append(c.open, p)
	// take or settle receive what it sends; there is room for it in any case.
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

// settle waits until everything is taken over.
func (c *gatherer[S]) settle() (fresh bool) {
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

// work looks at each object of a parcel. It reads the cache and changes nothing else.
func (c *gatherer[S]) work(p *parcel[S]) {
	begin := 0
	for _, end := range p.ends {
		p.out = append(p.out, c.look(p.raw[begin:end:end]))
		begin = end
	}
}

// receive takes over the oldest parcel.
func (c *gatherer[S]) receive() (fresh bool) {
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

// look decodes an object, unless the cache has it in this state.
func (c *gatherer[S]) look(raw []byte) gathered[S] {
	if c.keeper.Tree.Len() > 0 || c.source.Wants != nil {
		meta, err := client.MetaOf(raw)
		switch {
		case err != nil:
		case !c.wanted(meta):
			return gathered[S]{foreign: true}
		default:
			if e, has := c.keeper.Has(meta); has {
				return gathered[S]{kept: true, key: e.Key, object: e.Object}
			}
		}
	}
	object, err := c.decode(raw)
	return gathered[S]{object: object, err: err}
}

// apply takes over what was found. fresh says that the object was not there before.
func (c *gatherer[S]) apply(raw []byte, found gathered[S]) (fresh bool) {
	before := c.g.Len()
	switch {
	case found.foreign:
	case found.kept:
		c.g.Keep(state.Entry[S]{Key: found.key, Object: found.object})
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
