package decode

import (
	"maps"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// dynamic decodes an unstructured.Unstructured.
func (n *pathNode) dynamic(r *reader, v reflect.Value) error {
	u, is := reflect.TypeAssert[*unstructured.Unstructured](v.Addr())
	if !is {
		return errFallback
	}
	m, err := r.object(n)
	if err != nil {
		return err
	}
	// What Unstructured.UnmarshalJSON refuses.
	kind, _ := m["kind"].(string)
	version, versioned := m["apiVersion"].(string)
	if _, has := m["apiVersion"]; kind == "" || has && !versioned {
		return errFallback
	}
	if _, err := schema.ParseGroupVersion(version); err != nil {
		return errFallback
	}
	u.Object = m
	return nil
}

// place says where in an object a value stands.
type place int

const (
	inObject place = iota
	inMetadata
	elsewhere
)

// pathNode is the site of the objects and arrays at one path of dynamic objects. It
// adds nodes for the names below it.
type pathNode struct {
	site
	place place
	usual atomic.Int32 // how many members the last one had
	tree  *pathTree
	below atomic.Pointer[map[string]*pathNode]
}

// pathTree is the nodes of one decoder.
type pathTree struct {
	other *pathNode // for all paths beyond the first maxSites

	// mu guards sites, and changes of what is below a node.
	mu    sync.Mutex
	sites int
}

func newPathTree() *pathNode {
	t := &pathTree{}
	root, metadata := t.add(inObject), t.add(inMetadata)
	root.below.Store(&map[string]*pathNode{"metadata": metadata})
	t.other = t.add(elsewhere)
	return root
}

func (t *pathTree) add(at place) *pathNode {
	n := &pathNode{tree: t, place: at}
	n.id = t.sites
	t.sites++
	return n
}

// of returns the node of the objects and arrays below that have a name; an array's
// elements have none.
func (n *pathNode) of(name []byte) *pathNode {
	if below := n.below.Load(); below != nil {
		if known := (*below)[string(name)]; known != nil {
			return known
		}
	}
	if n == n.tree.other {
		return n
	}
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	more := map[string]*pathNode{}
	if below := n.below.Load(); below != nil {
		if known := (*below)[string(name)]; known != nil {
			return known
		}
		more = maps.Clone(*below)
	}
	if n.tree.sites == maxSites {
		return n.tree.other
	}
	next := n.tree.add(elsewhere)
	more[string(name)] = next
	n.below.Store(&more)
	return next
}

// object reads an object as Kubernetes' decoder reads one into a map.
func (r *reader) object(n *pathNode) (map[string]any, error) {
	m := make(map[string]any, n.usual.Load())
	err := r.members(func(r *reader, name []byte) error {
		if n.place == inMetadata && r.strip && string(name) == managedFields {
			return errSkip
		}
		key := r.strings.Of(name)
		value, err := r.any(n, name)
		m[key] = value
		return err
	})
	if size := int32(min(len(m), 64)); size != n.usual.Load() { //nolint:gosec // at most 64
		n.usual.Store(size)
	}
	return m, err
}

const managedFields = "managedFields"

// any reads a value of any kind, below n; integers are int64, as in Kubernetes.
func (r *reader) any(n *pathNode, name []byte) (any, error) {
	switch r.Peek() {
	case '{', '[':
		return r.tree(n.of(name))
	case '"':
		text, err := r.text()
		if err != nil {
			return nil, err
		}
		return r.strings.Boxed(text), nil
	case 't':
		return true, must(r.Literal("true"))
	case 'f':
		return false, must(r.Literal("false"))
	case 'n':
		return nil, must(r.Literal("null"))
	}
	return r.int64()
}

// tree reads an object or array, or takes what was made of the same text before.
func (r *reader) tree(n *pathNode) (value any, err error) {
	seeks := r.seeks(&n.site)
	if seeks {
		if known := r.recall(&n.site); known != nil {
			return known, nil
		}
	}
	begin := r.Pos
	if r.Peek() == '{' {
		value, err = r.object(n)
	} else {
		value, err = r.list(n)
	}
	if seeks && err == nil && r.missed(&n.site, begin) {
		r.remember(&n.site, begin, value)
	}
	return value, err
}

func (r *reader) list(n *pathNode) (any, error) {
	list := make([]any, 0, max(n.usual.Load(), 1))
	more, err := r.Enter(']')
	for more && err == nil {
		var item any
		if item, err = r.any(n, nil); err == nil {
			list = append(list, item)
			more, err = r.Next(']')
		}
	}
	if size := int32(min(len(list), 64)); size != n.usual.Load() { //nolint:gosec // at most 64
		n.usual.Store(size)
	}
	if len(list) < cap(list) { // what is kept has no room to spare
		list = append(make([]any, 0, len(list)), list...)
	}
	return list, err
}
