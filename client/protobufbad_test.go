package client_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// message is fields behind each other: a number, then bytes.
func message(fields ...any) []byte {
	var b []byte
	for k := 0; k < len(fields); k += 2 {
		number, _ := fields[k].(int)
		b = binary.AppendUvarint(b, uint64(number)<<3|2) //nolint:gosec // small
		switch value := fields[k+1].(type) {
		case string:
			b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
		case []byte:
			b = append(binary.AppendUvarint(b, uint64(len(value))), value...)
		}
	}
	return b
}

// envelope is what is around a message.
func envelope(kind string, raw []byte) []byte {
	return append([]byte("k8s\x00"), message(1, message(1, "v1", 2, kind), 2, raw, 3, "", 4, "")...)
}

// brokenLists are answers that say that they are protobuf.
func brokenLists(tb testing.TB) map[string][]byte {
	tb.Helper()
	whole := newUpstream(tb).object(tb, podListOf(3))
	huge := binary.AppendUvarint(message(1, ""), 2<<3|2)
	huge = binary.AppendUvarint(huge, 65<<20)
	endless := append([]byte("k8s\x00"), binary.AppendUvarint([]byte{2<<3 | 2}, math.MaxInt64-100)...)
	return map[string][]byte{
		"nothing":                  nil,
		"JSON":                     []byte(`{"kind":"PodList","items":[]}`),
		"the beginning only":       []byte("k8s\x00"),
		"a cut beginning":          []byte("k8"),
		"another version":          append([]byte("k8s\x01"), whole[4:]...),
		"cut in the middle":        whole[:len(whole)/2],
		"cut in the envelope":      whole[:10],
		"a Pod":                    envelope("Pod", message(1, "")),
		"a Status":                 newUpstream(tb).object(tb, &metav1.Status{Status: "Failure"}),
		"two lists":                slices.Concat(envelope("PodList", message(1, "")), message(2, message(1, ""))),
		"JSON in an envelope":      slices.Concat(envelope("PodList", message(1, "")), message(4, "application/json")),
		"zipped in an envelope":    slices.Concat(envelope("PodList", message(1, "")), message(3, "gzip")),
		"a huge item":              append(endless, huge...),
		"an item that is too long": envelope("PodList", append(message(1, ""), 2<<3|2, 100, 1, 2, 3)),
		"a group":                  envelope("PodList", []byte{3<<3 | 3, 3<<3 | 4}),
		"a field without a number": envelope("PodList", []byte{2, 1, 1}),
		"an unknown wire type":     envelope("PodList", []byte{3<<3 | 7}),
		"an endless number":        envelope("PodList", bytes.Repeat([]byte{0xff}, 12)),
		"an endless length":        append([]byte("k8s\x00"), append([]byte{2<<3 | 2}, bytes.Repeat([]byte{0xff}, 12)...)...),
		"a tag over the edge":      append([]byte("k8s\x00"), append(message(2, []byte{0x80}), 0x01)...),
		"broken metadata":          envelope("PodList", message(1, "\x12\xff")),
		"a broken kind":            append([]byte("k8s\x00"), message(1, "\x12\xff", 2, "")...),
	}
}

func TestBrokenProtobufListIsNotReportedAsACutConnection(t *testing.T) {
	for name, body := range brokenLists(t) {
		t.Run(name, func(t *testing.T) {
			c := serve(t, answer(typeProtobuf, body), false).As(client.Form{Protobuf: true})
			_, err := c.List(t.Context(), pods(""), metav1.ListOptions{}, func([]byte) error { return nil })
			if !errors.Is(err, client.ErrProtobuf) || kube.Classify(err) != kube.OutcomeDecode {
				t.Errorf("%v", err)
			}
			if d, is := errors.AsType[*kube.DecodeError](err); !is || d.Offset < 0 || d.Offset > len(body) {
				t.Errorf("of %d bytes: %v", len(body), err)
			}
		})
	}
	t.Run("a cut connection", func(t *testing.T) {
		whole := newUpstream(t).object(t, podListOf(300))
		c := serve(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", typeProtobuf)
			rw.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			_, _ = rw.Write(whole[:len(whole)/2])
		}, false).As(client.Form{Protobuf: true})
		_, err := c.List(t.Context(), pods(""), metav1.ListOptions{}, func([]byte) error { return nil })
		if errors.Is(err, client.ErrProtobuf) || kube.Classify(err) != kube.OutcomeDisconnected {
			t.Errorf("%v", err)
		}
	})
	t.Run("the receiver's error", func(t *testing.T) {
		c := serve(t, answer(typeProtobuf, newUpstream(t).object(t, podListOf(3))), false).As(client.Form{Protobuf: true})
		full := &kube.DecodeError{Why: "full"}
		if _, err := c.List(t.Context(), pods(""), metav1.ListOptions{},
			func([]byte) error { return full }); !errors.Is(err, full) || errors.Is(err, client.ErrProtobuf) {
			t.Errorf("%v", err)
		}
	})
}

