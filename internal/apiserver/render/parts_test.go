package render_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/internal/wire/texts"
)

// TestAnswersInPartsAreThoseOfTheWhole: an object that shares texts with others is answered
// without being put together, in all forms as if it was.
func TestAnswersInPartsAreThoseOfTheWhole(t *testing.T) {
	value := fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:%s":{}}},`+
			`"manager":"m","operation":"Update","time":"2026-11-23T10:00:00Z"}],"name":"a","namespace":"n"},"data":{"x":"y"}}`,
		strings.Repeat("k", 100))
	set := texts.New()
	var o *wire.Object
	for range 2 { // a text is shared from its second occurrence on
		var err error
		if o, err = wire.NewSharing(value, 7, nil, set); err != nil {
			t.Fatalf("make a sharing: %v", err)
		}
	}
	if len(o.Parts(nil)) < 2 {
		t.Fatal("the object shares nothing")
	}
	for _, form := range []struct{ accept, query string }{
		{"application/json", ""},
		{"application/json", "pretty=true"},
		{"application/yaml", ""},
		{"application/vnd.kubernetes.protobuf", ""},
		{"application/json" + unmanaged, ""},
		{asTable, ""},
		{asMetadata, ""},
	} {
		uri := "/api/v1/namespaces/n/configmaps/a?" + form.query
		inParts, into := negotiated(t, uri, form.accept, "")
		parts, err := inParts.Parts(o)
		if err != nil {
			t.Fatalf("parts in parts: %v", err)
		}
		atOnce, _ := negotiated(t, uri, form.accept, "") // a renderer describes the columns of a table once
		whole, err := atOnce.Object(o)
		if err != nil {
			t.Fatalf("object at once: %v", err)
		}
		got, want := httptest.NewRecorder(), httptest.NewRecorder()
		render.Write(got, into, http.StatusOK, parts...)
		render.Write(want, into, http.StatusOK, whole)
		if got.Body.String() != want.Body.String() || got.Header().Get("Content-Type") != want.Header().Get("Content-Type") ||
			want.Body.Len() == 0 {
			t.Errorf("%s %s: got %s, want %s", form.accept, form.query, got.Body, want.Body)
		}
	}
}
