package wire

import (
	"slices"

	"github.com/gapless-io/gapless/kube"
)

// Lazily makes objects of which most readers want nothing but the bytes. Their JSON is checked as that of other objects is,
// but labels and selectable fields are read from it at each call that asks for them: see Object.Labels. The bytes of
// objects that are made one after the other lie in the same memory, which is held as long as one of them is. The zero value
// is ready. It is used by one goroutine.
type Lazily struct{ room []byte }

// Grow takes the memory for n objects with that many bytes together.
func (l *Lazily) Grow(n, bytes int) { l.room = make([]byte, 0, bytes+n*stampBytes) }

// stampBytes is how many bytes a resourceVersion adds to an object at most.
const stampBytes = len(`"resourceVersion":"",`) + len("18446744073709551615")

// Object is NewObject. It copies the value.
func (l *Lazily) Object(value []byte, rv kube.ResourceVersion, sel []FieldPath) (*Object, error) {
	raw, err := oneLine(value)
	if err != nil {
		return nil, err
	}
	var labelBuf [8]labelTokens
	p := parser{scanner: newScanner(raw), labels: labelBuf[:0]}
	if err := p.root(); err != nil {
		return nil, decodeError(err)
	}
	if p.ambiguous || p.seenResourceVersion || p.at.metadata == 0 {
		return NewObject(value, rv, sel) // it is not in the stored form
	}
	p.labels = nil
	o, err := p.object()
	if err != nil {
		return nil, err
	}
	o.paths, o.lazy = sel, true
	if need := len(raw) + stampBytes; cap(l.room)-len(l.room) < need {
		l.room = make([]byte, 0, need)
	}
	begin := len(l.room)
	o.raw = append(l.room[begin:], raw...)
	o.stamp(rv, true)
	l.room = l.room[:begin+len(o.raw)]
	o.raw = slices.Clip(o.raw)
	return o, nil
}

// read returns the object with all that its bytes say.
func (o *Object) read() *Object {
	if o.lazy {
		return o.readAgain()
	}
	return o
}

func (o *Object) readAgain() *Object {
	whole, err := parse(o.raw, o.paths)
	if err != nil {
		return o // cannot be: it was parsed
	}
	return whole
}
