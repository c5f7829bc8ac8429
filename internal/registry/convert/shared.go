package convert

import (
	"context"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// keptBytes bounds the conversions that are kept for other readers, with the objects that
	// they were made of.
	keptBytes = 32 << 20
	// conversionBytes is what a conversion takes beside the bytes of the two objects.
	conversionBytes = 1 << 10
	// keepFor is how long after their last use they are kept.
	keepFor = time.Minute
)

// conversion is one object in one version.
type conversion struct {
	as   *kinds.Resource // of one state of the definition: later ones are other resources
	from *wire.Object    // the very object: another one of the same version may be a dry run's

	done chan struct{} // closed when it is made, has failed, or was given up
	// These are set before done is closed. Both nil: given up.
	object *wire.Object
	err    error
}

// identity is what a conversion is found by.
type identity struct {
	as   *kinds.Resource
	from *wire.Object
}

// shared are the conversions under way and the last ones. The zero value is ready. It is
// safe for concurrent use.
type shared struct {
	// mu guards what follows.
	mu    sync.Mutex
	known map[identity]*conversion
	made  []*conversion // those that are kept, the oldest first
	bytes int           // of made
	used  time.Time
	timed bool // expire will be called
}

// claim returns the conversion of an object. With claimed the caller must make it, and call
// finish or release.
func (s *shared) claim(as *kinds.Resource, from *wire.Object) (v *conversion, claimed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := identity{as, from}
	if v := s.known[at]; v != nil {
		return v, false
	}
	if s.known == nil {
		s.known = map[identity]*conversion{}
	}
	v = &conversion{as: as, from: from, done: make(chan struct{})}
	s.known[at] = v
	return v, true
}

// finish keeps a conversion that is made.
func (s *shared) finish(v *conversion, o *wire.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.object = o
	close(v.done)
	s.made = append(s.made, v)
	s.bytes += v.size()
	for s.bytes > keptBytes {
		s.dropLocked()
	}
	s.used = time.Now()
	if !s.timed {
		s.timed = true
		time.AfterFunc(keepFor, s.expire)
	}
}

// dropLocked forgets the oldest conversion.
func (s *shared) dropLocked() {
	oldest := s.made[0]
	s.made[0] = nil
	s.made = s.made[1:]
	s.bytes -= oldest.size()
	delete(s.known, identity{oldest.as, oldest.from})
}

// expire drops everything when nothing was made for keepFor, or is called again.
func (s *shared) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if left := keepFor - time.Since(s.used); left > 0 {
		time.AfterFunc(left, s.expire)
		return
	}
	for len(s.made) > 0 {
		s.dropLocked()
	}
	s.made, s.timed = nil, false
}

// kept returns how many conversions are kept, and how much memory they take.
func (s *shared) kept() (objects, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.made), s.bytes
}

// release ends a claim without a conversion. Those who wait get err; without one, another
// of them makes the conversion.
func (s *shared) release(v *conversion, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, identity{v.as, v.from})
	v.err = err
	close(v.done)
}

func (v *conversion) size() int { return v.from.Size() + v.object.Size() + conversionBytes }

// convert replaces the objects at some places by their conversions.
func (c *Converter) convert(ctx context.Context, r *kinds.Resource, objects []*wire.Object, places []int) error {
	for len(places) > 0 {
		claimed, all := c.claimAll(r, objects, places)
		if err := c.lead(ctx, r, claimed); err != nil {
			return err
		}
		var again []int
		for i, v := range all {
			select {
			case <-v.done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			switch {
			case v.err != nil:
				return v.err
			case v.object == nil:
				again = append(again, places[i]) // whose client has left
			default:
				objects[places[i]] = v.object
			}
		}
		places = again
	}
	return nil
}

// claimAll returns the conversions of the objects at some places, and those of them that the
// caller has to make.
func (c *Converter) claimAll(r *kinds.Resource, objects []*wire.Object, places []int) (claimed, all []*conversion) {
	for _, i := range places {
		v, mine := c.shared.claim(r, objects[i])
		all = append(all, v)
		if mine {
			claimed = append(claimed, v)
		}
	}
	return claimed, all
}

// lead makes conversions. When that fails, those who wait for them fail in the same way: a
// webhook that hangs is waited for once, and not once by each. When ctx ends it, they do
// not.
func (c *Converter) lead(ctx context.Context, r *kinds.Resource, claimed []*conversion) (err error) {
	defer func() {
		shared := err
		if ctx.Err() != nil {
			shared = nil
		}
		for _, v := range claimed {
			select {
			case <-v.done:
			default:
				c.shared.release(v, shared)
			}
		}
	}()
	if len(claimed) == 0 {
		return nil
	}
	if err := c.make(ctx, r, claimed); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}
