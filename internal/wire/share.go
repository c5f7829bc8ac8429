package wire

import (
	"slices"

	"github.com/gapless-io/gapless/internal/wire/texts"
)

const (
	// shortestShared is the length, in bytes, from which on a text is shared.
	shortestShared = 96
	// mostShared is how many texts an object shares. Objects have a few managers; of
	// updates there are at most ten.
	mostShared = 16
)

// shared is a text at a place in an object.
type shared struct {
	*texts.Text

	// after is how many of the object's own bytes follow. Counted from the end the place
	// stays the same when the resourceVersion or the apiVersion before it is replaced.
	after int
}

// Share returns the object with the texts in its managedFields shared with other objects, and
// without them in its own bytes; the object itself if it has none to share. Who manages which
// fields is most of the bytes of many objects, and differs little between those of a kind. JSON
// then puts the bytes together at each call; Parts and Size do not.
func (o *Object) Share(with *texts.Set) *Object {
	raw, shared := o.split(with.Text, 0)
	if shared == nil {
		return o
	}
	other := o.copied()
	other.raw, other.shared = raw, shared
	return other
}

// split returns the texts that find returns, and a copy of the object's own bytes without them, with room for some
// more at its end; nil if find returns none. It returns nil for one that is not shared.
func (o *Object) split(find func([]byte) *texts.Text, room int) (raw []byte, all []shared) {
	if o.at.managed <= max(o.at.metadata, o.at.rvEnd, o.at.cutEnd, o.at.apiVersionEnd) || len(o.shared) > 0 {
		return nil, nil
	}
	var found [mostShared]struct {
		from, to int
		*texts.Text
	}
	n, less := 0, 0
	o.managers(func(from, to int) bool {
		if to-from >= shortestShared {
			if text := find(o.raw[from:to]); text != nil {
				found[n].from, found[n].to, found[n].Text = from, to, text
				n++
				less += to - from
			}
		}
		return n < mostShared
	})
	if n == 0 {
		return nil, nil
	}
	raw = make([]byte, 0, len(o.raw)-less+room)
	all = make([]shared, 0, n)
	begin := 0
	for _, place := range found[:n] {
		raw = append(raw, o.raw[begin:place.from]...)
		begin = place.to
		all = append(all, shared{Text: place.Text, after: len(raw)})
	}
	raw = append(raw, o.raw[begin:]...)
	for i := range all {
		all[i].after = len(raw) - all[i].after
	}
	return raw, all
}

// managers yields the places of each entry of managedFields: what precedes the time and what follows
// it. In the stored form the time comes last; kube-apiserver writes it before the fields.
func (o *Object) managers(yield func(from, to int) bool) {
	s := newScanner(o.raw)
	s.Pos = o.at.managed
	if s.Peek() != '[' {
		return
	}
	more, err := s.Enter(']')
	for more && err == nil && s.Peek() == '{' {
		from := s.Pos
		time, behind, failed := s.SkipAround("time")
		if failed != nil || !yield(from, time) || behind < s.Pos && !yield(behind, s.Pos) {
			return
		}
		more, err = s.Next(']')
	}
}

// Size returns the length of JSON, in bytes.
func (o *Object) Size() int {
	n := len(o.raw)
	for _, s := range o.shared {
		n += len(s.Bytes)
	}
	return n
}

// Parts appends the bytes of JSON to parts, in pieces, which must not be modified.
func (o *Object) Parts(parts [][]byte) [][]byte { return o.partsFrom(0, parts) }

// UntypedParts is Parts of what Untyped returns.
func (o *Object) UntypedParts(parts [][]byte) [][]byte {
	if from := o.untypedFrom(); from > 0 {
		return o.partsFrom(from, parts)
	}
	return append(parts, o.Untyped())
}

// partsFrom is Parts without the first bytes, before all that is shared.
func (o *Object) partsFrom(from int, parts [][]byte) [][]byte {
	for _, s := range o.shared {
		at := len(o.raw) - s.after
		parts = append(parts, o.raw[from:at], s.Bytes)
		from = at
	}
	return append(parts, o.raw[from:])
}

// whole returns the object with all bytes its own.
func (o *Object) whole() *Object {
	if len(o.shared) == 0 {
		return o
	}
	other := o.copied()
	other.raw, other.shared = slices.Concat(o.Parts(make([][]byte, 0, 2*mostShared+1))...), nil
	return other
}
