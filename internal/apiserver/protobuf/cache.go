package protobuf

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

const (
	// cacheBytes bounds the messages that are kept together with the JSON of their objects,
	// which the messages keep alive.
	cacheBytes = 64 << 20
	// entryBytes is what an entry and its object take besides.
	entryBytes = 512
	// keepFor is how long a message is kept after its last use, and at most three times as
	// long: long enough for all watches of an event, and for informers that start one after
	// the other.
	keepFor = time.Minute
	// recentSlots is how many events are found without a look-up in a map.
	recentSlots = 256
	// Initial events fill stateBytes of the cache. After that one of admitOne of their
	// messages is kept: states that are read again and again and are together larger than
	// the cache would otherwise evict each message just before it is needed.
	stateBytes = cacheBytes / 8 * 7
	admitOne   = 8
	// secondChances bounds how many messages are spared because they were used, before one
	// is removed.
	secondChances = 8
)

// Form is what of an object a message has.
type Form int

// The forms of messages.
const (
	Whole     Form = iota
	Unmanaged      // without metadata.managedFields
	Metadata
	MetadataUnmanaged
	forms
)

// place says whether a message is of an event or of a state.
type place int

const (
	ofEvent place = iota
	ofState
)

// errUnfinished is what readers get of a message that another one panicked about.
var errUnfinished = errors.New("encode an object as protobuf: it panicked for another reader")

// Cache keeps the messages of objects, for a minute and within 64 MiB, so that an object is
// encoded once for all watches. Its zero value is empty and ready. It is safe for concurrent
// use.
type Cache struct {
	// entries has *entry by *wire.Object; one map for each form, so that a look-up
	// allocates nothing.
	entries [forms]sync.Map
	// recent are entries of the last events, by their resourceVersions. They are in entries
	// too.
	recent [recentSlots]atomic.Pointer[entry]
	// second is the Unix time when a message was kept last, or when expire ran. It is the
	// time of a use: asking for the time would cost as much as all else of a look-up.
	second atomic.Int64

	// mu guards what follows.
	mu      sync.Mutex
	order   list.List // of *entry, in the order of removal
	bytes   int64
	refused int  // messages that were not kept since the last that was
	ticking bool // expire will be called
}

// entry is one message. The other fields are set before ready is.
type entry struct {
	object  *wire.Object
	form    Form
	making  sync.Mutex // held by who encodes
	ready   atomic.Bool
	message []byte
	err     error
	used    atomic.Int64 // Cache.second when it was used last
	queued  int64        // used, when it got its place in the order; guarded by Cache.mu
}

func (e *entry) bytes() int64 { return int64(len(e.message)+e.object.Size()) + entryBytes }

// Event returns the message of an object that changed, which must not be modified. Unless
// the cache has it, encode makes it, and others who want it at the same time wait for that.
func (c *Cache) Event(o *wire.Object, form Form, encode func() ([]byte, error)) ([]byte, error) {
	if known := c.find(o, form); known != nil {
		return known.wait()
	}
	return c.add(o, form, ofEvent, encode)
}

// add is Event for an object that was not found.
func (c *Cache) add(o *wire.Object, form Form, as place, encode func() ([]byte, error)) ([]byte, error) {
	made := &entry{object: o, form: form, err: errUnfinished}
	made.used.Store(c.second.Load())
	made.making.Lock()
	if other, loaded := c.entries[form].LoadOrStore(o, made); loaded {
		made.making.Unlock()
		return other.(*entry).wait() //nolint:forcetypeassert // the map holds nothing else
	}
	if as == ofEvent {
		c.slot(o, form).Store(made)
	}
	defer func() { // also after a panic
		made.ready.Store(true)
		made.making.Unlock()
		c.keep(made)
	}()
	made.message, made.err = encode()
	return made.message, made.err
}

// slot is where the entry of an object is in recent.
func (c *Cache) slot(o *wire.Object, form Form) *atomic.Pointer[entry] {
	return &c.recent[(uint64(o.ResourceVersion())^uint64(form)<<6)%recentSlots]
}

// State is Event for an object of an initial state, of which a full cache keeps only a part.
func (c *Cache) State(o *wire.Object, form Form, encode func() ([]byte, error)) ([]byte, error) {
	if known := c.find(o, form); known != nil {
		return known.wait()
	}
	if !c.admits() {
		return encode()
	}
	return c.add(o, form, ofState, encode)
}

// Find returns the message of an object if the cache has it, or nil.
func (c *Cache) Find(o *wire.Object, form Form) []byte {
	known := c.find(o, form)
	if known == nil {
		return nil
	}
	message, err := known.wait()
	if err != nil {
		return nil
	}
	return message
}

// Bytes returns how much the cache holds.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// find returns the entry of an object, nil if there is none, and notes that it is used.
func (c *Cache) find(o *wire.Object, form Form) *entry {
	e := c.slot(o, form).Load()
	if e == nil || e.object != o || e.form != form {
		v, found := c.entries[form].Load(o)
		if !found {
			return nil
		}
		e = v.(*entry) //nolint:forcetypeassert // the map holds nothing else
	}
	if now := c.second.Load(); e.used.Load() != now {
		e.used.Store(now)
	}
	return e
}

// wait returns the message when it is made.
func (e *entry) wait() ([]byte, error) {
	if !e.ready.Load() {
		e.making.Lock()
		e.making.Unlock() //nolint:staticcheck // who held it has made the message
	}
	return e.message, e.err
}

// admits reports whether the message of an initial state is kept.
func (c *Cache) admits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes < stateBytes {
		return true
	}
	c.refused = (c.refused + 1) % admitOne
	return c.refused == 0
}

// keep gives an entry its place in the order, and makes room for it.
func (c *Cache) keep(made *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().Unix()
	c.second.Store(now)
	made.used.Store(now)
	made.queued = now
	c.order.PushBack(made)
	c.bytes += made.bytes()
	for spared := 0; c.bytes > cacheBytes; {
		first := c.order.Front()
		e := first.Value.(*entry) //nolint:forcetypeassert // the list holds nothing else
		if used := e.used.Load(); used > e.queued && spared < secondChances {
			e.queued = used
			spared++
			c.order.MoveToBack(first)
			continue
		}
		c.removeLocked(first)
	}
	if !c.ticking {
		c.ticking = true
		time.AfterFunc(keepFor, c.expire)
	}
}

// expire removes what was not used for keepFor. It is called again until the cache is empty.
func (c *Cache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	least := now.Add(-keepFor).Unix()
	last := c.second.Swap(now.Unix())
	for at := c.order.Front(); at != nil; {
		next := at.Next()
		e := at.Value.(*entry) //nolint:forcetypeassert // the list holds nothing else
		switch used := e.used.Load(); {
		case used > least:
		case used == last: // or later: the time was not asked for since
			e.used.Store(now.Unix() - 1)
		default:
			c.removeLocked(at)
		}
		at = next
	}
	if c.ticking = c.order.Len() > 0; c.ticking {
		time.AfterFunc(keepFor, c.expire)
	}
}

func (c *Cache) removeLocked(at *list.Element) {
	e := c.order.Remove(at).(*entry) //nolint:forcetypeassert // the list holds nothing else
	c.entries[e.form].Delete(e.object)
	c.slot(e.object, e.form).CompareAndSwap(e, nil)
	c.bytes -= e.bytes()
}
