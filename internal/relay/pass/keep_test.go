package pass

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/relay/kept"
)

func newDocuments(t *testing.T, f kept.File) *Documents {
	t.Helper()
	d := NewDocuments(&Handler{}, nil)
	if err := d.Keep(f); err != nil {
		t.Fatalf("keep: %v", err)
	}
	return d
}

// TestDocumentsThatWereKeptAreAsOldAsTheyAre, and are written only if one has changed.
func TestDocumentsThatWereKeptAreAsOldAsTheyAre(t *testing.T) {
	f := kept.In(t.TempDir(), "documents", kept.Source{})
	d := newDocuments(t, f)
	k, header := documentKey{"/apis", "x=1", "application/json", "gzip"}, http.Header{"Etag": {`"1"`}, "Set-Cookie": {"no"}}
	d.keep(k, header, []byte("a\ndocument"))
	d.keep(documentKey{path: "/api"}, http.Header{}, nil)
	was := d.find(k)
	d.write()
	again := newDocuments(t, f)
	doc := again.find(k)
	if doc == nil || string(doc.body) != "a\ndocument" || !doc.sent.Equal(was.sent) {
		t.Fatalf("the document is %+v, want %+v", doc, was)
	}
	if diff := cmp.Diff(http.Header{"Etag": {`"1"`}}, doc.header); diff != "" {
		t.Error(diff)
	}
	if again.find(documentKey{path: "/api"}) == nil || again.bytes != len("a\ndocument") {
		t.Errorf("%d bytes of documents", again.bytes)
	}
	if again.changed {
		t.Error("documents that were read count as changed")
	}
	again.keep(k, header, []byte("a\ndocument"))
	if again.changed {
		t.Error("a document that was read again counts as changed")
	}
	if again.keep(k, header, []byte("another")); !again.changed {
		t.Error("a document that has changed does not count as changed")
	}
}

func FuzzKeptDocuments(f *testing.F) {
	good, err := encodeDocuments(map[documentKey]document{
		{path: "/api"}: {header: http.Header{"Etag": {"1"}}, body: []byte("{}\n"), sent: time.Unix(7, 0)},
	})
	if err != nil {
		f.Fatalf("encode documents: %v", err)
	}
	f.Add(good)
	f.Add([]byte(`{"bytes":-1}` + "\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := decodeDocuments(body)
		if err != nil {
			return
		}
		copied := map[documentKey]document{}
		for k, doc := range all {
			copied[k] = *doc
		}
		encoded, err := encodeDocuments(copied)
		if err != nil {
			return // a time without a form in JSON
		}
		again, err := decodeDocuments(encoded)
		if err != nil || len(again) != len(all) {
			t.Errorf("%d documents came back as %d: %v", len(all), len(again), err)
		}
	})
}
