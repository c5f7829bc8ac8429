package wire

import (
	"slices"

	"github.com/gapless-io/gapless/kube/scan"
)

// Metadata returns the JSON of the object's metadata, nil if it has none. The bytes are
// shared and must not be modified. Those of an object that shares texts are put together at each call; see MetadataParts.
func (o *Object) Metadata() []byte {
	switch {
	case o.at.metadata == 0:
		return nil
	case len(o.shared) == 0:
		return slices.Clip(o.raw[o.at.metadata-1 : o.metadataEnd()])
	}
	return slices.Concat(o.MetadataParts(make([][]byte, 0, 2*mostShared+1))...)
}

// MetadataParts appends the bytes of Metadata to parts, in pieces, which must not be modified.
func (o *Object) MetadataParts(parts [][]byte) [][]byte {
	if o.at.metadata == 0 {
		return parts
	}
	from := o.at.metadata - 1
	for _, s := range o.shared { // they are in managedFields
		at := len(o.raw) - s.after
		parts = append(parts, o.raw[from:at], s.Bytes)
		from = at
	}
	return append(parts, o.raw[from:o.metadataEnd()])
}

// metadataEnd is just behind the brace that closes the metadata, if there is one.
func (o *Object) metadataEnd() int { return len(o.raw) - o.at.after }

// WithoutManagedFields returns the object without metadata.managedFields, everything else
// unchanged: the object itself if it has none.
func (o *Object) WithoutManagedFields() *Object {
	o = o.whole()
	from, to := o.managedFields()
	if to == 0 {
		return o
	}
	if from < o.at.cutEnd && to > o.at.cut || from == o.at.metadata {
		// The comma between this member and the resourceVersion can be either's, and
		// metadata may become empty.
		other, err := parse(slices.Concat(o.raw[:from], o.raw[to:]), nil)
		if err != nil {
			return o // cannot be: it was parsed with the member
		}
		o = o.read()
		other.paths, other.values = o.paths, o.values
		return other.WithoutManagedFields() // it may be there twice
	}
	other := o.copied()
	other.splice(from, to, nil, false)
	return other.WithoutManagedFields()
}

// managedFields returns the place of metadata.managedFields with one comma, in an object whose
// bytes are its own.
func (o *Object) managedFields() (from, to int) {
	if o.at.metadata == 0 || o.at.bareMetadata {
		return 0, 0
	}
	s := newScanner(o.raw)
	s.Pos = o.at.metadata - 1
	comma := 0 // of the member before
	more, err := s.Enter('}')
	for more && err == nil {
		s.Peek()
		start := s.Pos
		var key scan.Token
		if key, err = s.Key(); err != nil {
			break
		}
		if _, err = s.Skip(); err != nil {
			break
		}
		if string(s.value(key)) == "managedFields" {
			switch end := s.Pos; {
			case s.Peek() == ',':
				return start, s.Pos + 1
			case comma > 0:
				return comma, end
			default:
				return start, end
			}
		}
		s.Peek()
		comma = s.Pos
		more, err = s.Next('}')
	}
	return 0, 0
}
