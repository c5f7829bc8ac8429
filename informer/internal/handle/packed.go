package handle

import (
	"fmt"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/informer/internal/dictionary"
)

// Packing is what the packed objects of one source share.
type Packing[S any] struct {
	dictionary *dictionary.Dictionary
	strings    *decode.Strings // namespaces
	decode     func([]byte) (*S, error)
	buffers    sync.Pool // of *[]byte
}

// NewPacking makes one of objects that decode can make again of their text, and which
// keep nothing of it.
func NewPacking[S any](decoder func([]byte) (*S, error)) *Packing[S] {
	return &Packing[S]{
		dictionary: dictionary.New(), strings: decode.NewStrings(), decode: decoder,
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
}

// Packed is an object that is kept as text, without what other objects have too, in a
// tenth of the memory. It is immutable and safe for concurrent use.
type Packed[S any] struct {
	of        *Packing[S]
	namespace string
	text      string // packed, name, UID and resource version, one behind the other
	name, uid uint16 // lengths
	rv        uint16

	// mu guards decoded. It is held while decoding, so that all who ask get one object.
	mu      sync.Mutex
	decoded weak.Pointer[S]
}

// Identity is what is known of a packed object without decoding it.
type Identity struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
}

// Pack packs an object of whose text decode made object, which it keeps only weakly.
func (p *Packing[S]) Pack(raw []byte, object *S, id Identity) (*Packed[S], error) {
	buffer := p.buffer()
	defer p.buffers.Put(buffer)
	if max(len(id.Name), len(id.UID), len(id.ResourceVersion)) > 1<<16-1 {
		return nil, fmt.Errorf("metadata of an object of %d bytes is too long", len(raw))
	}
	text := p.dictionary.Compress((*buffer)[:0], raw)
	text = append(append(append(text, id.Name...), id.UID...), id.ResourceVersion...)
	*buffer = text
	return &Packed[S]{
		of: p, namespace: p.strings.Of([]byte(id.Namespace)), text: string(text),
		name: uint16(len(id.Name)), uid: uint16(len(id.UID)), rv: uint16(len(id.ResourceVersion)), //nolint:gosec // checked above
		decoded: weak.Make(object),
	}, nil
}

func (p *Packing[S]) buffer() *[]byte {
	b, is := p.buffers.Get().(*[]byte)
	if !is {
		panic("informer: no buffer")
	}
	return b
}

// Get returns the object. It is the same one for all who ask while anybody holds it.
func (o *Packed[S]) Get() *S {
	o.mu.Lock()
	defer o.mu.Unlock()
	if object := o.decoded.Value(); object != nil {
		return object
	}
	buffer := o.of.buffer()
	defer o.of.buffers.Put(buffer)
	raw, err := o.of.dictionary.Decompress((*buffer)[:0], o.text[:o.packed()])
	*buffer = raw
	var object *S
	if err == nil {
		object, err = o.of.decode(raw)
	}
	if err != nil {
		_, name := o.Name()
		panic(fmt.Sprintf("informer: %s was decoded before: %v", name, err))
	}
	o.decoded = weak.Make(object)
	return object
}

// Text appends the text that the object was made of.
func (o *Packed[S]) Text(dst []byte) ([]byte, error) {
	return o.of.dictionary.Decompress(dst, o.text[:o.packed()])
}

func (o *Packed[S]) packed() int { return len(o.text) - int(o.name) - int(o.uid) - int(o.rv) }

// Name returns the object's namespace and name.
func (o *Packed[S]) Name() (namespace, name string) {
	begin := o.packed()
	return o.namespace, o.text[begin : begin+int(o.name)]
}

// Version returns the object's UID and resource version.
func (o *Packed[S]) Version() (uid types.UID, rv string) {
	end := len(o.text) - int(o.rv)
	return types.UID(o.text[end-int(o.uid) : end]), o.text[end:]
}
