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
func (l *limb) dynamic(r *reader, v reflect.Value) error {
	u, is := reflect.TypeAssert[*unstructured.Unstructured](v.Addr())
	if !is {
		return errOdd
	}
	m, err := r.object(l)
	if err != nil {
		return err
	}
	// What Unstructured.UnmarshalJSON refuses.
	kind, _ := m["kind"].(string)
	version, versioned := m["apiVersion"].(string)
	if _, has := m["apiVersion"]; kind == "" || has && !versioned {
		return errOdd
	}
	if _, err := schema.ParseGroupVersion(version); err != nil {
		return errOdd
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

// limb is the site of the objects and arrays that stand somewhere in dynamic objects.
// It grows others for the names below it.
type limb struct {
	site
	place place
	usual atomic.Int32 // how many members the last one had
	tree  *limbs
	below atomic.Pointer[map[string]*limb]
}

// limbs are those of one decoder.
type limbs struct {
	other *limb // for what there would be too many of

	// mu guards sites, and changes of what is below a limb.
	mu    sync.Mutex
	sites int
}

func newLimb() *limb {
	t := &limbs{}
	root, metadata := t.grow(inObject), t.grow(inMetadata)
	root.below.Store(&map[string]*limb{"metadata": metadata})
	t.other = t.grow(elsewhere)
	return root
}

func (t *limbs) grow(at place) *limb {
	l := &limb{tree: t, place: at}
	l.id = t.sites
	t.sites++
	return l
}

// of returns the limb of the objects and arrays below that have a name; an array's
// elements have none.
func (l *limb) of(name []byte) *limb {
	if below := l.below.Load(); below != nil {
		if known := (*below)[string(name)]; known != nil {
			return known
		}
	}
	if l == l.tree.other {
		return l
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	more := map[string]*limb{}
	if below := l.below.Load(); below != nil {
		if known := (*below)[string(name)]; known != nil {
			return known
		}
		more = maps.Clone(*below)
	}
	if l.tree.sites == maxSites {
		return l.tree.other
	}
	next := l.tree.grow(elsewhere)
	more[string(name)] = next
	l.below.Store(&more)
	return next
}

// object reads an object as Kubernetes' decoder reads one into a map.
func (r *reader) object(l *limb) (map[string]any, error) {
	m := make(map[string]any, l.usual.Load())
	err := r.members(func(r *reader, name []byte) error {
		if l.place == inMetadata && r.strip && string(name) == managedFields {
			return errSkip
		}
		key := r.strings.Of(name)
		value, err := r.any(l, name)
		m[key] = value
		return err
	})
	if n := int32(min(len(m), 64)); n != l.usual.Load() { //nolint:gosec // at most 64
		l.usual.Store(n)
	}
	return m, err
}

const managedFields = "managedFields"

// any reads a value of any kind, below l; integers are int64, as in Kubernetes.
func (r *reader) any(l *limb, name []byte) (any, error) {
	switch r.peek() {
	case '{', '[':
		return r.tree(l.of(name))
	case '"':
		text, err := r.text()
		if err != nil {
			return nil, err
		}
		return r.strings.Boxed(text), nil
	case 't':
		return true, must(r.literal("true"))
	case 'f':
		return false, must(r.literal("false"))
	case 'n':
		return nil, must(r.literal("null"))
	}
	return r.int64()
}

// tree reads an object or array, or takes what was made of the same text before.
func (r *reader) tree(l *limb) (value any, err error) {
	seeks := r.seeks(&l.site)
	if seeks {
		if known := r.recall(&l.site); known != nil {
			return known, nil
		}
	}
	begin := r.pos
	if r.peek() == '{' {
		value, err = r.object(l)
	} else {
		value, err = r.list(l)
	}
	if seeks && err == nil && r.missed(&l.site, begin) {
		r.remember(&l.site, begin, value)
	}
	return value, err
}

func (r *reader) list(l *limb) (any, error) {
	list := make([]any, 0, max(l.usual.Load(), 1))
	more, err := r.enter(']')
	for more && err == nil {
		var item any
		if item, err = r.any(l, nil); err == nil {
			list = append(list, item)
			more, err = r.next(']')
		}
	}
	if n := int32(min(len(list), 64)); n != l.usual.Load() { //nolint:gosec // at most 64
		l.usual.Store(n)
	}
	if len(list) < cap(list) { // what is kept has no room to spare
		list = append(make([]any, 0, len(list)), list...)
	}
	return list, err
}
