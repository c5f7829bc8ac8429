package blockzip

import (
	"container/list"
	"hash/maphash"
	"slices"
	"sync"
)

// Parts says what a block is made of: the form of its items, and a number for each
// that says which version of which item it is. Equal parts make equal bytes.
type Parts struct {
	Form  string
	Items []uint64
}

// Cache keeps the blocks that were used last. It is safe for concurrent use.
type Cache struct {
	seed maphash.Seed
	most int64 // bytes

	// mu guards what follows.
	mu      sync.Mutex
	entries map[uint64]*list.Element
	recent  *list.List // of *cached, used last first
	bytes   int64
}

type cached struct {
	id    uint64
	parts Parts
	block *Block
}

func (c *cached) bytes() int64 { return int64(len(c.block.deflated) + 8*len(c.parts.Items) + 200) }

// NewCache returns a cache that holds at most so many bytes.
func NewCache(most int64) *Cache {
	return &Cache{seed: maphash.MakeSeed(), most: most, entries: map[uint64]*list.Element{}, recent: list.New()}
}

// Block returns the block of the parts, from the cache or by compress, which is called
// without a lock; two callers at once may both make it. The cache copies the parts.
func (c *Cache) Block(p Parts, compress func() *Block) *Block {
	id := c.id(p)
	if b := c.find(id, p); b != nil {
		return b
	}
	b := compress()
	p.Items = slices.Clone(p.Items)
	c.keep(&cached{id: id, parts: p, block: b})
	return b
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
	c.recent.MoveToFront(e)
	return found.block
}

func (c *Cache) keep(made *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[made.id]; e != nil {
		c.dropLocked(e)
	}
	c.entries[made.id] = c.recent.PushFront(made)
	c.bytes += made.bytes()
	for c.bytes > c.most && c.recent.Len() > 0 {
		c.dropLocked(c.recent.Back())
	}
}

func (c *Cache) dropLocked(e *list.Element) {
	gone := c.recent.Remove(e).(*cached) //nolint:forcetypeassert // the list holds nothing else
	delete(c.entries, gone.id)
	c.bytes -= gone.bytes()
}
