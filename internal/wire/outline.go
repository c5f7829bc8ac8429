package wire

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/kube"
)

// Unstamped reads the stored form of an object as NewObject does, but for a reader that first wants to know what it
// is: it lies over the value itself, and its bytes have no resourceVersion. Object.WithResourceVersion copies them.
func Unstamped(value []byte, sel []FieldPath) (*Object, error) {
	o, err := parse(value, sel)
	if err != nil {
		return nil, err
	}
	if o.at.metadata == 0 {
		return nil, &kube.DecodeError{Offset: -1, Why: "the object has no metadata"}
	}
	return o, nil
}

// AppendOutline appends what selectors by labels and fields see of an object, besides its key.
func AppendOutline(to []byte, o *Object) []byte {
	o = o.read()
	to = binary.AppendUvarint(to, uint64(len(o.labels)))
	for key, value := range o.labels {
		to = appendString(appendString(to, key), value)
	}
	for _, value := range o.values {
		to = appendString(to, value)
	}
	return to
}

func appendString(to []byte, text string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// Outlines reads outlines of objects that have the same selectable fields, one after the other. It is used by one goroutine.
type Outlines struct {
	rest string
	o    Object
}

// NewOutlines reads what AppendOutline has appended.
func NewOutlines(text string, sel []FieldPath) *Outlines {
	return &Outlines{rest: text, o: Object{content: content{
		labels: labels.Set{}, paths: sel, values: make([]string, len(sel)),
	}}}
}

// Next returns an object that has a key, and the labels and fields of the next outline, and nothing else. It is valid until the
// next call.
func (l *Outlines) Next(key Key) *Object {
	l.o.key = key
	clear(l.o.labels)
	for range l.number() {
		name := l.text()
		l.o.labels[name] = l.text()
	}
	for i := range l.o.values {
		l.o.values[i] = l.text()
	}
	return &l.o
}

func (l *Outlines) text() string {
	n := l.number()
	text := l.rest[:n]
	l.rest = l.rest[n:]
	return text
}

// number reads what binary.AppendUvarint has appended.
func (l *Outlines) number() (n int) {
	for shift := 0; ; shift += 7 {
		b := l.rest[0]
		l.rest = l.rest[1:]
		if n |= int(b&0x7f) << shift; b < 0x80 {
			return n
		}
	}
}