func TestUnknownFieldsOfAProtobufListAreSkipped(t *testing.T) {
	number := []byte{9 << 3, 200, 1, 10<<3 | 5, 1, 2, 3, 4, 11<<3 | 1, 1, 2, 3, 4, 5, 6, 7, 8}
	raw := slices.Concat(number, message(2, message(1, message(1, "a")), 7, "x", 1, message(2, "9")), number)
	body := slices.Concat(envelope("XList", raw), number, message(8, "y"))
	var items []string
	meta, err := client.DecodeProtobufList(bytes.NewReader(body), collect(&items))
	if err != nil || meta.ResourceVersion != "9" || len(items) != 1 {
		t.Fatalf("%q, %+v, %v", items, meta, err)
	}
	if m, err := client.MetaOf([]byte(items[0])); err != nil || m.Name != "a" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestWatchEndsAtBrokenProtobuf(t *testing.T) {
	good := newUpstream(t).frame(t, "ADDED", newUpstream(t).object(t, pod(1)))
	long := append(binary.BigEndian.AppendUint32(nil, 100_000), make([]byte, 100)...)
	for name, c := range map[string]struct {
		body []byte
		want kube.Outcome
	}{
		"JSON":                    {[]byte(added), kube.OutcomeDecode},
		"no message":              {[]byte("\x00\x00\x00\x02\x0a\xff"), kube.OutcomeDecode},
		"no object":               {append([]byte("\x00\x00\x00\x04"), message(2, "\x0a\xff")...), kube.OutcomeDecode},
		"cut in the length":       {good[:3], kube.OutcomeDisconnected},
		"cut in the frame":        {good[:20], kube.OutcomeDisconnected},
		"cut in a frame too long": {long, kube.OutcomeDisconnected},
	} {
		t.Run(name, func(t *testing.T) {
			body := slices.Concat(good, c.body)
			w, err := serve(t, answer(typeProtobuf, body), false).As(client.Form{Protobuf: true}).Watch(t.Context(), pods(""),
				metav1.ListOptions{})
			if err != nil {
				t.Fatalf("watch: %v", err)
			}
			defer closing(t, w)
			if _, err := w.Next(); err != nil {
				t.Fatalf("read the next: %v", err)
			}
			_, err = w.Next()
			if kube.Classify(err) != c.want || errors.Is(err, client.ErrProtobuf) != (c.want == kube.OutcomeDecode) {
				t.Errorf("%v", err)
			}
			if d, is := errors.AsType[*kube.DecodeError](err); is && (d.Offset < len(good) || d.Offset > len(body)) {
				t.Errorf("behind %d bytes: %v", len(good), err)
			}
			if _, again := w.Next(); !errors.Is(again, err) {
				t.Errorf("and then %v", again)
			}
		})
	}
}

// FuzzProtobufList: no input panics, and upstream's decoder finds the same items
// and metadata in what is taken.
func FuzzProtobufList(f *testing.F) {
	for _, seed := range brokenLists(f) {
		f.Add(seed)
	}
	f.Add(newUpstream(f).object(f, podListOf(3)))
	f.Fuzz(func(t *testing.T, input []byte) {
		var items [][]byte
		meta, err := client.DecodeProtobufList(bytes.NewReader(input), func(item []byte) error {
			items = append(items, item)
			return nil
		})
		if err != nil {
			_ = kube.Classify(err)
			return
		}
		var around runtime.Unknown
		var list metav1.PartialObjectMetadataList
		if around.Unmarshal(input[4:]) != nil || list.Unmarshal(around.Raw) != nil {
			return // a known field of another type, here or in an item
		}
		if len(list.Items) != len(items) || !cmp.Equal(list.ListMeta, meta) {
			t.Fatalf("%q: %d items and %+v, upstream %d and %+v", input, len(items), meta, len(list.Items), list.ListMeta)
		}
		for k, item := range items {
			m, err := client.MetaOf(item)
			if err != nil || m.Name != list.Items[k].Name {
				t.Fatalf("item %q: %+v, %v", item, m, err)
			}
		}
	})
}

// FuzzEnvelope: no input panics, and upstream's decoder finds the same metadata, and
// after stripping the same but the managed fields.
func FuzzEnvelope(f *testing.F) {
	u := newUpstream(f)
	for _, seed := range [][]byte{
		u.object(f, pod(3)), u.object(f, marked("7", true)),
		envelope("Pod", message(1, message(1, "a", 1, "b", 17, "c", 17, "\xff"), 1, message(3, "d"))), []byte("k8s\x00"),
		envelope("", nil),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		e, err := client.OpenEnvelope(input)
		m, metaErr := client.MetaOf(input)
		if err != nil {
			if metaErr == nil && client.IsProtobuf(input) {
				t.Fatalf("metadata of what is not taken: %+v", m)
			}
			return
		}
		var around runtime.Unknown
		var want metav1.PartialObjectMetadata
		if around.Unmarshal(input[4:]) != nil || want.Unmarshal(around.Raw) != nil || !wellFormed(around.Raw) {
			return
		}
		if string(e.Kind) != around.Kind || string(e.APIVersion) != around.APIVersion || !bytes.Equal(e.Raw, around.Raw) {
			t.Fatalf("%q: %+v, upstream %+v", input, e, around)
		}
		stripped, err := e.AppendStripped([]byte("x"))
		if metaErr != nil || err != nil {
			if strings.Contains(fmt.Sprint(metaErr, err), "wire type") {
				return // groups
			}
			t.Fatalf("%q: %v, %v", input, metaErr, err)
		}
		if m != (client.Meta{Namespace: want.Namespace, Name: want.Name, UID: want.UID, ResourceVersion: want.ResourceVersion}) {
			t.Fatalf("%q: %+v", input, m)
		}
		var got metav1.PartialObjectMetadata
		if err := got.Unmarshal(stripped[1:]); err != nil {
			t.Fatalf("%q: %v", stripped, err)
		}
		if want.ManagedFields = nil; !cmp.Equal(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}

// wellFormed reports whether an object, its metadata, its labels and its annotations are
// messages that protobuf's own decoder takes. Upstream's takes others too: a tag of which
// it loses the upper bits, or the last field of an entry of a map that goes on beyond the
// entry's end, so that what it makes of the entry depends on what follows.
func wellFormed(object []byte) bool {
	whole := true
	is := values(object, 1, func(metadata []byte) {
		whole = whole && values(metadata, 0, nil)
		for _, entries := range []protowire.Number{11, 12} {
			values(metadata, entries, func(entry []byte) { whole = whole && values(entry, 0, nil) })
		}
	})
	return is && whole
}

// values calls each for the fields of a message that have this number and bytes for a
// value, and reports whether the message is well-formed.
func values(message []byte, wanted protowire.Number, each func(value []byte)) bool {
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		m := protowire.ConsumeFieldValue(number, wire, message[n:])
		if m < 0 {
			return false
		}
		if number == wanted && wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			each(value)
		}
		message = message[n+m:]
	}
	return true
}

// FuzzProtobufFrames: no input panics, and frames are as long as they say.
func FuzzProtobufFrames(f *testing.F) {
	u := newUpstream(f)
	good := u.frame(f, "ADDED", u.object(f, pod(1)))
	for _, seed := range [][]byte{
		good,
		slices.Concat(good, u.frame(f, "BOOKMARK", u.object(f, marked("7", true))),
			u.frame(f, "ERROR", u.object(f, &metav1.Status{Status: "Failure", Code: 410}))), good[:9],
		[]byte("\x00\x00\x00\x00\x00\x00\x00\x00"), u.frame(f, "X", nil), []byte("\x7f\xff\xff\xff"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		req := (&http.Request{URL: &url.URL{Path: "/x"}}).WithContext(t.Context())
		w := client.ReadWatch(&http.Response{
			Body: io.NopCloser(bytes.NewReader(input)), Request: req, Header: http.Header{"Content-Type": {typeProtobuf}},
		})
		defer closing(t, w)
		for rest := input; ; {
			w.Ready()
			frame, err := w.Next()
			if err != nil {
				_ = kube.Classify(err)
				if errors.Is(err, io.EOF) && len(rest) > 0 {
					t.Fatalf("%q ended cleanly before %q", input, rest)
				}
				return
			}
			size := binary.BigEndian.Uint32(rest)
			var want metav1.WatchEvent
			if err := want.Unmarshal(rest[4 : 4+size]); err == nil && frame.Type != 0 &&
				!bytes.Equal(want.Object.Raw, frame.Object) {
				t.Fatalf("%q: %q, upstream %q", input, frame.Object, want.Object.Raw)
			}
			rest = rest[4+size:]
			_, _ = frame.Meta()
		}
	})
}
