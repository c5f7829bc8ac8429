package client

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/kube"
)

const typeProtobuf = "application/vnd.kubernetes.protobuf"

// magic begins everything that is in Kubernetes' protobuf encoding. A message
// runtime.Unknown follows (apimachinery pkg/runtime/generated.proto).
const magic = "k8s\x00"

// The fields of the messages that are read here. Their numbers never change.
const (
	unknownTypeMeta        = 1
	unknownRaw             = 2
	unknownContentEncoding = 3
	unknownContentType     = 4

	typeMetaAPIVersion = 1
	typeMetaKind       = 2

	objectMeta = 1 // of every object

	metaName            = 1
	metaNamespace       = 3
	metaUID             = 5
	metaResourceVersion = 6
	metaAnnotations     = 12
	metaManagedFields   = 17

	entryKey   = 1 // of every map
	entryValue = 2

	listMeta  = 1 // of every list
	listItems = 2

	eventType   = 1 // metav1.WatchEvent
	eventObject = 2
	rawRaw      = 1 // runtime.RawExtension
)

// Envelope is the decoded envelope of an object in Kubernetes' protobuf encoding. It
// shares the memory of the object.
type Envelope struct {
	APIVersion, Kind []byte // empty for an item of a list, which has none
	// Raw is the object's own message: what its type's Unmarshal takes.
	Raw []byte

	at int // where in the object Raw begins
}

// IsProtobuf reports whether an object from a list or a watch is in
// Kubernetes' protobuf encoding; if not, it is JSON.
func IsProtobuf(object []byte) bool { return bytes.HasPrefix(object, []byte(magic)) }

// OpenEnvelope decodes the envelope of an object for which IsProtobuf is true. Errors:
// *kube.DecodeError.
func OpenEnvelope(object []byte) (Envelope, error) {
	var e Envelope
	if !IsProtobuf(object) {
		return e, &kube.DecodeError{Offset: 0, Why: "it does not begin as protobuf of Kubernetes does"}
	}
	found := false
	err := scan(object[len(magic):], len(magic), func(f field) error {
		switch f.number {
		case unknownTypeMeta:
			return readTypeMeta(f, &e.APIVersion, &e.Kind)
		case unknownRaw:
			e.Raw, e.at, found = f.value, f.at, true
		case unknownContentEncoding, unknownContentType:
			return checkContent(f)
		}
		return nil
	})
	if err == nil && !found {
		err = &kube.DecodeError{Offset: len(object), Why: "the envelope is empty"}
	}
	return e, err
}

// readTypeMeta sets what a TypeMeta contains. A second one in an envelope adds to the first,
// as protobuf merges messages.
func readTypeMeta(f field, version, kind *[]byte) error {
	return scan(f.value, f.at, func(f field) error {
		switch f.number {
		case typeMetaAPIVersion:
			*version = f.value
		case typeMetaKind:
			*kind = f.value
		}
		return nil
	})
}

// checkContent refuses an envelope around something else than protobuf, which no
// server sends that was asked for protobuf.
func checkContent(f field) error {
	if len(f.value) == 0 || f.number == unknownContentType && string(f.value) == typeProtobuf {
		return nil
	}
	return &kube.DecodeError{Offset: f.at, Why: fmt.Sprintf("there is %.64q in the envelope", f.value)}
}

// meta reads the metadata of the object in the envelope.
func (e Envelope) meta() (Meta, error) {
	var m Meta
	err := e.metadata(func(f field) error {
		switch f.number {
		case metaName:
			m.Name = string(f.value)
		case metaNamespace:
			m.Namespace = string(f.value)
		case metaUID:
			m.UID = types.UID(f.value)
		case metaResourceVersion:
			m.ResourceVersion = string(f.value)
		}
		return nil
	})
	return m, err
}

// annotated reports whether the object in the envelope has an annotation.
func (e Envelope) annotated(key, value string) (is bool, err error) {
	err = e.metadata(func(f field) error {
		if f.number != metaAnnotations {
			return nil
		}
		var k, v []byte
		err := scan(f.value, f.at, func(f field) error {
			switch f.number {
			case entryKey:
				k = f.value
			case entryValue:
				v = f.value
			}
			return nil
		})
		if string(k) == key {
			is = string(v) == value
		}
		return err
	})
	return is, err
}

// metadata calls each for the fields of the object's metadata.
func (e Envelope) metadata(each func(field) error) error {
	return scan(e.Raw, e.at, func(f field) error {
		if f.number != objectMeta {
			return nil
		}
		return scan(f.value, f.at, each)
	})
}

// AppendStripped appends the object's own message to b, without
// metadata.managedFields. Errors: *kube.DecodeError.
func (e Envelope) AppendStripped(b []byte) ([]byte, error) {
	pos := e.at
	err := scan(e.Raw, e.at, func(f field) error {
		begin := pos - e.at
		pos += f.size
		if f.number != objectMeta {
			b = append(b, e.Raw[begin:begin+f.size]...)
			return nil
		}
		kept := 0
		err := unmanaged(f, func(part []byte) { kept += len(part) })
		if err != nil {
			return err
		}
		b = protowire.AppendTag(b, objectMeta, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(kept)) //nolint:gosec // a length
		return unmanaged(f, func(part []byte) { b = append(b, part...) })
	})
	return b, err
}

// unmanaged calls each for the fields of metadata that are no managed fields.
func unmanaged(metadata field, each func(part []byte)) error {
	rest := metadata.value
	return scan(metadata.value, metadata.at, func(f field) error {
		if f.number != metaManagedFields {
			each(rest[:f.size])
		}
		rest = rest[f.size:]
		return nil
	})
}
