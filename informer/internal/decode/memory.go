package decode

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
	// entryCost is about the size of an entry without its text, in bytes.
	entryCost = 160
	// marks is how many texts that occurred once are recorded: in buckets by hash, of a few
	// each, because two texts that each object has would displace one another in one place.
	marks  = 1 << 13
	bucket = 4
	// maxSites bounds the places of dynamic objects.
	maxSites = 256
	// One of sampled objects updates the statistics of sites.
	sampled = 8
)

// memory maps JSON texts to decoded values, for each site, so that equal texts become one
// value. It holds texts that occurred at least twice, in two generations: a text that is
// found in the old one moves to the young one, and the rest of the old one is dropped when
// the young one is full. It is safe for concurrent use.
type memory struct {
	seed  maphash.Seed
	sites int
	once  Marks
	turn  atomic.Uint32 // counts objects
	now   atomic.Pointer[generations]

	// mu guards changes of now and of all below it.
	mu sync.Mutex
}

// generations holds the remembered texts.
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

// begin prepares r for one object.
func (m *memory) begin(r *reader) {
	if r.counts = m.turn.Add(1)%sampled == 0; r.counts {
		m.mu.Lock()
		young := m.now.Load().young
		young.read += len(r.Data) * sampled
		m.ageLocked()
		m.mu.Unlock()
	}
	r.memory, r.known = m, m.now.Load()
}

// ageLocked makes the young generation the old one if it is full.
func (m *memory) ageLocked() {
	if young := m.now.Load().young; young.text >= youngText || young.read >= youngRead {
		m.now.Store(&generations{young: m.generation(), old: young})
	}
}

// again reports whether a text is known to have occurred at that site before.
func (m *memory) again(s *site, text []byte) bool {
	return m.once.Again(maphash.Bytes(m.seed, text) ^ uint64(s.id)*0x9e3779b97f4a7c15)
}

// Marks records the hashes of texts that occurred once, a bounded number of them. It is safe
// for concurrent use.
type Marks [marks / bucket][bucket]atomic.Uint32

// Again reports whether a hash is recorded, and records it.
func (m *Marks) Again(hash uint64) bool {
	once, mark := &m[hash%uint64(len(m))], uint32(hash>>32)|1
	for i := range once {
		if once[i].Load() == mark {
			return true
		}
	}
	once[rand.IntN(bucket)].Store(mark) //nolint:gosec // which one is forgotten is no secret
	return false
}

// keep adds a leaf to the young generation.
func (m *memory) keep(s *site, l *leaf) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if young := m.now.Load().young; insert(&young.roots[s.id], l) {
		young.text += len(l.text) + entryCost
		m.ageLocked()
	}
}

const (
	// A site pauses if fewer than one in worthwhile of window values repeated; after pause
	// values it is used again. Only sampled objects count.
	window     = 64
	worthwhile = 8
	pause      = 512
)

// Site is a place in a type where equal values are looked for: a member of a struct, the
// elements of a slice or a map, or a name in dynamic objects. It knows whether that is
// worth it, and is safe for concurrent use.
type Site struct {
	tried atomic.Uint32
	good  atomic.Uint32
	rest  atomic.Int32 // how many more values it pauses for
}

// Seeks reports whether equal values are looked for at a site now. counts says that the
// object is one of those that count.
func (s *Site) Seeks(counts bool) bool {
	if s.rest.Load() <= 0 {
		return true
	}
	if counts {
		s.rest.Add(-1)
	}
	return false
}

// Note adds to the statistics of a site whether a value occurred before. Only objects that
// count should be noted.
func (s *Site) Note(again bool) {
	if again {
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

// site is a Site with a number.
type site struct {
	Site

	id int
}

// recall returns the remembered value of the text that begins here and moves past it, or
// returns nil if there is none.
func (r *reader) recall(s *site) any {
	rest := r.Data[r.Pos:]
	found := r.known.young.roots[s.id].Load().find(rest)
	if found == nil {
		if found = r.known.old.roots[s.id].Load().find(rest); found == nil {
			return nil
		}
		r.memory.keep(s, found)
	}
	r.Pos += len(found.text)
	r.note(s, true)
	return found.value
}

// missed reports whether to remember the value whose text is from begin to here.
func (r *reader) missed(s *site, begin int) bool {
	n := r.Pos - begin
	again := n >= minText && n <= maxText && r.memory.again(s, r.Data[begin:r.Pos])
	r.note(s, again)
	return again
}

func (r *reader) remember(s *site, begin int, value any) {
	r.memory.keep(s, &leaf{text: string(r.Data[begin:r.Pos]), value: value})
}

// seeks reports whether equal values are looked for at a site now.
func (r *reader) seeks(s *site) bool { return r.memory != nil && s.Seeks(r.counts) }

// note updates the statistics of a site.
func (r *reader) note(s *site, good bool) {
	if r.counts {
		s.Note(good)
	}
}
