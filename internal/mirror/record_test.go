package mirror

import (
	"bytes"
	"testing"

	"github.com/gapless-io/gapless/kube"
)

func FuzzDecodeObject(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x03\xe8"))
	f.Add(encodeObject(1000, []byte(`{"metadata":{"name":"a"}}`)))
	f.Fuzz(func(t *testing.T, b []byte) {
		rv, object, err := decodeObject(b)
		if (err != nil) != (len(b) < versionBytes) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
		if err == nil && !bytes.Equal(encodeObject(rv, object), b) {
			t.Errorf("%x becomes %d and %x", b, rv, object)
		}
	})
}

func FuzzDecodeMark(f *testing.F) {
	f.Add([]byte(nil))
	for kind := range markEnd + 2 {
		f.Add(encodeMark(kind, kube.ResourceVersion(1000)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, rv, err := decodeMark(b)
		switch {
		case err == nil && (kind < markDeletion || kind > markEnd):
			t.Errorf("%x has the kind %d", b, kind)
		case err == nil && !bytes.Equal(encodeMark(kind, rv), b):
			t.Errorf("%x becomes %d and %d", b, kind, rv)
		case err != nil && len(b) == 1+versionBytes && b[0] >= byte(markDeletion) && b[0] <= byte(markEnd):
			t.Errorf("%x: %v", b, err)
		}
	})
}

func FuzzDecodeEpoch(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(encodeEpoch(1, 1000))
	f.Fuzz(func(t *testing.T, b []byte) {
		epoch, before, err := decodeEpoch(b)
		if (err != nil) != (len(b) != 2*versionBytes) {
			t.Errorf("%d bytes: %v", len(b), err)
		}
		if err == nil && !bytes.Equal(encodeEpoch(epoch, before), b) {
			t.Errorf("%x becomes %d and %d", b, epoch, before)
		}
	})
}
