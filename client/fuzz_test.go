package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/kube"
)

// FuzzWatchFrames: no input panics, every frame that is handed out is JSON, and the
// stream ends cleanly only if encoding/json reads all of it too.
func FuzzWatchFrames(f *testing.F) {
	for _, seed := range []string{
		added, bookmark, ending, gone, added + "\n" + bookmark + "\n" + gone, added[:40], `{"type":}`, "null 7 []",
		`{"type":"ADDED","type":"DELETED","object":{}}`, `{"object":1,"type":"ERROR"}`, "\xff",
		`{"type":"ADDED","object":{"a":"\ud800"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		req := (&http.Request{URL: &url.URL{Path: "/x"}}).WithContext(t.Context())
		w := client.ReadWatch(&http.Response{Body: io.NopCloser(bytes.NewReader(input)), Request: req})
		defer closing(t, w)
		for {
			w.Ready()
			frame, err := w.Next()
			if err == nil {
				if !json.Valid(frame.Object) {
					t.Fatalf("type %v: %q is no JSON", frame.Type, frame.Object)
				}
				_, _ = frame.Meta()
				continue
			}
			_ = kube.Classify(err)
			if errors.Is(err, io.EOF) && !readable(input) {
				t.Fatalf("%q ended cleanly", input)
			}
			return
		}
	})
}

// readable says that encoding/json reads input to its end.
func readable(input []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(input))
	for {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// FuzzListBody: no input panics, items are JSON, and what is taken for a list is
// one for encoding/json too, with as many items.
func FuzzListBody(f *testing.F) {
	for _, seed := range []string{
		`{"items":[]}`, `{"kind":"PodList","metadata":{"resourceVersion":"7","continue":"x"},"items":[{"a":1},{"b":2}]}`,
		`{"items":null}`, `{"items":[1`, `[]`, ``, `{"items":[{}],"metadata":7}`, `{"items":[1]}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		n := 0
		_, err := client.DecodeList(bytes.NewReader(input), func(item []byte) error {
			n++
			if !json.Valid(item) {
				t.Fatalf("%q is no JSON", item)
			}
			return nil
		})
		if err != nil {
			_ = kube.Classify(err)
			return
		}
		var list map[string]json.RawMessage
		if err := json.Unmarshal(input, &list); err != nil {
			t.Fatalf("%q is taken: %v", input, err)
		}
		var items []json.RawMessage
		if err := json.Unmarshal(list["items"], &items); err != nil {
			t.Fatalf("items of %q: %v", input, err)
		}
		if n < len(items) {
			t.Fatalf("%q: %d items handed out, %d there", input, n, len(items))
		}
	})
}
