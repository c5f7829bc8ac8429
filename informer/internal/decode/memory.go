package decode

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	// minText and maxText bound the texts that are remembered: below, decoding costs
	// no more than finding; above, few are equal.
	minText = 16
	maxText = 16 << 10
	// youngText and youngRead are when the young generation becomes the old one: when
	// its texts have so many bytes, or when it has seen so many bytes of input, so that
	// what comes no more is forgotten.
	youngText = 2 << 20
	youngRead = 64 << 20
	// entryCost is about what an entry takes beside its text.
	entryCost = 160
	// marks is how many texts are known that came once.
	marks = 1 << 13
	// maxSites bounds the places of dynamic objects.
	maxSites = 256
	// sampled is how many objects there are for one that counts what is worth it.
	sampled = 8
)

// memory holds values by the JSON text they were made of, for each site, so that
// equal texts become one value. It holds what came at least twice, in two generations:
// what is found in the old one moves to the young one, and the rest of the old one is
// forgotten when the young one is full. It is safe for concurrent use.
type memory struct {
	seed  maphash.Seed
	sites int
	once  [marks]atomic.Uint32 // marks of texts that came once
	turn  atomic.Uint32        // counts objects
	now   atomic.Pointer[generations]

	// mu guards changes of now and of all below it.
	mu sync.Mutex
}

// generations is what is remembered.
type generations struct{ young, old *generation }

type generation struct {
	roots []atomic.Pointer[branches] // by site
	text  int                        // bytes of its entries
	read  int                        // bytes of input, by sampled objects
}

func newMemory(sites int) *memory {
	m := &memory{seed: maphash.MakeSeed(), sites: sites}
	m.now.Store(&generations{young: m.generation(), old: m.generation()})
	return m
}

func (m *memory) generation() *generation {
	return &generation{roots: make([]atomic.Pointer[branches], m.sites)}
}

// begin gives r what it needs for one object.
func (m *memory) begin(r *reader) {
	if r.counts = m.turn.Add(1)%sampled == 0; r.counts {
		m.mu.Lock()
		young := m.now.Load().young
		young.read += len(r.data) * sampled
		m.ageLocked()
		m.mu.Unlock()
	}
	r.memory, r.known = m, m.now.Load()
}

// ageLocked makes the young generation the old one if it is time.
func (m *memory) ageLocked() {
	if young := m.now.Load().young; young.text >= youngText || young.read >= youngRead {
		m.now.Store(&generations{young: m.generation(), old: young})
	}
}

// again says whether a text came before at that site, as far as it is known.
func (m *memory) again(s *site, text []byte) bool {
	hash := maphash.Bytes(m.seed, text) ^ uint64(s.id)*0x9e3779b97f4a7c15
	slot, mark := hash%marks, uint32(hash>>32)|1
	if m.once[slot].Load() == mark {
		return true
	}
	m.once[slot].Store(mark)
	return false
}

// keep remembers a leaf.
func (m *memory) keep(s *site, l *leaf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if young := m.now.Load().young; insert(&young.roots[s.id], l) {
		young.text += len(l.text) + entryCost
		m.ageLocked()
	}
}

const (
	// A site rests when of window values fewer than one in worthwhile came again; after
	// pause values it is tried anew. Only sampled objects count.
	window     = 64
	worthwhile = 8
	pause      = 512
)

// site is a place where equal values are looked for: a member of a struct, the
// elements of a slice or a map, or a member of dynamic objects of some name.
type site struct {
	id    int
	tried atomic.Uint32
	good  atomic.Uint32
	rest  atomic.Int32 // how many values it still rests for
}

// recall moves past the value that begins here if its text is known, and returns what
// was made of it then; nil otherwise.
func (r *reader) recall(s *site) any {
	rest := r.data[r.pos:]
	found := r.known.young.roots[s.id].Load().find(rest)
	if found == nil {
		if found = r.known.old.roots[s.id].Load().find(rest); found == nil {
			return nil
		}
		r.memory.keep(s, found)
	}
	r.pos += len(found.text)
	r.note(s, true)
	return found.value
}

// missed says whether the value whose text begins there and ends here is to be remembered.
func (r *reader) missed(s *site, begin int) bool {
	n := r.pos - begin
	again := n >= minText && n <= maxText && r.memory.again(s, r.data[begin:r.pos])
	r.note(s, again)
	return again
}

func (r *reader) remember(s *site, begin int, value any) {
	r.memory.keep(s, &leaf{text: string(r.data[begin:r.pos]), value: value})
}

// seeks says whether equal values are looked for at a site now.
func (r *reader) seeks(s *site) bool {
	if r.memory == nil {
		return false
	}
	if s.rest.Load() <= 0 {
		return true
	}
	if r.counts {
		s.rest.Add(-1)
	}
	return false
}

// note counts what a site is worth.
func (r *reader) note(s *site, good bool) {
	if !r.counts {
		return
	}
	if good {
		s.good.Add(1)
	}
	if s.tried.Add(1) < window {
		return
	}
	if s.good.Load() < window/worthwhile {
		s.rest.Store(pause)
	}
	s.tried.Store(0)
	s.good.Store(0)
}
