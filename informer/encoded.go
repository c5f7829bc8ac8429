package informer

import (
	"fmt"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/informer/internal/pack"
)

// Encoded is an object that is kept as text, without what other objects have too, in
// a tenth of the memory, and decoded when it is looked at. It is immutable and safe
// for concurrent use.
type Encoded[S any] struct {
	of        *encoding[S]
	namespace string
	text      string // packed, name, UID and resource version, one behind the other
	name, uid uint16 // lengths
	rv        uint16

	// mu guards decoded. It is held while decoding, so that all who ask get one object.
	mu      sync.Mutex
	decoded weak.Pointer[S]
}

// encoding is what the objects of one source share.
type encoding[S any] struct {
	dictionary *pack.Dictionary
	strings    *decode.Strings // namespaces
	decode     func([]byte) (*S, error)
	buffers    sync.Pool // of *[]byte
}

// Encode makes a source keep its objects encoded: the informer is one of
// *Encoded[corev1.Pod] then, with the same methods, and Object decodes.
//
//	pods := informer.New(informer.Encode(informer.For[*corev1.Pod](cfg, podGVR)))
//	…
//	if p, found := pods.Get(key); found { use(p.Object()) }
//
// Each object is decoded once when it comes, so that one that cannot be decoded is
// found then, and again when somebody asks and nobody holds it: 20 to 50 µs for a
// pod. That is for big collections of which little is looked at. What objects have in
// common is kept for the informer's life, at most 8 MiB.
func Encode[S any, T interface {
	*S
	Object
}](source Source[T],
) Source[*Encoded[S]] {
	e := &encoding[S]{
		dictionary: pack.New(), strings: decode.NewStrings(),
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
	if source.decode != nil {
		e.decode = func(raw []byte) (*S, error) { return source.decode(raw) }
	}
	return Source[*Encoded[S]]{
		name: source.name, backend: source.backend, labels: source.labels, fields: source.fields,
		err: source.err, lends: source.lends,
		decode: func(raw []byte) (*Encoded[S], error) {
			object, err := source.decode(raw)
			if err != nil {
				return nil, err
			}
			return e.of(raw, object, client.Meta{
				Namespace: object.GetNamespace(), Name: object.GetName(),
				UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
			})
		},
	}
}

// of packs an object; the pointer to it is kept only weakly.
func (e *encoding[S]) of(raw []byte, object *S, meta client.Meta) (*Encoded[S], error) {
	buffer := e.buffer()
	defer e.buffers.Put(buffer)
	name, uid, rv := meta.Name, meta.UID, meta.ResourceVersion
	if max(len(name), len(uid), len(rv)) > 1<<16-1 {
		return nil, fmt.Errorf("metadata of an object of %d bytes is too long", len(raw))
	}
	text := e.dictionary.Pack((*buffer)[:0], raw)
	text = append(append(append(text, name...), uid...), rv...)
	*buffer = text
	return &Encoded[S]{
		of: e, namespace: e.strings.Of([]byte(meta.Namespace)), text: string(text),
		name: uint16(len(name)), uid: uint16(len(uid)), rv: uint16(len(rv)), //nolint:gosec // checked above
		decoded: weak.Make(object),
	}, nil
}

func (e *encoding[S]) buffer() *[]byte {
	b, is := e.buffers.Get().(*[]byte)
	if !is {
		panic("informer: no buffer")
	}
	return b
}

// Object returns the object. It is the same one for all who ask while anybody holds
// it, shared, and must not be modified.
func (o *Encoded[S]) Object() *S {
	o.mu.Lock()
	defer o.mu.Unlock()
	if object := o.decoded.Value(); object != nil {
		return object
	}
	buffer := o.of.buffer()
	defer o.of.buffers.Put(buffer)
	raw, err := o.of.dictionary.Unpack((*buffer)[:0], o.text[:o.packed()])
	*buffer = raw
	var object *S
	if err == nil {
		object, err = o.of.decode(raw)
	}
	if err != nil {
		panic(fmt.Sprintf("informer: %s was decoded before: %v", o.GetName(), err))
	}
	o.decoded = weak.Make(object)
	return object
}

func (o *Encoded[S]) packed() int { return len(o.text) - int(o.name) - int(o.uid) - int(o.rv) }

// GetNamespace returns the object's namespace.
func (o *Encoded[S]) GetNamespace() string { return o.namespace }

// GetName returns the object's name.
func (o *Encoded[S]) GetName() string {
	begin := o.packed()
	return o.text[begin : begin+int(o.name)]
}

// GetUID returns the object's UID.
func (o *Encoded[S]) GetUID() types.UID {
	end := len(o.text) - int(o.rv)
	return types.UID(o.text[end-int(o.uid) : end])
}

// GetResourceVersion returns the object's resource version.
func (o *Encoded[S]) GetResourceVersion() string { return o.text[len(o.text)-int(o.rv):] }

// GetLabels decodes the object and returns its labels.
func (o *Encoded[S]) GetLabels() map[string]string {
	object, is := any(o.Object()).(interface{ GetLabels() map[string]string })
	if !is {
		return nil
	}
	return object.GetLabels()
}
