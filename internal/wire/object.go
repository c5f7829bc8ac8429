package wire

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

// Key names an object within its resource. Namespace is "" for cluster-scoped
// resources.
type Key struct {
	Namespace string
	Name      string
}

// String returns "namespace/name", or "name" without a namespace. Byte order of
// these strings is the order of every list (by key bytes,
// so namespace "a-b" comes before "a").
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

//nolint:gochecknoglobals // never changes
var versionSeed = maphash.MakeSeed()

// Version identifies a version of an object of its resource, in this process. A resourceVersion alone does not: in etcd
// others can write several objects at one revision.
func (k Key) Version(rv kube.ResourceVersion) uint64 {
	const spread = 0x9E3779B97F4A7C15 // odd: different resourceVersions stay different
	name, namespace := maphash.String(versionSeed, k.Name), maphash.String(versionSeed, k.Namespace)
	return (name ^ bits.RotateLeft64(namespace, 1)) + uint64(rv)*spread
}

// The labels that every resource can be selected by.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// FieldPath is one selectable field: the label that a field selector uses, and
// the path of its value in the object. Default is the value when it is absent.
type FieldPath struct {
	Label   string   // "spec.nodeName"
	Path    []string // {"spec", "nodeName"}
	Default string
}

// Object is one API object as encoded JSON on one line (no newline at the end)
// together with the metadata, labels and selectable fields read from it once. It
// is immutable and safe for concurrent use; the bytes are shared and must not be
// modified.
type Object struct {
	content

	memo atomic.Pointer[Memo]
}

// content is an Object without what its readers remember of it.
type content struct {
	raw    []byte
	shared []shared // texts between the bytes of raw, in order; see Share
	at     offsets  // where raw can be replaced
	rv     kube.ResourceVersion

	key        Key
	uid        types.UID
	apiVersion string
	kind       string
	generation int64
	created    time.Time
	deleting   bool
	owned      bool
	lazy       bool // labels and values are read from raw when they are asked for; see Lazily
	labels     labels.Set
	paths      []FieldPath // the resource's, shared by its objects
	values     []string    // parallel to paths
}

// JSON returns the object on one line, with its resourceVersion. The bytes are
// shared and must not be modified. Those of an object that shares texts are put together
// at each call; see Parts.
func (o *Object) JSON() []byte { return o.whole().raw }

// Key names the object within its resource.
func (o *Object) Key() Key { return o.key }

// UID distinguishes consecutive objects of the same name.
func (o *Object) UID() types.UID { return o.uid }

// ResourceVersion returns the revision of the object's last change, 0 if it has none.
func (o *Object) ResourceVersion() kube.ResourceVersion { return o.rv }

// Labels returns the object's labels, nil if there are none. The map is shared
// and must not be modified. An object that Lazily has made reads itself at each call, as it does for Fields.
func (o *Object) Labels() labels.Set { return o.read().labels }

// Fields returns a view of the selectable fields, for fields.Selector: those of
// the resource, metadata.name and metadata.namespace. It allocates nothing, but see Labels.
func (o *Object) Fields() fields.Fields { return fieldView{o.read()} }

// APIVersion returns "v1" or "apps/v1", "" if the object does not say.
func (o *Object) APIVersion() string { return o.apiVersion }

// Kind returns "ConfigMap", "" if the object does not say.
func (o *Object) Kind() string { return o.kind }

// Generation returns metadata.generation, 0 if there is none.
func (o *Object) Generation() int64 { return o.generation }

// Created returns metadata.creationTimestamp in UTC, the zero time if there is none.
func (o *Object) Created() time.Time { return o.created }

// Deleting says that the object has a deletionTimestamp: it goes away when its
// last finalizer does.
func (o *Object) Deleting() bool { return o.deleting }

// Memo is what one reader has made of an object, for all other readers. It is immutable.
type Memo struct {
	By     any     // who made it; readers compare it with ==
	Object *Object // what it made; nil: nothing else than the object itself
	Source *Object // of which the object itself was made; nil: of nothing
}

// Memo returns what was remembered of the object last, nil if that is nothing.
func (o *Object) Memo() *Memo { return o.memo.Load() }

// Remember replaces one memo of the object by another one, unless the object has a third one by
// now. It returns the one that the object has then. Copies of the object, as
// WithResourceVersion makes them, have no memo.
func (o *Object) Remember(was, now *Memo) *Memo {
	if o.memo.CompareAndSwap(was, now) {
		return now
	}
	return o.memo.Load()
}

// copied returns the object without its memo.
func (o *Object) copied() *Object { return &Object{content: o.content} }

// fieldView is an Object as a field selector sees it.
type fieldView struct{ o *Object }

// Has reports whether label can be selected by.
func (v fieldView) Has(label string) bool {
	return label == fieldName || label == fieldNamespace ||
		slices.ContainsFunc(v.o.paths, func(p FieldPath) bool { return p.Label == label })
}

// Get returns the value of a selectable field, "" for others.
func (v fieldView) Get(label string) string {
	switch label {
	case fieldName:
		return v.o.key.Name
	case fieldNamespace:
		return v.o.key.Namespace
	}
	for i, p := range v.o.paths {
		if p.Label == label {
			return v.o.values[i]
		}
	}
	return ""
}
