package wire_test

import (
	"bytes"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/fault/internal/wire"
)

// splitters returns one of each kind.
func splitters() map[string]wire.Splitter {
	return map[string]wire.Splitter{"JSON": &wire.JSON{}, "protobuf": wire.Protobuf{}, "WebSocket": &wire.Socket{}}
}

// split returns the frames in bytes that arrive in pieces of a size, and what is left of them.
func split(t testing.TB, s wire.Splitter, in []byte, size int) (frames []string, rest []byte, tooLarge bool) {
	t.Helper()
	var buf []byte
	for piece := range slices.Chunk(in, size) {
		buf = append(buf, piece...)
		for {
			body, n := s.Next(buf)
			if n < 0 {
				return frames, buf, true
			}
			if n == 0 {
				break
			}
			if n > len(buf) || len(body) > wire.MaxMessage {
				t.Fatalf("a frame of %d bytes takes %d of %d", len(body), n, len(buf))
			}
			if body != nil {
				frames = append(frames, string(body))
			}
			buf = buf[n:]
		}
	}
	return frames, buf, false
}

func TestFramesAreFoundHoweverBytesArrive(t *testing.T) {
	message := wire.SocketFrame(wire.Text, []byte(`{"a":1}`))
	half := wire.SocketFrame(wire.Text, []byte(`{"b`))
	half[0] &^= 0x80 // not the last part
	ping := wire.SocketFrame(0x9, []byte("x"))
	long := bytes.Repeat([]byte("x"), 70_000)
	for name, c := range map[string]struct {
		of   wire.Splitter
		in   []byte
		want []string
	}{
		"lines of JSON":         {&wire.JSON{}, []byte("{\"a\":\"}\\\"\"}\n{}\n"), []string{`{"a":"}\""}`, "{}"}},
		"JSON over lines":       {&wire.JSON{}, []byte("{\n\"a\": [1,\n2]}\n\n"), []string{"{\n\"a\": [1,\n2]}"}},
		"JSON without lines":    {&wire.JSON{}, []byte(`{}{"b":2}`), []string{"{}", `{"b":2}`}},
		"protobuf":              {wire.Protobuf{}, append(wire.Pack(true, []byte("ab")), wire.Pack(true, nil)...), []string{"ab", ""}},
		"a message":             {&wire.Socket{}, message, []string{`{"a":1}`}},
		"a message in parts":    {&wire.Socket{}, slices.Concat(half, ping, wire.SocketFrame(0, []byte(`":2}`))), []string{"", `{"b":2}`}},
		"a message of 64 KiB":   {&wire.Socket{}, wire.SocketFrame(wire.Binary, long), []string{string(long)}},
		"a message of 300 byte": {&wire.Socket{}, wire.SocketFrame(wire.Binary, long[:300]), []string{string(long[:300])}},
	} {
		for _, size := range []int{1, 2, 3, 7, len(c.in)} {
			if got, rest, _ := split(t, c.of, c.in, size); !slices.Equal(got, c.want) || len(bytes.TrimSpace(rest)) > 0 {
				t.Errorf("%s in pieces of %d: %.80q and %.20q", name, size, got, rest)
			}
		}
	}
}

func TestMessageInPartsIsBounded(t *testing.T) {
	part := wire.SocketFrame(wire.Binary, make([]byte, 1<<20))
	part[0] &^= 0x80
	s := &wire.Socket{}
	for range wire.MaxMessage>>20 - 1 {
		if _, n := s.Next(part); n != len(part) {
			t.Fatalf("%d", n)
		}
	}
	if _, n := s.Next(part); n >= 0 {
		t.Error("it grows without a bound")
	}
}

// FuzzSplit: where the pieces end makes no difference, and what a splitter packs it finds.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("{\"a\":\"}\"}\n{}"), uint8(3))
	f.Add(wire.Pack(true, []byte("ab")), uint8(1))
	f.Add(wire.SocketFrame(wire.Text, []byte("{}")), uint8(2))
	f.Add([]byte{0x02, 0x01, 0x61, 0x80, 0x01, 0x62}, uint8(4))
	f.Add([]byte{0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint8(9))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, others := splitters(), splitters()
		for name, s := range whole {
			want, left, large := split(t, s, in, max(1, len(in)))
			got, rest, tooLarge := split(t, others[name], in, max(1, int(size)))
			if !slices.Equal(want, got) || !bytes.Equal(left, rest) || large != tooLarge {
				t.Errorf("%s: %q in pieces of %d gives %q and %q, and %q and %q as a whole", name, in, size, got, rest, want, left)
			}
		}
		packed := append(wire.Pack(true, in), wire.Pack(true, in)...)
		if got, _, _ := split(t, wire.Protobuf{}, packed, max(1, int(size))); len(got) != 2 || got[0] != string(in) {
			t.Errorf("protobuf: %q", got)
		}
		message := wire.SocketFrame(wire.Binary, in)
		if got, _, _ := split(t, &wire.Socket{}, message, max(1, int(size))); len(got) != 1 || got[0] != string(in) {
			t.Errorf("WebSocket: %q", got)
		}
	})
}

// FuzzEvent: no event makes the functions that read it panic, and one that is changed can be
// read again.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"resourceVersion":"12345678901234567890","labels":null}}}`))
	f.Add([]byte(`{"object":[]}`))
	f.Add(wire.Event("ADDED", runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, func() ([]byte, error) { return []byte{10, 0}, nil }))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := wire.TypeOf(false, body)
		changed := wire.ChangeObject(body, func(metadata map[string]any) { metadata["x"] = "y" })
		if after := wire.TypeOf(false, changed); after != before {
			t.Errorf("%q is of type %q, and %q when it is changed to %q", body, before, after, changed)
		}
		wire.TypeOf(true, body)
		unknown, meta, err := wire.OpenEvent(body)
		if err != nil {
			return
		}
		again, _, err := wire.OpenEvent(wire.Event("MODIFIED", unknown.TypeMeta, meta.Marshal))
		if err != nil || again.Kind != unknown.Kind {
			t.Errorf("%q: %v", body, err)
		}
	})
}
