package decode

import (
	"slices"
	"strings"
	"sync/atomic"
)

// node is a place in a tree of the JSON texts that are remembered, which branches where
// they differ. No JSON object or array is the beginning of another one, so values are at
// its ends only, and a text that is found ends where its value does. Readers take no
// lock; there is one writer.
type node struct {
	text   string // from the node above to this one
	leaf   *leaf  // nil where it branches
	branch atomic.Pointer[branches]
}

// branches are the nodes below one, by the first byte of their text. They are replaced,
// not changed.
type branches struct {
	bytes string
	nodes []*node
}

// leaf is a text and the value that was made of it.
type leaf struct {
	text  string
	value any
}

// find returns what rest begins with, nil if that is not known.
func (b *branches) find(rest []byte) *leaf {
	for b != nil && len(rest) > 0 {
		i := strings.IndexByte(b.bytes, rest[0])
		if i < 0 {
			return nil
		}
		n := b.nodes[i]
		if len(rest) < len(n.text) || string(rest[:len(n.text)]) != n.text {
			return nil
		}
		if n.leaf != nil {
			return n.leaf
		}
		rest = rest[len(n.text):]
		b = n.branch.Load()
	}
	return nil
}

// insert adds a leaf below root, and says whether it was not there.
func insert(root *atomic.Pointer[branches], l *leaf) bool {
	rest := l.text
	for at := root; rest != ""; {
		b := at.Load()
		if b == nil {
			b = &branches{}
		}
		i := strings.IndexByte(b.bytes, rest[0])
		if i < 0 {
			at.Store(b.with(&node{text: rest, leaf: l}))
			return true
		}
		n := b.nodes[i]
		same := common(n.text, rest)
		switch {
		case same < len(n.text):
			if same == len(rest) {
				return false
			}
			upper := &node{text: n.text[:same]}
			lower := &node{text: n.text[same:], leaf: n.leaf}
			lower.branch.Store(n.branch.Load())
			upper.branch.Store((&branches{}).with(lower).with(&node{text: rest[same:], leaf: l}))
			at.Store(b.instead(i, upper))
			return true
		case n.leaf != nil:
			return false
		}
		rest, at = rest[same:], &n.branch
	}
	return false // the beginning of others: no JSON value is that
}

func (b *branches) with(n *node) *branches {
	return &branches{bytes: b.bytes + n.text[:1], nodes: append(slices.Clip(b.nodes), n)}
}

func (b *branches) instead(i int, n *node) *branches {
	nodes := slices.Clone(b.nodes)
	nodes[i] = n
	return &branches{bytes: b.bytes, nodes: nodes}
}

// common is the length of what two texts begin with.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
