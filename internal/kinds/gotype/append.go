package gotype

import (
	"bytes"
	"encoding/base64"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gapless-io/gapless/internal/wire"
)

// AppendMessage appends to b what wire.Canonical makes of the struct that a protobuf message is decoded into, as an
// object of an apiVersion and a kind, and without metadata.selfLink. It makes neither the struct nor a tree, for a
// fifth of the time. It returns false for a message with anything unusual in it, such as a field that occurs
// twice, or that is not known: whoever decodes it knows what that is. It does not keep the message, and b may have been
// written to.
func (s *Struct) AppendMessage(b []byte, apiVersion, kind string, msg []byte) ([]byte, bool) {
	if len(msg) > math.MaxInt32 {
		return b, false
	}
	a := appenders.Get().(*appender) //nolint:forcetypeassert // the pool holds nothing else
	defer a.release()
	a.msg, a.buf, a.depth = msg, b, 0
	ok := a.root(s, apiVersion, kind)
	return a.buf, ok
}

// Always reports whether AppendMessage writes a member of this name in any case, as an object.
func (s *Struct) Always(name string) bool {
	f := s.fields[name]
	return f != nil && f.typ.kind == structKind
}

// appenders are used again: the memory of one is that of the slots.
var appenders = sync.Pool{New: func() any { return &appender{} }} //nolint:gochecknoglobals // scratch memory

// appender writes a message as JSON. What it notes of the message are places in it, which cost the garbage
// collector nothing.
type appender struct {
	msg     []byte
	buf     []byte
	slots   []slot  // of the messages that are being written, outermost first
	entries []entry // of the maps that are being written
	depth   int
}

// slot is what a message has of a member: its value is msg[from:to], or a number. If it is repeated, the message goes on
// from the first one up to to.
type slot struct {
	number   uint64
	from, to int32
	count    int32
}

// entry is one of a map.
type entry struct {
	from, to int32 // of the key
	value    slot
}

// deepest is how deep messages may nest; those of objects nest below 20 deep. mostSlots bounds the scratch memory that is
// kept.
const (
	deepest   = 100
	mostSlots = 1 << 10
)

func (a *appender) release() {
	a.msg, a.buf, a.slots, a.entries = nil, nil, a.slots[:0], a.entries[:0]
	if cap(a.slots) <= mostSlots && cap(a.entries) <= mostSlots {
		appenders.Put(a)
	}
}

// data is the value of a slot, if it is no number.
func (a *appender) data(at slot) []byte { return a.msg[at.from:at.to] }

// root writes an object: what tells what it is comes first.
func (a *appender) root(s *Struct, apiVersion, kind string) bool {
	frame, ok := a.open(s, slot{to: int32(len(a.msg))}) //nolint:gosec // AppendMessage has looked
	if !ok {
		return false
	}
	a.buf = wire.AppendString(append(a.buf, `{"apiVersion":`...), apiVersion)
	a.buf = wire.AppendString(append(a.buf, `,"kind":`...), kind)
	if f := s.fields["metadata"]; f == nil || f.typ.kind != structKind || !a.metadata(f, a.slots[frame+f.slot]) {
		return false
	}
	for _, f := range s.message.members {
		switch f.name {
		case "apiVersion", "kind", "metadata":
			continue
		}
		if !a.member(f, frame) {
			return false
		}
	}
	a.close(frame)
	return true
}

// metadata writes the metadata of an object, without what is not stored.
func (a *appender) metadata(f *field, at slot) bool {
	a.buf = append(append(append(a.buf, ','), f.label...), '{')
	frame, ok := a.open(f.typ.object, at)
	if !ok {
		return false
	}
	for _, f := range f.typ.object.message.members {
		switch f.name {
		case "resourceVersion", "selfLink":
			continue
		}
		if !a.member(f, frame) {
			return false
		}
	}
	a.close(frame)
	return true
}

// object writes a struct.
func (a *appender) object(s *Struct, at slot) bool {
	a.buf = append(a.buf, '{')
	frame, ok := a.open(s, at)
	if !ok {
		return false
	}
	for _, f := range s.message.members {
		if !a.member(f, frame) {
			return false
		}
	}
	a.close(frame)
	return true
}

// open finds out what a message has of the members of a struct. The first slot of them is returned.
func (a *appender) open(s *Struct, at slot) (frame int, ok bool) {
	if a.depth++; a.depth > deepest || s.message.unusual {
		return 0, false
	}
	frame = len(a.slots)
	a.slots = slices.Grow(a.slots, len(s.message.members))[:frame+len(s.message.members)]
	slots := a.slots[frame:]
	clear(slots)
	return frame, s.message.places.read(a.msg[:at.to], int(at.from), slots)
}

// close ends an object whose slots begin at frame.
func (a *appender) close(frame int) {
	a.buf = append(a.buf, '}')
	a.slots = a.slots[:frame]
	a.depth--
}

