package client

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

// ErrProtobuf is wrapped by the error for an answer in Kubernetes' protobuf encoding that
// cannot be decoded, together with the *kube.DecodeError that gives the reason. The
// server's JSON may still be correct.
var ErrProtobuf = errors.New("broken protobuf")

// distrusted adds ErrProtobuf to an error that says that what was read is wrong.
func distrusted(err error) error {
	if _, is := errors.AsType[*kube.DecodeError](err); is {
		return fmt.Errorf("%w: %w", ErrProtobuf, err)
	}
	return err
}

// DecodeProtobufList is DecodeList for a list in Kubernetes' protobuf encoding.
// Each item comes in an envelope of its own, without kind; see [OpenEnvelope].
func DecodeProtobufList(r io.Reader, each func(item []byte) error) (metav1.ListMeta, error) {
	return decodeProtobufList(r, Form{}, func(item []byte) error { return each(bytes.Clone(item)) })
}

// decodeProtobufList lends each item until each returns.
func decodeProtobufList(r io.Reader, form Form, each func(item []byte) error) (metav1.ListMeta, error) {
	source := &valueReader{r: r, left: math.MaxInt}
	d := protobufList{in: bufio.NewReaderSize(source, 64<<10), form: form, each: each}
	err := d.envelope()
	switch {
	case err == nil, d.refused != nil:
	case source.err != nil:
		err = source.err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		// The connection did not break: this is all that the server had to say.
		err = distrusted(d.wrong("the list ends in the middle"))
	default:
		err = distrusted(err)
	}
	return d.meta, err
}

// protobufList reads a runtime.Unknown around a list, whose items it never holds
// together: only their lengths say where they end.
type protobufList struct {
	in   *bufio.Reader
	at   int64 // how much was read
	form Form
	each func([]byte) error
	meta metav1.ListMeta
	kind string
	item []byte // what was lent

	refused error // by each
}

func (d *protobufList) wrong(why string) error {
	return &kube.DecodeError{Offset: int(d.at), Why: why}
}

// envelope reads all of it.
func (d *protobufList) envelope() error {
	begin, err := d.in.Peek(len(magic))
	if !IsProtobuf(begin) {
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return d.wrong("it does not begin as protobuf of Kubernetes does")
	}
	_, _ = d.in.Discard(len(magic)) // it is there
	d.at = int64(len(magic))
	listed := false
	for {
		if _, err := d.in.Peek(1); errors.Is(err, io.EOF) {
			break
		}
		number, n, err := d.field(math.MaxInt64)
		switch {
		case err != nil:
			return err
		case number == unknownRaw && listed:
			return d.wrong("a second list")
		case number == unknownRaw:
			listed = true
			err = d.list(d.at + n)
		case number == unknownTypeMeta:
			err = d.typeMeta(n)
		case number == unknownContentEncoding, number == unknownContentType:
			var value []byte
			if value, err = d.value(n); err == nil {
				err = checkContent(field{number: number, value: value, at: int(d.at) - len(value)})
			}
		default:
			err = d.skip(n)
		}
		if err != nil {
			return err
		}
	}
	if !listed {
		return d.wrong("the answer has no list")
	}
	return d.form.checkKind(partial+"List", d.kind)
}

func (d *protobufList) typeMeta(n int64) error {
	value, err := d.value(n)
	if err != nil {
		return err
	}
	version, kind := []byte(nil), []byte(d.kind)
	if err := readTypeMeta(field{value: value, at: int(d.at) - len(value)}, &version, &kind); err != nil {
		return err
	}
	d.kind = string(kind)
	if d.kind != "" && !strings.HasSuffix(d.kind, "List") {
		return d.wrong(fmt.Sprintf("the answer is a %.64s, no list", d.kind))
	}
	// Before the items, if the server sends it first, as servers do.
	return d.form.checkKind(partial+"List", d.kind)
}

// list reads the list, which ends at an offset.
func (d *protobufList) list(end int64) error {
	for d.at < end {
		number, n, err := d.field(end)
		if err != nil {
			return err
		}
		switch number {
		case listMeta:
			var value []byte
			if value, err = d.value(n); err == nil {
				if wrong := d.meta.Unmarshal(value); wrong != nil {
					err = d.wrong("metadata of the list: " + wrong.Error())
				}
			}
		case listItems:
			err = d.one(n)
		default:
			err = d.skip(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// one reads an item and passes it on in an envelope.
func (d *protobufList) one(n int64) error {
	if n > maxValue {
		return d.wrong(fmt.Sprintf("a value of more than %d bytes", maxValue))
	}
	item := append(d.item[:0], magic...)
	item = protowire.AppendTag(item, unknownRaw, protowire.BytesType)
	item = protowire.AppendVarint(item, uint64(n)) //nolint:gosec // it came as one
	var err error
	if d.item, err = d.fill(item, int(n)); err != nil {
		return err
	}
	d.refused = d.each(d.item)
	return d.refused
}

// field reads up to the value of the next field, of n bytes, which must end before
// end. A field that has no bytes for a value is read whole, and called 0.
func (d *protobufList) field(end int64) (number int32, n int64, err error) {
	head, err := d.varint()
	if err != nil {
		return 0, 0, err
	}
	tag, wire := protowire.DecodeTag(head)
	if !tag.IsValid() {
		return 0, 0, d.wrong("no field number")
	}
	var size uint64 // of what follows
	switch wire {
	case protowire.BytesType:
		size, err = d.varint()
	case protowire.VarintType:
		_, err = d.varint()
	case protowire.Fixed32Type:
		size = 4
	case protowire.Fixed64Type:
		size = 8
	case protowire.StartGroupType, protowire.EndGroupType:
		fallthrough
	default:
		err = d.wrong(unknownWireType(wire))
	}
	if err != nil {
		return 0, 0, err
	}
	if d.at > end || size > uint64(end-d.at) { //nolint:gosec // not negative
		return 0, 0, d.wrong("a field is longer than the message around it")
	}
	if wire != protowire.BytesType {
		return 0, 0, d.skip(int64(size)) //nolint:gosec // at most 8
	}
	return int32(tag), int64(size), nil //nolint:gosec // at most end
}

func (d *protobufList) varint() (uint64, error) {
	v, err := binary.ReadUvarint(d)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = d.wrong(err.Error())
	}
	return v, err
}

// ReadByte reads one byte of a number.
func (d *protobufList) ReadByte() (byte, error) {
	b, err := d.in.ReadByte()
	if err == nil {
		d.at++
	}
	return b, err
}

func (d *protobufList) skip(n int64) error {
	m, err := io.CopyN(io.Discard, d.in, n)
	d.at += m
	return err
}

// value reads something small.
func (d *protobufList) value(n int64) ([]byte, error) {
	if n > maxValue {
		return nil, d.wrong(fmt.Sprintf("a value of more than %d bytes", maxValue))
	}
	return d.fill(nil, int(n))
}

// fill appends n bytes to b. It trusts n no further than bytes come.
func (d *protobufList) fill(b []byte, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, 1<<20)
		b = slices.Grow(b, step)
		m, err := io.ReadFull(d.in, b[len(b):len(b)+step])
		d.at += int64(m)
		if err != nil {
			return b, err
		}
		b, n = b[:len(b)+step], n-step
	}
	return b, nil
}
