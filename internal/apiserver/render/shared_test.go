package render_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	asTable    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	asMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	unmanaged  = ";drop=metadata.managedFields"
)

// watcher returns the renderer of a new watch of config maps.
func watcher(t *testing.T, events *render.Shared, accept, query string) *render.Renderer {
	t.Helper()
	renderer, _ := negotiated(t, "/api/v1/configmaps?watch=1&"+query, accept, "")
	renderer.Share(events)
	return renderer
}

// negotiated returns the renderer of a GET, and the form of its answer. encoding is that header.
func negotiated(t *testing.T, uri, accept, encoding string) (*render.Renderer, render.Form) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, uri, http.NoBody)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	rt, err := route.Resolve(catalog, r)
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	into, err := render.Negotiate(r, &rt)
	if err != nil {
		t.Fatalf("negotiate: %v", err)
	}
	renderer, err := render.New(&rt, into)
	if err != nil {
		t.Fatalf("make a render: %v", err)
	}
	return renderer, into
}

var catalog = builtin.Catalog()

func configMap(t *testing.T, n int, data string) *wire.Object {
	t.Helper()
	resource, _ := catalog.Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	o, err := wire.ParseObject(fmt.Appendf(nil,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","resourceVersion":"%d",`+
			`"creationTimestamp":"2000-01-01T00:00:00Z","managedFields":[{"manager":"m"}]},"data":{"x":%q}}`, n, data),
		resource.Fields)
	if err != nil {
		t.Fatalf("parse the object: %v", err)
	}
	return o
}

func event(t *testing.T, r *render.Renderer, o *wire.Object) []byte {
	t.Helper()
	body, err := r.Event(o)
	if err != nil {
		t.Fatalf("event: %v", err)
	}
	return body
}

func TestWatchesOfOneFormShareAnEventsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events render.Shared
		first, second := configMap(t, 7, ""), configMap(t, 8, "")
		open := func() map[string]*render.Renderer {
			return map[string]*render.Renderer{
				"unmanaged":                 watcher(t, &events, "application/json"+unmanaged, ""),
				"metadata":                  watcher(t, &events, asMetadata, ""),
				"unmanaged metadata":        watcher(t, &events, asMetadata+unmanaged, ""),
				"table":                     watcher(t, &events, asTable, ""),
				"table, unmanaged":          watcher(t, &events, asTable+unmanaged, ""),
				"table of object":           watcher(t, &events, asTable, "includeObject=Object"),
				"table of object,unmanaged": watcher(t, &events, asTable+unmanaged, "includeObject=Object"),
				"table of none":             watcher(t, &events, asTable, "includeObject=None"),
			}
		}
		forms, again := open(), open()
		seen := map[string]string{}
		for name, r := range forms {
			begin, other := string(event(t, r, first)), string(event(t, again[name], first))
			if columns := strings.Contains(begin, `"columnDefinitions":[{`); begin != other ||
				columns != strings.HasPrefix(name, "table") {
				t.Errorf("%s: the first events are\n%s\n%s", name, begin, other)
			}
			body, same := event(t, r, second), event(t, again[name], second)
			if &body[0] != &same[0] {
				t.Errorf("%s: two bodies of one event\n%s\n%s", name, body, same)
			}
			for other, text := range seen {
				if text == string(body) {
					t.Errorf("%s and %s have the body %s", name, other, text)
				}
			}
			seen[name] = string(body)
		}
	})
}

func TestSharedAgesAreOfTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in the year 2000, the config maps' creation
		var events render.Shared
		r, o := watcher(t, &events, asTable, ""), configMap(t, 7, "")
		event(t, r, o)
		for _, want := range []string{`"0s"`, `"1s"`, `"2s"`} {
			if body := event(t, r, o); !strings.Contains(string(body), want) {
				t.Errorf("%s, want the age %s", body, want)
			}
			<-time.After(time.Second)
		}
	})
}

func TestAnotherObjectOfTheSameResourceVersionIsRendered(t *testing.T) {
	var events render.Shared
	r := watcher(t, &events, asTable, "includeObject=Object")
	event(t, r, configMap(t, 7, "a"))
	a, b := configMap(t, 7, "a"), configMap(t, 7, "b")
	for _, o := range []*wire.Object{a, b, a} { // such as an object that left a selection
		if body := event(t, r, o); !strings.Contains(string(body), string(o.JSON())) {
			t.Errorf("%s, want the row of %s", body, o.JSON())
		}
	}
}

func TestLargeEventsAreNotKept(t *testing.T) {
	var events render.Shared
	r := watcher(t, &events, asTable, "includeObject=Object")
	o := configMap(t, 7, strings.Repeat("x", 64<<10))
	event(t, r, o)
	if a, b := event(t, r, o), event(t, r, o); &a[0] == &b[0] || string(a) != string(b) {
		t.Error("a large body is kept")
	}
}
