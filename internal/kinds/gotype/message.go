package gotype

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// message is a struct as a protobuf message has it.
type message struct {
	members []*field // in the order of their names, as the canonical form has them
	places  places
	// unusual says that the struct, even an empty one, has something that AppendMessage knows nothing of.
	unusual bool
}

// place is what a field of a message is: a member of the struct, or those of a struct that is embedded in it.
type place struct {
	wire     byte // how its value is encoded; see wireBytes
	repeated bool
	member   *field
	embedded places
}

// places are the fields of a message by their numbers. Those that are not there are zero.
type places []place

// The encodings of protobuf that messages of Kubernetes have.
const (
	wireVarint = 0
	wireBytes  = 2
)

// largestNumber bounds the places of a message; k8s.io/api has numbers below 100.
const largestNumber = 1000

// add adds a field of a struct, if it is one of the message. Only the number is taken from the tag: upstream's tags are
// not always right about the rest, and are not what its decoders are made of.
func (all *places) add(f reflect.StructField, member *field) {
	t := &member.typ
	repeated := (t.kind == sliceKind || t.kind == mapKind) && !t.isMessage
	if t.kind == pointerKind {
		t = t.elem
	}
	p := place{wire: wireBytes, repeated: repeated, member: member}
	if t.kind == integerKind || t.kind == boolKind {
		p.wire = wireVarint
	}
	all.put(f, p)
}

// addEmbedded adds an embedded struct, if it is a field of the message.
func (all *places) addEmbedded(f reflect.StructField, inside places) {
	all.put(f, place{wire: wireBytes, embedded: inside})
}

// put puts a field where its number says. Some have none, and are in no message: apiVersion and kind of an object.
func (all *places) put(f reflect.StructField, p place) {
	parts := strings.Split(f.Tag.Get("protobuf"), ",") // like "bytes,1,opt,name=metadata"
	if len(parts) < 2 {
		return
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil || number <= 0 || number > largestNumber {
		return
	}
	if number >= len(*all) {
		*all = append(*all, make(places, number+1-len(*all))...)
	}
	(*all)[number] = p
}

// messageOf completes what is known of the message of a struct with some fields.
func messageOf(fields []*field, all places) message {
	m := message{members: slices.Clone(fields), places: all}
	slices.SortFunc(m.members, func(a, b *field) int { return cmp.Compare(a.name, b.name) })
	for i, f := range m.members {
		f.slot = i
		if i > 0 && m.members[i-1].name == f.name {
			m.unusual = true
		}
		// Whether another struct is zero is up to its IsZero method.
		if f.isZero != nil && f.typ.kind != timeKind {
			m.unusual = true
		}
	}
	return m
}

// isMessage reports whether values of a type are messages of their own, as some lists are.
func isMessage(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ Unmarshal(data []byte) error }]())
}
