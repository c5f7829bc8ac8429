package jsontree

// Names finds what is known of the members of an object by their names, in a third of the time that a map takes: each
// write looks up each of its members several times. It is immutable.
type Names[T any] struct {
	slots []slot[T] // a power of two of them, at most half of them used
}

type slot[T any] struct {
	name string
	of   *T // nil: the slot is free
}

// NamesOf returns what is known by name; no value of it is nil.
func NamesOf[T any](known map[string]*T) Names[T] {
	size := 1
	for size < 2*len(known) {
		size *= 2
	}
	n := Names[T]{make([]slot[T], size)}
	for name, of := range known {
		at := n.place(name)
		for n.slots[at].of != nil {
			at = (at + 1) & (size - 1)
		}
		n.slots[at] = slot[T]{name, of}
	}
	return n
}

// Get returns what is known of a member, nil for nothing.
func (n *Names[T]) Get(name string) *T {
	if len(n.slots) == 0 {
		return nil
	}
	for at := n.place(name); ; at = (at + 1) & (len(n.slots) - 1) {
		s := &n.slots[at]
		if s.of == nil || s.name == name {
			return s.of
		}
	}
}

// place is where the search for a name begins. The names of members differ in their length, or at these places.
func (n *Names[T]) place(name string) int {
	if name == "" {
		return 0
	}
	const odd = 0x9E3779B1 // spreads what differs in a few bits
	h := uint32(len(name)) | uint32(name[0])<<8 | uint32(name[len(name)/2])<<16 | uint32(name[len(name)-1])<<24
	h *= odd
	return int(h>>16^h) & (len(n.slots) - 1)
}
