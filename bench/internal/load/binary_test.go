package load

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
)

// binaryEvent is an event of a ConfigMap in protobuf.
func binaryEvent(kind string, version int, s Stamp) []byte {
	of := func(number int, parts ...[]byte) []byte {
		body := slices.Concat(parts...)
		return append(binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(body))), body...)
	}
	metadata := of(1, of(1, []byte("name")), of(6, fmt.Append(nil, version)))
	object := append(metadata, of(2, of(1, []byte("stamp")), of(2, []byte(s.String())))...)
	envelope := append([]byte("k8s\x00"), slices.Concat(of(1, of(1, []byte("v1"))), of(2, object))...)
	event := append(of(1, []byte(kind)), of(2, of(1, envelope))...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func TestFollowerReadsProtobuf(t *testing.T) {
	for _, piece := range []int{1, 7, 1 << 20} {
		f := NewFollower(0, 2, 1)
		f.Binary = true
		now := time.Now().UnixNano()
		var stream []byte
		for i, s := range []Stamp{
			{Key: 0, Seq: 1, Sent: now}, {Key: 1, Seq: 1, Sent: now}, {Key: 0, Seq: 3, Sent: now}, {Key: 0, Seq: 3, Sent: now},
		} {
			stream = append(stream, binaryEvent("MODIFIED", 10+i, s)...)
		}
		stream = append(stream, binaryEvent("BOOKMARK", 13, Stamp{})...)
		for p := range slices.Chunk(stream, piece) {
			if _, err := f.Write(p); err != nil {
				t.Fatalf("write: %v", err)
			}
		}
		if v := f.Verdict(); f.Events() != 4 || v != (Verdict{Missing: 1, Repeated: 1}) {
			t.Errorf("pieces of %d: %d events, %s", piece, f.Events(), v)
		}
	}
	f := NewFollower(0, 2, 1)
	f.Binary = true
	for _, frame := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x02\x0a\xff", "\x00\x00\x00\x03\x0a\x01A"} {
		if _, err := f.Write([]byte(frame)); err == nil {
			t.Errorf("%q was read", frame)
		}
	}
}
