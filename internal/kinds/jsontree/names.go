package jsontree

// Names finds what is known of the members of an object by their names, in a third of the time that a map takes: each
// write looks up each of its members several times. It is immutable.
type Names[T any] struct {
	slots []slot[T]     // a power of two of them, at most half of them used
	rest  map[string]*T // what has found no slot; nil for usual names
}

type slot[T any] struct {
	name string
	of   *T // nil: the slot is free
}

// longest is how many slots a search looks at. Somebody may have chosen the names so that all begin at one place.
const longest = 8

// NamesOf returns what is known by name; no value of it is nil.
func NamesOf[T any](known map[string]*T) Names[T] {
	size := 1
	for size < 2*len(known) {
		size *= 2
	}
	n := Names[T]{slots: make([]slot[T], size)}
	for name, of := range known {
		n.put(name, of)
	}
	return n
}

func (n *Names[T]) put(name string, of *T) {
	at := n.place(name)
	for range longest {
		if s := &n.slots[at]; s.of == nil {
			*s = slot[T]{name, of}
			return
		}
		at = (at + 1) & (len(n.slots) - 1)
	}
	if n.rest == nil {
		n.rest = map[string]*T{}
	}
	n.rest[name] = of
}

// Get returns what is known of a member, nil for nothing.
func (n *Names[T]) Get(name string) *T {
	if len(n.slots) == 0 {
		return nil
	}
	at := n.place(name)
	for range longest {
		s := &n.slots[at]
		if s.of == nil || s.name == name {
			return s.of
		}
		at = (at + 1) & (len(n.slots) - 1)
	}
	return n.rest[name]
}

// place is where the search for a name begins. The names of members differ in their length, or at these places of them.
func (n *Names[T]) place(name string) int {
	if name == "" {
		return 0
	}
	const odd = 0x9E3779B1 // spreads what differs in a few bits
	h := uint32(len(name)) | uint32(name[0])<<8 | uint32(name[len(name)/2])<<16 | uint32(name[len(name)-1])<<24
	h *= odd
	return int(h>>16^h) & (len(n.slots) - 1)
}
