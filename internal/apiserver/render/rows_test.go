package render_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/wire"
)

// slowRows are the rows of a table as encoding/json makes them, object by object.
func slowRows(t *testing.T, r *kinds.Resource, items []*wire.Object, include metav1.IncludeObjectPolicy, now time.Time) string {
	t.Helper()
	encode := func(v any) string {
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		return string(encoded)
	}
	var rows []string
	for _, o := range items {
		object := "null"
		switch include {
		case metav1.IncludeObject:
			object = string(o.JSON())
		case metav1.IncludeMetadata:
			var whole struct {
				Metadata json.RawMessage `json:"metadata"`
			}
			if err := json.Unmarshal(o.JSON(), &whole); err != nil {
				t.Fatalf("decode JSON: %v", err)
			}
			object = `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":` + string(whole.Metadata) + `}`
		case metav1.IncludeNone:
		}
		conditions := ""
		if r.RowConditions != nil {
			if all := r.RowConditions(o); len(all) > 0 {
				conditions = `"conditions":` + encode(all) + `,`
			}
		}
		rows = append(rows, `{"cells":`+encode(kinds.Shown(r.Row(o), now))+`,`+conditions+`"object":`+object+`}`)
	}
	return strings.Join(rows, ",") + "]}\n"
}

// asked is what a client asks for.
type asked struct {
	accept  string
	include metav1.IncludeObjectPolicy
}

// rowsOf returns the rows of a list as Lists writes them.
func rowsOf(t *testing.T, lists *render.Lists, r *kinds.Resource, items []*wire.Object, as asked) string {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?includeObject="+string(as.include), http.NoBody)
	req.Header.Set("Accept", as.accept)
	rt := route.Route{Verb: route.List, Target: kinds.Target{Resource: r}, Query: req.URL.Query()}
	into, err := render.Negotiate(req, &rt)
	if err != nil {
		t.Fatalf("negotiate: %v", err)
	}
	renderer, err := render.New(&rt, into)
	if err != nil {
		t.Fatalf("make a render: %v", err)
	}
	l := &wire.List{ResourceVersion: 9, Items: func(yield func(*wire.Object, error) bool) {
		for _, o := range items {
			if !yield(o, nil) {
				return
			}
		}
	}}
	w := httptest.NewRecorder()
	if _, err := lists.Write(w, into, renderer, l); err != nil {
		t.Fatalf("write lists: %v", err)
	}
	_, rows, found := strings.Cut(w.Body.String(), `"rows":[`)
	if !found {
		t.Fatalf("no table: %s", w.Body)
	}
	return rows
}

// certificates is a custom resource with seven columns.
func certificates(t testing.TB) *kinds.Resource {
	t.Helper()
	definition, err := os.ReadFile("../../kinds/custom/testdata/certificates.yaml")
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, &u.Object); err != nil {
		t.Fatalf("decode YAML: %v", err)
	}
	if err := custom.Establish(u, kinds.NewCatalog(), time.Now()); err != nil {
		t.Fatalf("establish: %v", err)
	}
	if definition, err = u.MarshalJSON(); err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	resources, err := custom.Resources(definition)
	if err != nil || len(resources) == 0 {
		t.Fatalf("%v %v", resources, err)
	}
	return resources[0]
}

// shownKinds are resources and contents of objects of theirs.
func shownKinds(t testing.TB) map[*kinds.Resource][]string {
	t.Helper()
	shown := map[*kinds.Resource][]string{
		certificates(t): {
			`"spec":{"secretName":"<s>","isCA":true,"share":0.5},"status":{"revision":3,"notAfter":"1999-12-31T23:59:00Z","conditions":[{"type":"Ready","status":"True"}]}`,
			`"spec":{"secretName":"ä\n"},"status":{"notAfter":"2030-01-01T00:00:00Z"}`,
			`"spec":{"share":2},"status":{"notAfter":"soon"}`,
		},
	}
	for name, contents := range map[string][]string{
		"configmaps": {`"data":{"a":"b"}`, `"data":{}`, `"data":17`},
		"secrets":    {`"type":"a&b","data":{"x":"AA=="}`},
		"events": {
			`"lastTimestamp":"1999-12-31T23:59:30Z","message":"<it> \"failed\" & so on","count":3,` +
				`"involvedObject":{"kind":"Pod","name":"p"}`,
			`"eventTime":"1999-12-31T23:59:30.123456Z"`,
		},
		"pods": {
			`"spec":{"containers":[{"name":"a"}]},"status":{"phase":"Running","containerStatuses":[{"ready":true,"restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"1999-12-31T23:58:00Z"}}}]}`,
			`"spec":{},"status":{"phase":"Succeeded"}`, `"spec":{},"status":{"phase":"Failed","reason":"Evicted"}`,
		},
	} {
		r, found := catalog.Lookup(kinds.GroupVersionResource{Version: "v1", Resource: name})
		if !found {
			t.Fatal(name)
		}
		shown[r] = contents
	}
	jobs, _ := catalog.Lookup(kinds.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"})
	shown[jobs] = []string{`"status":{"startTime":"1999-12-31T23:58:00Z"}`, `"status":{"startTime":"0001-01-01T00:00:00Z"}`}
	return shown
}

func object(t *testing.T, r *kinds.Resource, rv int, metadata, content string) *wire.Object {
	t.Helper()
	if content != "" {
		content = "," + content
	}
	o, err := wire.ParseObject(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"%s}%s}`,
		r.APIVersion(), r.Kind, rv, metadata, content), r.Fields)
	if err != nil {
		t.Fatalf("parse the object: %v", err)
	}
	return o
}

func TestRowsOfListsAreThoseOfEncodingJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for r, contents := range shownKinds(t) {
		t.Run(r.Plural, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists := render.NewLists()
				var items, bare []*wire.Object
				for i := range 300 {
					metadata := fmt.Sprintf(`,"name":"n-%d","creationTimestamp":"1999-12-31T2%d:00:0%dZ"`, i, i%4, i%10)
					if i%7 == 0 {
						metadata = `,"name":"n"`
					}
					content := contents[i%len(contents)]
					items = append(items, object(t, r, i+1, metadata+`,"managedFields":[{"manager":"m"}]`, content))
					bare = append(bare, object(t, r, i+1, metadata, content))
				}
				for range 4 {
					for _, include := range []metav1.IncludeObjectPolicy{
						metav1.IncludeNone, metav1.IncludeMetadata, metav1.IncludeObject,
					} {
						if got, want := rowsOf(t, lists, r, items, asked{asTable, include}), slowRows(t, r, items, include,
							time.Now()); got != want {
							t.Errorf("%s: got\n%.900s, want\n%.900s", include, got, want)
						}
						if got, want := rowsOf(t, lists, r, bare, asked{asTable + unmanaged, include}), slowRows(t, r, bare,
							include, time.Now()); got != want {
							t.Errorf("%s, unmanaged: got\n%.900s, want\n%.900s", include, got, want)
						}
					}
					<-time.After(61 * time.Second) // ages change, what is kept does not
				}
				if lists.CacheBytes() == 0 {
					t.Error("no rows were kept")
				}
				items[17] = object(t, r, 301, `,"name":"new"`, contents[0])
				if got, want := rowsOf(t, lists, r, items[:200], asked{asTable, metav1.IncludeNone}), slowRows(t, r, items[:200],
					metav1.IncludeNone, time.Now()); got != want {
					t.Errorf("after a change: got\n%.900s, want\n%.900s", got, want)
				}
			})
		})
	}
}

// Two definitions of one resource with other columns share no rows, although the objects
// are the same.
func TestRowsAreThoseOfTheColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, before := render.NewLists(), certificates(t)
		after := *before
		foo, _ := catalog.Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
		after.Row, after.Rows, after.Columns = foo.Row, "other", foo.Columns
		items := []*wire.Object{object(t, before, 7, `,"name":"x"`, `"spec":{"secretName":"s"}`)}
		for range 2 {
			for _, r := range []*kinds.Resource{before, &after} {
				if got, want := rowsOf(t, lists, r, items, asked{asTable, metav1.IncludeNone}), slowRows(t, r, items,
					metav1.IncludeNone, time.Now()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		}
	})
}

// FuzzRows does TestRowsOfListsAreThoseOfEncodingJSON with any content.
func FuzzRows(f *testing.F) {
	for r, contents := range shownKinds(f) {
		for _, content := range contents {
			f.Add(r.Plural, `,"name":"<x>"`, content)
		}
	}
	shown := map[string]*kinds.Resource{}
	for r := range shownKinds(f) {
		shown[r.Plural] = r
	}
	f.Fuzz(func(t *testing.T, kind, metadata, content string) {
		r := shown[kind]
		if r == nil {
			return
		}
		if content != "" {
			content = "," + content
		}
		o, err := wire.ParseObject(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"7"%s}%s}`,
			r.APIVersion(), r.Kind, metadata, content), r.Fields)
		// which encoding/json would take for the object's
		if err != nil || strings.Contains(strings.ToLower(content+metadata), "metadata") {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			lists, items := render.NewLists(), []*wire.Object{o}
			for range 2 {
				if got, want := rowsOf(t, lists, r, items, asked{asTable, metav1.IncludeMetadata}), slowRows(t, r, items,
					metav1.IncludeMetadata, time.Now()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				<-time.After(time.Second)
			}
		})
	})
}
