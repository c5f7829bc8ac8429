package protobuf

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/gapless-io/gapless/informer/internal/decode"
)

const (
	// minText and maxText bound the texts that are remembered, in bytes: shorter ones are
	// decoded as fast as found, and few longer ones are equal.
	minText = 16
	maxText = 16 << 10
	// The young generation becomes the old one when its texts have youngText bytes, or after
	// youngRead bytes of input, so that unused texts are forgotten.
	youngText = 2 << 20
	youngRead = 64 << 20
	// leafCost is about the size of a leaf without its text, in bytes.
	leafCost = 160
	// leastSlots is the size of the table of a generation that has few texts.
	leastSlots = 64
	// sampled is of how many objects one counts.
	sampled = 8
)

// memory maps the bytes of values to the decoded values, for each site, so that values of
// equal bytes become one. It holds bytes that occurred at least twice, in two generations: what
// is found in the old one moves to the young one, and the rest of the old one is dropped when
// the young one is full. It is safe for concurrent use. It is what package decode has for
// JSON, whose values must be read to find their end.
type memory struct {
	seed maphash.Seed
	once decode.Marks
	now  atomic.Pointer[generations]

	// mu guards changes of now and of all below it.
	mu sync.Mutex
}

// generations holds the remembered values.
type generations struct{ young, old *generation }

// generation is a table of leaves by hash, with linear probing. Readers take no lock; there
// is one writer, and leaves are not removed.
type generation struct {
	slots atomic.Pointer[[]atomic.Pointer[leaf]]
	size  int // how many leaves there are
	text  int // bytes of its leaves
	read  int // bytes of input, by sampled objects
}

// leaf is the bytes of a value and the value that was made of them at a site.
type leaf struct {
	hash  uint64
	site  *site
	text  string
	value any
}

// site is a place in a type where equal values are looked for.
type site struct {
	decode.Site

	id uint32
}

func newMemory() *memory {
	m := &memory{seed: maphash.MakeSeed()}
	m.now.Store(&generations{young: newGeneration(), old: newGeneration()})
	return m
}

func newGeneration() *generation {
	g := &generation{}
	slots := make([]atomic.Pointer[leaf], leastSlots)
	g.slots.Store(&slots)
	return g
}

// begin prepares r for one object of size bytes.
func (m *memory) begin(r *reader, size int) {
	if r.counts {
		m.mu.Lock()
		m.now.Load().young.read += size * sampled
		m.ageLocked()
		m.mu.Unlock()
	}
	r.memory, r.known = m, m.now.Load()
}

// ageLocked makes the young generation the old one if it is full.
func (m *memory) ageLocked() {
	if young := m.now.Load().young; young.text >= youngText || young.read >= youngRead {
		m.now.Store(&generations{young: newGeneration(), old: young})
	}
}

// keep adds a leaf to the young generation.
func (m *memory) keep(l *leaf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if young := m.now.Load().young; young.insert(l) {
		young.text += len(l.text) + leafCost
		m.ageLocked()
	}
}

// recall returns the value that was made of these bytes before, nil if there is none, and
// their hash.
func (r *reader) recall(s *site, raw []byte) (value any, hash uint64) {
	hash = maphash.Bytes(r.memory.seed, raw) ^ uint64(s.id)*0x9e3779b97f4a7c15
	found := r.known.young.find(s, hash, raw)
	if found == nil {
		if found = r.known.old.find(s, hash, raw); found == nil {
			return nil, hash
		}
		r.memory.keep(found)
	}
	if r.counts {
		s.Note(true)
	}
	return found.value, hash
}

// missed reports whether to remember the value whose bytes have that hash.
func (r *reader) missed(s *site, hash uint64) bool {
	again := r.memory.once.Again(hash)
	if r.counts {
		s.Note(again)
	}
	return again
}

// find returns the leaf of these bytes at a site, nil if there is none.
func (g *generation) find(s *site, hash uint64, raw []byte) *leaf {
	slots := *g.slots.Load()
	for n := hash; ; n++ {
		l := slots[n%uint64(len(slots))].Load()
		if l == nil || l.hash == hash && l.site == s && l.text == string(raw) {
			return l
		}
	}
}

// insert adds a leaf, and says whether it was not there.
func (g *generation) insert(l *leaf) bool {
	if g.find(l.site, l.hash, []byte(l.text)) != nil {
		return false
	}
	slots := *g.slots.Load()
	if g.size++; 2*g.size > len(slots) {
		larger := make([]atomic.Pointer[leaf], 2*len(slots))
		for i := range slots {
			if old := slots[i].Load(); old != nil {
				place(larger, old)
			}
		}
		slots = larger
		defer g.slots.Store(&larger)
	}
	place(slots, l)
	return true
}

// place stores a leaf in the first free slot from that of its hash.
func place(slots []atomic.Pointer[leaf], l *leaf) {
	for n := l.hash; ; n++ {
		if slot := &slots[n%uint64(len(slots))]; slot.Load() == nil {
			slot.Store(l)
			return
		}
	}
}
