package format_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const seed = 0xfeed

// example returns an encoded record.
func example(s format.Stamp, kind format.Kind, key string, value []byte) []byte {
	b := format.NewRecord(kind, key, value)
	format.StampRecord(b, s)
	format.SealRecord(b, seed)
	return b
}

func examples() [][]byte {
	return [][]byte{
		example(format.Stamp{Revision: 1, Create: 1, Millis: 5}, format.KindPut, "pods/a", []byte("value")),
		example(format.Stamp{Revision: 9, Create: 1, Previous: 1, Millis: 5}, format.KindPut, "pods/default/long-name", nil),
		example(format.Stamp{Revision: 10, Previous: 9, Millis: 6}, format.KindDelete, "pods/a", nil),
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	b := examples()[1]
	r, size, err := format.DecodeRecord(append(bytes.Clone(b), "more"...), seed)
	if err != nil || size != len(b) {
		t.Fatalf("size %d of %d, %v", size, len(b), err)
	}
	if r.Key != "pods/default/long-name" || r.Revision != 9 || r.Create != 1 || r.Previous != 1 || r.Millis != 5 ||
		r.Kind != format.KindPut {
		t.Errorf("decoded %+v", r)
	}
}

func TestEveryFlippedBitOfARecordIsDetected(t *testing.T) {
	for _, b := range examples() {
		for i := range len(b) * 8 {
			bad := bytes.Clone(b)
			bad[i/8] ^= 1 << (i % 8)
			if r, _, err := format.DecodeRecord(bad, seed); !errors.Is(err, format.ErrBadRecord) {
				t.Fatalf("bit %d: %+v, %v", i, r, err)
			}
		}
		if _, _, err := format.DecodeRecord(b, seed+1); !errors.Is(err, format.ErrBadRecord) {
			t.Errorf("a record of another segment is taken: %v", err)
		}
	}
}

func TestFramesAreBoundToTheirPlace(t *testing.T) {
	b := slices.Concat(make([]byte, format.FrameHeaderBytes), examples()[0])
	b, f := format.SealFrame(b, format.Frame{Count: 1, First: 1, Chain: 7}, seed, 64)
	if int64(len(b)) != f.Size() || len(b)%format.FrameAlign != 0 {
		t.Errorf("the frame has %d bytes, want %d", len(b), f.Size())
	}
	got, err := format.DecodeFrame(b, seed, 64)
	if err != nil || got != f {
		t.Fatalf("decoded %+v, %v, want %+v", got, err, f)
	}
	records, err := format.DecodePayload(f, b[format.FrameHeaderBytes:][:f.Bytes], seed, 64)
	if err != nil || len(records) != 1 || records[0].Key != "pods/a" || records[0].Offset != 64+format.FrameHeaderBytes {
		t.Errorf("records %+v, %v", records, err)
	}
	if _, err := format.DecodeFrame(b, seed, 128); !errors.Is(err, format.ErrBadFrame) {
		t.Errorf("a frame at another place is taken: %v", err)
	}
	if _, err := format.DecodePayload(f, b[format.FrameHeaderBytes:][:f.Bytes], seed, 128); !errors.Is(err, format.ErrBadFrame) {
		t.Errorf("records at another place are taken: %v", err)
	}
	for i := range format.FrameHeaderBytes * 8 {
		bad := bytes.Clone(b)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := format.DecodeFrame(bad, seed, 64); err == nil {
			t.Fatalf("bit %d: %+v", i, got)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	for _, b := range examples() {
		f.Add(b, uint32(seed))
	}
	f.Add(make([]byte, format.RecordHeaderBytes), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, seed uint32) {
		if _, size, err := format.ParseRecord(b); err == nil && (size > len(b) || size < format.RecordHeaderBytes) {
			t.Fatalf("size %d of %d bytes", size, len(b))
		}
		r, size, err := format.DecodeRecord(b, seed)
		if err != nil {
			if !errors.Is(err, format.ErrBadRecord) {
				t.Fatalf("%v is not ErrBadRecord", err)
			}
			return
		}
		again := format.NewRecord(r.Kind, r.Key, r.Value)
		format.StampRecord(again, r.Stamp)
		if len(again) != size {
			t.Fatalf("encoded again it has %d bytes, not %d", len(again), size)
		}
	})
}

func FuzzDecodeFrame(f *testing.F) {
	b := append(make([]byte, format.FrameHeaderBytes), bytes.Join(examples(), nil)...)
	b, _ = format.SealFrame(b, format.Frame{Count: 3, First: 1}, seed, 64)
	f.Add(b, uint32(seed), int64(64))
	f.Fuzz(func(t *testing.T, b []byte, seed uint32, off int64) {
		frame, err := format.DecodeFrame(b, seed, off)
		if err != nil {
			if !errors.Is(err, format.ErrBadFrame) {
				t.Fatalf("%v is not ErrBadFrame", err)
			}
			return
		}
		if len(b) < format.FrameHeaderBytes+frame.Bytes {
			return
		}
		records, err := format.DecodePayload(frame, b[format.FrameHeaderBytes:][:frame.Bytes], seed, off)
		if err == nil && len(records) != frame.Count {
			t.Fatalf("%d records, want %d", len(records), frame.Count)
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	b, err := format.EncodeManifest(format.Manifest{
		UUID: "000102030405060708090a0b0c0d0e0f", Base: 10, NextSegment: 3,
		Compacted: format.Mark{Revision: 20, Millis: 1, Reason: "age"},
		Floors:    map[string]format.Mark{"pods": {Revision: 19, Millis: 1, Reason: "age"}},
		Segments: []format.SegmentEntry{
			{ID: 1, Kind: format.KindBase, First: 11, Last: 19, End: 100, Chain: 5, Sealed: true},
			{ID: 2, Kind: format.KindLog, First: 21, Last: 20, End: 64, Size: 4096},
		},
	})
	if err != nil {
		f.Fatalf("encode the manifest: %v", err)
	}
	if _, err := format.DecodeManifest(b); err != nil {
		f.Fatalf("decode the manifest: %v", err)
	}
	f.Add(b)
	f.Add([]byte("gapless-revlog 2 0\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := format.DecodeManifest(b)
		if err != nil {
			if !errors.Is(err, format.ErrBadManifest) && !errors.Is(err, format.ErrNewerManifest) {
				t.Fatalf("%v is neither ErrBadManifest nor ErrNewerManifest", err)
			}
			return
		}
		if _, err := format.EncodeManifest(m); err != nil {
			t.Fatalf("encode the manifest: %v", err)
		}
		for _, e := range m.Segments {
			header := format.EncodeSegmentHeader(e, m.ID(), 7)
			if chain, err := format.CheckSegmentHeader(header, e, m.ID()); err != nil || chain != 7 {
				t.Fatalf("segment %s: chain %d, %v", e.Name(), chain, err)
			}
		}
	})
}
