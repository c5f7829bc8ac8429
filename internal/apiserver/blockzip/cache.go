package blockzip

import (
	"container/list"
	"hash/maphash"
	"slices"
	"sync"
	"time"
)

// Parts identify the content of a block: the form of its items, and a number for each
// that identifies a version of an item. Equal parts have equal bytes.
type Parts struct {
	Form  string
	Items []uint64
}

// keepFor is how long a block is kept after its last use: clients that list
// periodically, like kubectl in a loop, do so within minutes.
const keepFor = 5 * time.Minute

// When the cache is full and its least recently used block was used within inUse, one
// block of admitOne takes the place of that one, and the others are not kept. Lists that
// are read again and again and are together larger than the cache would otherwise evict
// each block just before it is needed.
const (
	inUse    = time.Minute
	admitOne = 8
)

// mostBegins is how many blocks that begin with one item Blocks looks at.
const mostBegins = 8

// Cache keeps recently used blocks for some minutes. It is safe for concurrent use.
type Cache struct {
	seed maphash.Seed
	most int64 // bytes
	// beside, if not nil, is another cache, whose blocks are found too. Plain blocks are packed then: what is read again
	// less often may take longer, and has less room.
	beside *Cache

	// mu guards what follows.
	mu      sync.Mutex
	entries map[uint64]*list.Element
	// begins has the same by their form and first item, the newest mostBegins of each: where an object changes again and
	// again, one block of many with it begins as the others.
	begins  map[uint64][]*list.Element
	recent  *list.List // of *cached, used last first
	bytes   int64
	refused int  // blocks that were not kept, since the last that was
	ticking bool // expire will be called
}

type cached struct {
	id    uint64
	parts Parts
	block *Block
	used  time.Time
}

func (c *cached) bytes() int64 {
	_, size := c.block.Size()
	return size + int64(8*len(c.parts.Items)) + 200
}

// NewCache returns a cache of at most that many bytes.
func NewCache(most int64) *Cache {
	return &Cache{
		seed: maphash.MakeSeed(), most: most,
		entries: map[uint64]*list.Element{}, begins: map[uint64][]*list.Element{}, recent: list.New(),
	}
}

// Beside returns a cache of at most that many bytes for what should not take the place of the blocks of c, which it finds, too.
// It packs plain blocks.
func (c *Cache) Beside(most int64) *Cache {
	other := NewCache(most)
	other.seed, other.beside = c.seed, c
	return other
}

// Block returns the block of the parts, from the cache or by compress, which it calls
// without a lock; concurrent callers may both call it. The cache copies the parts. It keeps
// no nil. A nil cache keeps nothing.
func (c *Cache) Block(p Parts, compress func() *Block) *Block {
	if c == nil {
		return compress()
	}
	id := c.id(p)
	if b := c.find(id, p); b != nil {
		return b
	}
	if c.beside != nil {
		if b := c.beside.find(id, p); b != nil {
			return b
		}
	}
	b := compress()
	if b == nil {
		return nil
	}
	p.Items = slices.Clone(p.Items)
	kept := b
	if c.beside != nil {
		kept = b.pack()
	}
	c.keep(&cached{id: id, parts: p, block: kept})
	return b
}

// Blocks returns blocks that have all of the items one after the other, and nil if the cache does not find them. It looks for
// them one by one, each time for the one that has most of the items that are left, and makes none.
func (c *Cache) Blocks(p Parts) (blocks []*Block) {
	if c == nil {
		return nil
	}
	for len(p.Items) > 0 {
		b, n := c.longest(p)
		if c.beside != nil {
			if other, more := c.beside.longest(p); more > n {
				b, n = other, more
			}
		}
		if n == 0 {
			return nil
		}
		blocks, p.Items = append(blocks, b), p.Items[n:]
	}
	return blocks
}

// longest returns the block that has most of the first items, and of how many it is: 0 if there is none.
func (c *Cache) longest(p Parts) (b *Block, n int) {
	begin := c.begin(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	var found *list.Element
	for _, e := range c.begins[begin] {
		parts := e.Value.(*cached).parts //nolint:forcetypeassert // the list holds nothing else
		if has := len(parts.Items); has > n && has <= len(p.Items) && parts.Form == p.Form &&
			slices.Equal(parts.Items, p.Items[:has]) {
			found, n = e, has
		}
	}
	if found == nil {
		return nil, 0
	}
	return c.useLocked(found).block, n
}

// useLocked notes that a block is used.
func (c *Cache) useLocked(e *list.Element) *cached {
	used := e.Value.(*cached) //nolint:forcetypeassert // the list holds nothing else
	c.recent.MoveToFront(e)
	used.used = time.Now()
	return used
}

// Bytes returns how much the cache holds.
func (c *Cache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

func (c *Cache) id(p Parts) uint64 {
	id := maphash.String(c.seed, p.Form)
	for _, item := range p.Items {
		id = maphash.Comparable(c.seed, [2]uint64{id, item})
	}
	return id
}

// begin is what the parts have in common that begin with the same item.
func (c *Cache) begin(p Parts) uint64 {
	return c.id(Parts{Form: p.Form, Items: p.Items[:min(1, len(p.Items))]})
}

func (c *Cache) find(id uint64, p Parts) *Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[id]
	if e == nil {
		return nil
	}
	found := e.Value.(*cached) //nolint:forcetypeassert // the list holds nothing else
	if found.parts.Form != p.Form || !slices.Equal(found.parts.Items, p.Items) {
		return nil
	}
	return c.useLocked(e).block
}

func (c *Cache) keep(made *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[made.id]; e != nil {
		c.dropLocked(e)
	}
	if made.bytes() > c.most || c.bytes+made.bytes() > c.most && !c.admitLocked() {
		return
	}
	made.used = time.Now()
	e := c.recent.PushFront(made)
	c.entries[made.id] = e
	if begin := c.begin(made.parts); len(made.parts.Items) > 0 {
		same := c.begins[begin]
		if len(same) == mostBegins {
			same = slices.Delete(same, 0, 1)
		}
		c.begins[begin] = append(same, e)
	}
	c.bytes += made.bytes()
	for c.bytes > c.most && c.recent.Len() > 0 {
		c.dropLocked(c.recent.Back())
	}
	if !c.ticking {
		c.ticking = true
		time.AfterFunc(keepFor, c.expire)
	}
}

// admitLocked says whether a full cache keeps a new block.
func (c *Cache) admitLocked() bool {
	if e := c.recent.Back(); e != nil {
		oldest := e.Value.(*cached) //nolint:forcetypeassert // the list holds nothing else
		if c.refused++; time.Since(oldest.used) < inUse && c.refused < admitOne {
			return false
		}
	}
	c.refused = 0
	return true
}

// expire removes blocks that were not used for keepFor. It is called again until the
// cache is empty.
func (c *Cache) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.recent.Back(); e != nil; e = c.recent.Back() {
		last := e.Value.(*cached) //nolint:forcetypeassert // the list holds nothing else
		if left := keepFor - time.Since(last.used); left > 0 {
			time.AfterFunc(left, c.expire)
			return
		}
		c.dropLocked(e)
	}
	c.ticking = false
}

func (c *Cache) dropLocked(e *list.Element) {
	gone := c.recent.Remove(e).(*cached) //nolint:forcetypeassert // the list holds nothing else
	delete(c.entries, gone.id)
	begin := c.begin(gone.parts)
	rest := slices.DeleteFunc(c.begins[begin], func(other *list.Element) bool { return other == e })
	if c.begins[begin] = rest; len(rest) == 0 {
		delete(c.begins, begin)
	}
	c.bytes -= gone.bytes()
}
