package protobuf

import (
	"reflect"

	"github.com/gapless-io/gapless/informer/internal/decode"
)

// Compiled returns what reads the messages of a type, sharing values, and reports whether it
// read them without the type's own Unmarshal. It is nil if the type always decodes itself.
func Compiled(t reflect.Type) func(raw []byte) (object any, plain bool) {
	read := (&compiler{made: map[reflect.Type]decoder{}}).object(t)
	if read == nil {
		return nil
	}
	memory, strings := newMemory(), decode.NewStrings()
	n := 0
	return func(raw []byte) (object any, plain bool) {
		n++
		r := reader{strings: strings, counts: n%sampled == 0}
		memory.begin(&r, len(raw))
		made := reflect.New(t)
		plain = read(&r, raw, made.Elem()) == nil
		return made.Interface(), plain
	}
}

// Remembered returns how many values a decoder remembers, and the bytes of their texts.
func Remembered[T any](d *Decoder[T]) (values, bytes int) {
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	now := d.memory.now.Load()
	for _, g := range []*generation{now.young, now.old} {
		values += g.size
		bytes += g.text
	}
	return values, bytes
}
