package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
)

// magic begins a value in protobuf. A message runtime.Unknown follows: the kind, the message of the object,
// and two empty texts (apimachinery runtime/serializer/protobuf).
const magic = "k8s\x00"

// The fields of runtime.Unknown and of runtime.TypeMeta inside of it.
const (
	fieldTypeMeta        protowire.Number = 1
	fieldRaw             protowire.Number = 2
	fieldContentEncoding protowire.Number = 3
	fieldContentType     protowire.Number = 4

	fieldAPIVersion protowire.Number = 1
	fieldKind       protowire.Number = 2
)

// header is the part of an envelope before the length of the message.
func header(gvk kinds.GroupVersionKind) ([]byte, error) {
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	meta := runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}
	encoded, err := meta.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode the kind %s: %w", gvk, err)
	}
	h := protowire.AppendTag([]byte(magic), fieldTypeMeta, protowire.BytesType)
	h = protowire.AppendBytes(h, encoded)
	return protowire.AppendTag(h, fieldRaw, protowire.BytesType), nil
}

// seal returns the envelope with a header and a message.
func seal(header, message []byte) []byte {
	sealed := make([]byte, 0, len(header)+binary.MaxVarintLen32+len(message)+4)
	sealed = protowire.AppendBytes(append(sealed, header...), message)
	for _, empty := range []protowire.Number{fieldContentEncoding, fieldContentType} {
		sealed = protowire.AppendVarint(protowire.AppendTag(sealed, empty, protowire.BytesType), 0)
	}
	return sealed
}

// envelope is one that was opened. All members are parts of the value.
type envelope struct{ apiVersion, kind, message []byte }

// open reads the envelope of a value that begins with magic.
func open(value []byte) (envelope, error) {
	var e envelope
	var encoding []byte
	err := fields(value[len(magic):], func(number protowire.Number, data []byte) error {
		switch number {
		case fieldTypeMeta:
			return fields(data, func(number protowire.Number, data []byte) error {
				switch number {
				case fieldAPIVersion:
					e.apiVersion = data
				case fieldKind:
					e.kind = data
				}
				return nil
			})
		case fieldRaw:
			e.message = data
		case fieldContentEncoding:
			encoding = data
		}
		return nil
	})
	if err == nil && len(encoding) > 0 {
		err = fmt.Errorf("unknown content encoding %q", encoding)
	}
	if err != nil {
		return e, fmt.Errorf("read the envelope: %w", err)
	}
	return e, nil
}

// fields calls yield for each field of a message that consists of bytes.
func fields(data []byte, yield func(number protowire.Number, data []byte) error) error {
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, typ, data); n < 0 {
				return protowire.ParseError(n)
			}
			data = data[n:]
			continue
		}
		content, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := yield(number, content); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// form is how a value is encoded.
type form int

const (
	unknownForm form = iota
	protobufForm
	jsonForm
	encryptedForm
	cborForm
)

// formOf looks at the beginning of a value.
func formOf(value []byte) form {
	switch {
	case bytes.HasPrefix(value, []byte(magic)):
		return protobufForm
	case bytes.HasPrefix(value, []byte("k8s:enc:")):
		return encryptedForm
	case bytes.HasPrefix(value, []byte("\xd9\xd9\xf7")): // the tag "self-described CBOR"
		return cborForm
	case bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("{")):
		return jsonForm
	}
	return unknownForm
}
