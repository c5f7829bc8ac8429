package render_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/internal/wire/texts"
	"github.com/gapless-io/gapless/kube"
)

// order is the order of the members of objects.
type order string

const (
	ownOrder    order = "gapless"        // the canonical one
	structOrder order = "kube-apiserver" // that of the Go structs
)

// orderedMaps returns ConfigMaps as a mirror holds them, with managers that they share, in an order.
func orderedMaps(tb testing.TB, in order, n int) []*wire.Object {
	tb.Helper()
	set := texts.New()
	all := make([]*wire.Object, n)
	for i := range all {
		raw := fmt.Appendf(nil,
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m-%06d","namespace":"n","uid":"u-%[1]d","resourceVersion":"%[2]d",`+
				`"creationTimestamp":"2026-11-23T10:00:00Z","labels":{"app":"web"},"managedFields":[{"manager":"kubectl","operation":"Update","apiVersion":"v1",`+
				`"time":"2026-11-23T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:%[3]s":{}}}}]},"data":{"%[3]s":%[4]q}}`,
			i, i+1, strings.Repeat("k", 100), strings.Repeat("x", 1200))
		if in == ownOrder {
			var tree map[string]any
			if err := json.Unmarshal(raw, &tree); err != nil {
				tb.Fatalf("decode JSON: %v", err)
			}
			canonical, err := wire.Canonical(tree)
			if err != nil {
				tb.Fatalf("encode the object: %v", err)
			}
			o, err := wire.NewObject(canonical, kube.ResourceVersion(i+1), nil) //nolint:gosec // it is small
			if err != nil {
				tb.Fatalf("make an object: %v", err)
			}
			raw = o.JSON()
		}
		o, err := wire.ParseObject(raw, nil)
		if err != nil {
			tb.Fatalf("parse the object: %v", err)
		}
		all[i] = o.Share(set)
	}
	return all
}

// listForm is a form of lists.
type listForm struct{ name, accept, encoding string }

func listForms() []listForm {
	return []listForm{
		{"json", "application/json", ""},
		{"json without managedFields", "application/json" + unmanaged, ""},
		{"gzip", "application/json", "gzip"},
		{"protobuf", "application/vnd.kubernetes.protobuf", ""},
		{"protobuf without managedFields", "application/vnd.kubernetes.protobuf" + unmanaged, ""},
		{"table", asTable, ""},
		{"metadata", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ""},
		{"metadata in protobuf", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ""},
	}
}

// nowhere is a client that reads everything.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

// writing returns what answers with a list in a form, from a cache that is empty at the beginning.
func (f listForm) writing(tb testing.TB, items []*wire.Object) (write func(http.ResponseWriter)) {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/api/v1/configmaps", http.NoBody)
	r.Header.Set("Accept", f.accept)
	r.Header.Set("Accept-Encoding", f.encoding)
	rt, err := route.Resolve(catalog, r)
	if err != nil {
		tb.Fatalf("resolve: %v", err)
	}
	lists := render.NewLists()
	return func(w http.ResponseWriter) {
		into, err := render.Negotiate(r, &rt)
		if err != nil {
			tb.Fatalf("negotiate: %v", err)
		}
		renderer, err := render.New(&rt, into)
		if err != nil {
			tb.Fatalf("make a render: %v", err)
		}
		l := &wire.List{ResourceVersion: 9, Items: func(yield func(*wire.Object, error) bool) {
			for _, o := range items {
				if !yield(o, nil) {
					return
				}
			}
		}}
		if _, err := lists.Write(w, into, renderer, l); err != nil {
			tb.Fatalf("write lists: %v", err)
		}
	}
}

// The objects in the mirror of a relay have the order of kube-apiserver's structs. A list of them
// costs what one of ours costs, in every form: what is slower allocates, once for each object.
func TestListsOfKubeAPIServersObjectsAreAsCheapAsOurs(t *testing.T) {
	for _, form := range listForms() {
		allocated := map[order]float64{}
		for _, in := range []order{ownOrder, structOrder} {
			write := form.writing(t, orderedMaps(t, in, 300))
			allocated[in] = testing.AllocsPerRun(5, func() { write(nowhere{http.Header{}}) })
		}
		if own, theirs := allocated[ownOrder], allocated[structOrder]; theirs > own*1.2+30 {
			t.Errorf("%s: a list of 300 makes %.0f allocations, and %.0f in kube-apiserver's order", form.name, own, theirs)
		}
	}
}

