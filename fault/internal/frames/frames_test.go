package frames_test

import (
	"bytes"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/fault/internal/frames"
)

// splitters returns one of each kind.
func splitters() map[string]frames.Splitter {
	return map[string]frames.Splitter{"JSON": &frames.JSON{}, "protobuf": frames.Protobuf{}, "WebSocket": &frames.Socket{}}
}

// split returns what is framed in bytes that arrive in pieces of a size, and what is left of them.
func split(t testing.TB, s frames.Splitter, in []byte, size int) (found []string, rest []byte, tooLarge bool) {
	t.Helper()
	var buf []byte
	for piece := range slices.Chunk(in, size) {
		buf = append(buf, piece...)
		for {
			body, n := s.Next(buf)
			if n < 0 {
				return found, buf, true
			}
			if n == 0 {
				break
			}
			if n > len(buf) || len(body) > frames.MaxMessage {
				t.Fatalf("a frame of %d bytes takes %d of %d", len(body), n, len(buf))
			}
			if body != nil {
				found = append(found, string(body))
			}
			buf = buf[n:]
		}
	}
	return found, buf, false
}

func TestFramesAreFoundHoweverBytesArrive(t *testing.T) {
	message := frames.SocketFrame(frames.Text, []byte(`{"a":1}`))
	half := frames.SocketFrame(frames.Text, []byte(`{"b`))
	half[0] &^= 0x80 // not the last part
	ping := frames.SocketFrame(0x9, []byte("x"))
	long := bytes.Repeat([]byte("x"), 70_000)
	for name, c := range map[string]struct {
		of   frames.Splitter
		in   []byte
		want []string
	}{
		"lines of JSON":      {&frames.JSON{}, []byte("{\"a\":\"}\\\"\"}\n{}\n"), []string{`{"a":"}\""}`, "{}"}},
		"JSON over lines":    {&frames.JSON{}, []byte("{\n\"a\": [1,\n2]}\n\n"), []string{"{\n\"a\": [1,\n2]}"}},
		"JSON without lines": {&frames.JSON{}, []byte(`{}{"b":2}`), []string{"{}", `{"b":2}`}},
		"protobuf": {
			frames.Protobuf{}, append(frames.Pack(true, []byte("ab")), frames.Pack(true, nil)...), []string{"ab", ""},
		},
		"a message": {&frames.Socket{}, message, []string{`{"a":1}`}},
		"a message in parts": {
			&frames.Socket{}, slices.Concat(half, ping, frames.SocketFrame(0, []byte(`":2}`))), []string{"", `{"b":2}`},
		},
		"a message of 64 KiB":   {&frames.Socket{}, frames.SocketFrame(frames.Binary, long), []string{string(long)}},
		"a message of 300 byte": {&frames.Socket{}, frames.SocketFrame(frames.Binary, long[:300]), []string{string(long[:300])}},
	} {
		for _, size := range []int{1, 2, 3, 7, len(c.in)} {
			if got, rest, _ := split(t, c.of, c.in, size); !slices.Equal(got, c.want) || len(bytes.TrimSpace(rest)) > 0 {
				t.Errorf("%s in pieces of %d: %.80q and %.20q", name, size, got, rest)
			}
		}
	}
}

func TestMessageInPartsIsBounded(t *testing.T) {
	part := frames.SocketFrame(frames.Binary, make([]byte, 1<<20))
	part[0] &^= 0x80
	s := &frames.Socket{}
	for range frames.MaxMessage>>20 - 1 {
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
	f.Add(frames.Pack(true, []byte("ab")), uint8(1))
	f.Add(frames.SocketFrame(frames.Text, []byte("{}")), uint8(2))
	f.Add([]byte{0x02, 0x01, 0x61, 0x80, 0x01, 0x62}, uint8(4))
	f.Add([]byte{0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, uint8(9))
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, others := splitters(), splitters()
		for name, s := range whole {
			want, left, large := split(t, s, in, max(1, len(in)))
			got, rest, tooLarge := split(t, others[name], in, max(1, int(size)))
			if !slices.Equal(want, got) || !bytes.Equal(left, rest) || large != tooLarge {
				t.Errorf("%s: %q in pieces of %d gives %q and %q, and %q and %q as a whole",
					name, in, size, got, rest, want, left)
			}
		}
		packed := append(frames.Pack(true, in), frames.Pack(true, in)...)
		if got, _, _ := split(t, frames.Protobuf{}, packed, max(1, int(size))); len(got) != 2 || got[0] != string(in) {
			t.Errorf("protobuf: %q", got)
		}
		message := frames.SocketFrame(frames.Binary, in)
		if got, _, _ := split(t, &frames.Socket{}, message, max(1, int(size))); len(got) != 1 || got[0] != string(in) {
			t.Errorf("WebSocket: %q", got)
		}
	})
}

// FuzzEvent: no event makes the functions that read it panic, and one that is changed can be
// read again.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"resourceVersion":"12345678901234567890","labels":null}}}`))
	f.Add([]byte(`{"object":[]}`))
	f.Add(frames.Event("ADDED", runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, func() ([]byte, error) {
		return []byte{10, 0}, nil
	}))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := frames.TypeOf(false, body)
		changed := frames.ChangeObject(body, func(metadata map[string]any) { metadata["x"] = "y" })
		if after := frames.TypeOf(false, changed); after != before {
			t.Errorf("%q is of type %q, and %q when it is changed to %q", body, before, after, changed)
		}
		frames.TypeOf(true, body)
		unknown, meta, err := frames.OpenEvent(body)
		if err != nil {
			return
		}
		again, _, err := frames.OpenEvent(frames.Event("MODIFIED", unknown.TypeMeta, meta.Marshal))
		if err != nil || again.Kind != unknown.Kind {
			t.Errorf("%q: %v", body, err)
		}
	})
}