// read fills the slots of the members that a message has, which begins at a place in msg and goes up to its end. It
// returns false for anything unusual.
func (all *places) read(msg []byte, at int, slots []slot) bool {
	for at < len(msg) {
		number, encoding, value := tag(msg, at)
		if value == 0 || number >= len(*all) || (*all)[number].wire != encoding {
			return false
		}
		p := &(*all)[number]
		found, next := consume(msg, value, encoding)
		switch {
		case next == 0:
			return false
		case p.embedded != nil:
			if !p.embedded.read(msg[:found.to], int(found.from), slots) {
				return false
			}
		case p.member == nil:
			return false
		default:
			to := &slots[p.member.slot]
			if to.count > 0 && !p.repeated {
				return false
			}
			if to.count == 0 {
				found.count = 0
				if *to = found; p.repeated {
					to.from, to.to = int32(at), int32(len(msg)) //nolint:gosec // AppendMessage has looked
				}
			}
			to.count++
		}
		at = next
	}
	return true
}

// tag reads the number and the encoding of a field, and returns where its value begins; 0: there is none.
func tag(msg []byte, at int) (number int, encoding byte, value int) {
	if at >= len(msg) {
		return 0, 0, 0
	}
	if b := msg[at]; b < 0x80 {
		return int(b >> 3), b & 7, at + 1
	}
	v, n := protowire.ConsumeVarint(msg[at:])
	if n < 0 || v>>3 > largestNumber {
		return 0, 0, 0
	}
	return int(v >> 3), byte(v & 7), at + n //nolint:gosec // it is small
}

// consume reads the value of a field, and returns where that ends; 0: there is none.
func consume(msg []byte, at int, encoding byte) (found slot, next int) {
	if at >= len(msg) {
		return slot{}, 0
	}
	v, n := uint64(msg[at]), 1
	if v >= 0x80 {
		if v, n = protowire.ConsumeVarint(msg[at:]); n < 0 {
			return slot{}, 0
		}
	}
	at += n
	switch encoding {
	case wireVarint:
		return slot{number: v, count: 1}, at
	case wireBytes:
		if v > uint64(len(msg)-at) {
			return slot{}, 0
		}
		end := at + int(v)                                          //nolint:gosec // checked above
		return slot{from: int32(at), to: int32(end), count: 1}, end //nolint:gosec // AppendMessage has looked
	}
	return slot{}, 0
}

// member writes a member of the message whose slots begin at frame, unless it is left out.
func (a *appender) member(f *field, frame int) bool {
	at := a.slots[frame+f.slot]
	if f.omitEmpty && f.typ.isEmptyIn(at) {
		return true
	}
	if f.isZero != nil { // it is a time
		if t, ok := a.time(at); !ok || t.IsZero() {
			return ok
		}
	}
	if a.buf[len(a.buf)-1] != '{' {
		a.buf = append(a.buf, ',')
	}
	a.buf = append(a.buf, f.label...)
	return a.value(&f.typ, at)
}

// isEmptyIn reports whether omitempty leaves out a value.
func (t *valueType) isEmptyIn(at slot) bool {
	switch t.kind {
	case stringKind, bytesKind:
		return at.from == at.to
	case integerKind:
		return at.number == 0 || t.of.Bits() == 32 && uint32(at.number) == 0 //nolint:gosec // so does protobuf
	case boolKind:
		return at.number == 0
	case sliceKind, mapKind, pointerKind:
		return at.count == 0
	case other:
		return at.count == 0 && isEmpty(reflect.Zero(t.of))
	case structKind, timeKind, microTimeKind, quantityKind, intOrStringKind, fieldsKind:
	}
	return false
}

// value writes a value; a slot without a count is that of a zero one.
func (a *appender) value(t *valueType, at slot) bool {
	switch t.kind {
	case stringKind:
		a.buf = wire.AppendText(a.buf, a.data(at))
	case integerKind:
		n := int64(at.number) //nolint:gosec // so does protobuf
		if t.of.Bits() == 32 {
			n = int64(int32(n)) //nolint:gosec // so does protobuf
		}
		a.buf = strconv.AppendInt(a.buf, n, 10)
		return t.of.Bits() >= 32
	case boolKind:
		a.buf = strconv.AppendBool(a.buf, at.number != 0)
	case structKind:
		return a.object(t.object, at)
	case fieldsKind:
		return a.fields(at)
	case timeKind, microTimeKind, quantityKind, intOrStringKind:
		return a.encoded(t.kind, at)
	case bytesKind, pointerKind, sliceKind, mapKind:
		return a.optional(t, at)
	case other:
		return false
	}
	return true
}

// optional writes a value that is null if it is not there.
func (a *appender) optional(t *valueType, at slot) bool {
	switch {
	case at.count == 0:
		a.buf = append(a.buf, "null"...)
		return true
	case t.kind == bytesKind:
		a.buf = append(base64.StdEncoding.AppendEncode(append(a.buf, '"'), a.data(at)), '"')
		return true
	case t.kind == pointerKind:
		return a.value(t.elem, at)
	case t.isMessage:
		return false
	case t.kind == sliceKind:
		return a.list(t.elem, at)
	}
	return a.mapping(t.elem, at)
}