// What a client decodes does not depend on the order.
func TestListsOfKubeAPIServersObjectsHaveTheSameContent(t *testing.T) {
	for _, form := range listForms() {
		if form.encoding != "" || strings.Contains(form.accept, "protobuf") {
			continue // of the same items
		}
		var content [2]any
		for i, in := range []order{ownOrder, structOrder} {
			w := httptest.NewRecorder()
			form.writing(t, orderedMaps(t, in, 20))(w)
			if err := json.Unmarshal(w.Body.Bytes(), &content[i]); err != nil {
				t.Fatalf("%s: %v", form.name, err)
			}
		}
		own, err := json.Marshal(content[0])
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		theirs, err := json.Marshal(content[1])
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		if string(own) != string(theirs) {
			t.Errorf("%s: got\n%.600s, want\n%.600s", form.name, theirs, own)
		}
	}
	maps, _ := builtin.Catalog().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	for _, o := range orderedMaps(t, structOrder, 3) {
		message, err := maps.Protobuf(o.JSON())
		if err != nil {
			t.Fatalf("protobuf maps: %v", err)
		}
		var decoded corev1.ConfigMap
		if err := decoded.Unmarshal(message); err != nil || decoded.Name != o.Key().Name || len(decoded.ManagedFields) != 1 {
			t.Errorf("%s is decoded as %+v (%v)", o.JSON(), decoded, err)
		}
	}
}

// BenchmarkListOrder writes lists of 3 000 ConfigMaps of 1.6 KB again and again, as a second client gets
// them.
func BenchmarkListOrder(b *testing.B) {
	for _, form := range listForms() {
		for _, in := range []order{ownOrder, structOrder} {
			b.Run(form.name+"/"+string(in), func(b *testing.B) {
				write := form.writing(b, orderedMaps(b, in, 3000))
				write(nowhere{http.Header{}})
				b.ReportAllocs()
				for b.Loop() {
					write(nowhere{http.Header{}})
				}
			})
		}
	}
}

// An API server that was restored from a backup gives the resourceVersions that it gave before to other
// objects. What is kept of lists is of one history.
func TestBlocksOfListsAreOfOneHistory(t *testing.T) {
	for _, form := range listForms() {
		lists, bodies := render.NewLists(), map[string]bool{}
		for history := range uint64(3) { // another object at the same resourceVersion
			items := others(t, orderedMaps(t, structOrder, 200), fmt.Sprintf("h%d", history))
			bodies[form.written(t, lists, &wire.List{ResourceVersion: 9, History: history, Items: all(items)})] = true
		}
		if len(bodies) != 3 {
			t.Errorf("%s: lists of 3 histories are %d", form.name, len(bodies))
		}
	}
}

// written returns the body of a list in a form.
func (f listForm) written(t *testing.T, lists *render.Lists, l *wire.List) string {
	t.Helper()
	renderer, into := negotiated(t, "/api/v1/configmaps?includeObject=None", f.accept, f.encoding)
	w := httptest.NewRecorder()
	if _, err := lists.Write(w, into, renderer, l); err != nil {
		t.Fatalf("write lists: %v", err)
	}
	return w.Body.String()
}

// others returns objects with the same resourceVersions and other names.
func others(t *testing.T, items []*wire.Object, prefix string) (all []*wire.Object) {
	t.Helper()
	for _, o := range items {
		other, err := wire.ParseObject([]byte(strings.Replace(string(o.JSON()), `"name":"m-`, `"name":"`+prefix+`-`, 1)), nil)
		if err != nil {
			t.Fatalf("parse the object: %v", err)
		}
		all = append(all, other)
	}
	return all
}

// Others write several objects to etcd at one revision.
func TestBlocksTellObjectsOfOneResourceVersionApart(t *testing.T) {
	for _, form := range listForms() {
		lists := render.NewLists()
		items := orderedMaps(t, structOrder, 200)
		first := form.written(t, lists, &wire.List{ResourceVersion: 9, Items: all(items)})
		if first == form.written(t, lists, &wire.List{ResourceVersion: 9, Items: all(others(t, items, "o"))}) {
			t.Errorf("%s: other objects are answered with the same bytes", form.name)
		}
	}
}

func all(items []*wire.Object) iter.Seq2[*wire.Object, error] {
	return func(yield func(*wire.Object, error) bool) {
		for _, o := range items {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func TestAListOfKnownVersionsIsReadOnce(t *testing.T) {
	for _, form := range listForms() {
		if form.name != "gzip" && !strings.Contains(form.name, "protobuf") {
			continue // they need the objects
		}
		lists := render.NewLists()
		items := orderedMaps(t, structOrder, 200)
		reads := 0
		list := func(reader uint64, items []*wire.Object) *wire.List {
			l := &wire.List{ResourceVersion: 9, Past: true, Reads: reader, Items: func(yield func(*wire.Object, error) bool) {
				reads++
				all(items)(yield)
			}}
			for _, o := range items {
				l.Versions = append(l.Versions, o.Key().Version(o.ResourceVersion()))
			}
			return l
		}
		want := form.written(t, lists, list(1, items))
		for n, c := range []struct {
			list  *wire.List
			reads int
		}{
			{list(1, items), 0},
			{list(2, items), 1}, // with other keys of encryption it may not be readable
			{list(1, others(t, items, "o")), 1},
			{list(2, items), 0},
		} {
			reads = 0
			got := form.written(t, lists, c.list)
			if c.reads == 1 && strings.HasPrefix(form.name, "protobuf") && reads == 2 {
				reads = 1 // blocks were freed before they were written
			}
			if reads != c.reads || got != want && n != 2 {
				t.Errorf("%s, list %d: read %d times, want %d; the same bytes: %t", form.name, n, reads, c.reads, got == want)
			}
		}
	}
}