// item returns the item of a repeated field that begins at a place, and where the next one does; 0: another field is there.
func (a *appender) item(of slot, at int) (found slot, next int) {
	msg := a.msg[:of.to]
	first, _, _ := tag(msg, int(of.from))
	number, encoding, value := tag(msg, at)
	if value == 0 || number != first || encoding != wireBytes {
		return slot{}, 0
	}
	return consume(msg, value, encoding)
}

// list writes the items of a list. All of them must follow each other in the message.
func (a *appender) list(item *valueType, all slot) bool {
	switch item.kind { //nolint:exhaustive // no list of k8s.io/api has others in messages
	case stringKind, structKind, timeKind, quantityKind, intOrStringKind:
	default:
		return false
	}
	a.buf = append(a.buf, '[')
	at := int(all.from)
	for i := range all.count {
		one, next := a.item(all, at)
		if next == 0 {
			return false
		}
		if i > 0 {
			a.buf = append(a.buf, ',')
		}
		if !a.value(item, one) {
			return false
		}
		at = next
	}
	a.buf = append(a.buf, ']')
	return true
}

// mapping writes a map. All of its entries must follow each other in the message.
func (a *appender) mapping(value *valueType, all slot) bool {
	encoding := byte(wireBytes)
	switch value.kind { //nolint:exhaustive // no map of k8s.io/api has others in messages
	case stringKind, bytesKind, structKind, quantityKind, intOrStringKind:
	case boolKind, integerKind:
		encoding = wireVarint
	default:
		return false
	}
	frame, at := len(a.entries), int(all.from)
	for range all.count {
		one, next := a.item(all, at)
		if next == 0 || !a.entry(one, encoding) {
			return false
		}
		at = next
	}
	slices.SortFunc(a.entries[frame:], func(x, y entry) int { return bytes.Compare(a.key(x), a.key(y)) })
	a.buf = append(a.buf, '{')
	for i := range int(all.count) {
		e := a.entries[frame+i]
		if i > 0 {
			if bytes.Equal(a.key(a.entries[frame+i-1]), a.key(e)) {
				return false
			}
			a.buf = append(a.buf, ',')
		}
		a.buf = append(wire.AppendText(a.buf, a.key(e)), ':')
		if !a.value(value, e.value) {
			return false
		}
	}
	a.buf = append(a.buf, '}')
	a.entries = a.entries[:frame]
	return true
}

func (a *appender) key(e entry) []byte { return a.msg[e.from:e.to] }

// entry notes an entry of a map, which has a key and a value and nothing else.
func (a *appender) entry(one slot, encoding byte) bool {
	msg := a.msg[:one.to]
	number, keyEncoding, at := tag(msg, int(one.from))
	key, at := consume(msg, at, keyEncoding)
	if at == 0 || number != 1 || keyEncoding != wireBytes {
		return false
	}
	number, valueEncoding, at := tag(msg, at)
	if at == 0 || number != 2 || valueEncoding != encoding {
		return false
	}
	value, end := consume(msg, at, encoding)
	a.entries = append(a.entries, entry{from: key.from, to: key.to, value: value})
	return end == len(msg)
}

// encoded writes a value that has an encoding of its own.
func (a *appender) encoded(k kind, at slot) bool {
	switch k { //nolint:exhaustive // no other kind has one here
	case timeKind:
		t, ok := a.time(at)
		a.moment(t, time.RFC3339)
		return ok
	case microTimeKind:
		var t metav1.MicroTime
		err := t.Unmarshal(a.data(at))
		a.moment(t.Time, metav1.RFC3339Micro)
		return err == nil
	case quantityKind:
		var q resource.Quantity
		if at.count > 0 && q.Unmarshal(a.data(at)) != nil {
			return false
		}
		a.buf = wire.AppendString(a.buf, q.String())
		return true
	case intOrStringKind:
		var v intstr.IntOrString
		if v.Unmarshal(a.data(at)) != nil {
			return false
		}
		if v.Type == intstr.Int {
			a.buf = strconv.AppendInt(a.buf, int64(v.IntVal), 10)
		} else {
			a.buf = wire.AppendString(a.buf, v.StrVal)
		}
		return true
	}
	return false
}

func (a *appender) time(at slot) (time.Time, bool) {
	var t metav1.Time
	err := t.Unmarshal(a.data(at))
	return t.Time, err == nil
}

// moment writes a time; it is null if it is zero.
func (a *appender) moment(t time.Time, layout string) {
	if t.IsZero() {
		a.buf = append(a.buf, "null"...)
	} else {
		a.buf = append(t.UTC().AppendFormat(append(a.buf, '"'), layout), '"')
	}
}

// fields writes metav1.FieldsV1, which is JSON already, if that is in the canonical form.
func (a *appender) fields(at slot) bool {
	msg := a.msg[:at.to]
	number, encoding, value := tag(msg, int(at.from))
	if value == 0 || number != 1 || encoding != wireBytes {
		return false
	}
	found, end := consume(msg, value, encoding)
	raw := a.data(found)
	if end != len(msg) {
		return false
	}
	if end, ok := canonicalSet(raw, 0, 0); !ok || end != len(raw) {
		return false
	}
	a.buf = append(a.buf, raw...)
	return true
}
