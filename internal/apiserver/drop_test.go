package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// drops is the Accept parameter of KEP-5958.
const drops = ";drop=metadata.managedFields"

// tree decodes the body, whatever its encoding.
func (a answer) tree(t *testing.T) map[string]any {
	t.Helper()
	body := a.plain(t)
	if a.Header.Get("Content-Type") == "application/yaml" {
		var v map[string]any
		if err := yaml.Unmarshal(body, &v); err != nil {
			t.Fatalf("decode YAML: %v", err)
		}
		return v
	}
	return tree(t, string(body))
}

// dropped removes managedFields from every metadata in v, and says how many there were. It
// removes the ages in tables, too, which depend on the time.
func dropped(v any) (found int) {
	switch v := v.(type) {
	case map[string]any:
		if metadata, is := v["metadata"].(map[string]any); is {
			if _, has := metadata["managedFields"]; has {
				found++
			}
			delete(metadata, "managedFields")
		}
		if cells, is := v["cells"].([]any); is {
			v["cells"] = cells[:len(cells)-1] // the age
		}
		for _, member := range v {
			found += dropped(member)
		}
	case []any:
		for _, item := range v {
			found += dropped(item)
		}
	}
	return found
}

// The tree of every answer is that without the parameter, less the managed fields.
func TestManagedFieldsAreDroppedFromEveryAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	d := openServer(t, nil)
	d.fillMaps(150)
	d.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	const foos = "/apis/t.example.com/v1/namespaces/default/foos"
	if a := d.do("POST",
		foos,
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"f","labels":{"a":"b"}},"spec":{}}`); a.StatusCode !=
		http.StatusCreated {
		t.Fatal(a.body)
	}
	const table = ";as=Table;g=meta.k8s.io;v=v1"
	for _, c := range []struct{ path, accept string }{
		{configMaps + "/cm-007", "application/json"},
		{configMaps + "/cm-007", "*/*"},
		{configMaps + "/cm-007", "application/yaml"},
		{configMaps + "/cm-007", protobufType},
		{configMaps + "/cm-007", "application/json" + partialParams},
		{configMaps + "/cm-007", protobufType + partialParams},
		{configMaps + "/cm-007", "application/json" + table},
		{configMaps, "application/json"},
		{configMaps, "application/yaml"},
		{configMaps, protobufType},
		{configMaps, "application/json" + partialsParams},
		{configMaps, protobufType + partialsParams},
		{configMaps, "application/json" + table},
		{configMaps + "?includeObject=Object", "application/json" + table},
		{configMaps + "?limit=3", "application/json"},
		{foos + "/f", "application/json"},
		{foos, "application/json"},
		{foos, "application/json" + table},
		{foos, protobufType + partialsParams},
	} {
		for _, encoding := range []string{"", "Accept-Encoding: gzip"} {
			for _, order := range []string{"", drops, "", drops} { // each form has its own in the caches
				whole := d.do("GET", c.path, "", "Accept: "+c.accept, encoding)
				want := whole.tree(t)
				if found := dropped(want); found == 0 {
					t.Fatalf("%s as %s has no managed fields: %v", c.path, c.accept, want)
				}
				a := d.do("GET", c.path, "", "Accept: "+c.accept+drops, encoding)
				got := a.tree(t)
				if found := dropped(got); found > 0 {
					t.Fatalf("%s as %s has managed fields: %v", c.path, c.accept, got)
				}
				if diff := cmp.Diff(want, got); diff != "" || a.StatusCode != http.StatusOK ||
					a.Header.Get("Content-Type") != whole.Header.Get("Content-Type") {
					t.Fatalf("%s as %s, %q %q: %d %v %s", c.path, c.accept, encoding, order, a.StatusCode, a.Header, diff)
				}
			}
		}
	}
}

func TestManagedFieldsAreDroppedFromWrites(t *testing.T) {
	d := openServer(t, nil)
	for _, accept := range []string{"application/json", protobufType, "application/json" + partialParams} {
		for _, c := range []struct{ method, path, body, media string }{
			{
				"POST", configMaps,
				`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","finalizers":["example.org/x"]}}`,
				"application/json",
			},
			{
				"PUT", configMaps + "/a",
				`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","finalizers":["example.org/x"]},"data":{"b":"c"}}`,
				"application/json",
			},
			{"PATCH", configMaps + "/a", `{"data":{"d":"e"}}`, "application/merge-patch+json"},
			{
				"PATCH", configMaps + "/a?fieldManager=m",
				`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"f":"g"}}`, "application/apply-patch+yaml",
			},
			{"DELETE", configMaps + "/a", "", ""},
		} {
			a := d.do(c.method, c.path, c.body, "Accept: "+accept+drops, "Content-Type: "+c.media)
			got := a.tree(t)
			if a.StatusCode >= 300 || at(got, "metadata", "name") != "a" || dropped(got) != 0 {
				t.Errorf("%s as %s: %d %v", c.method, accept, a.StatusCode, got)
			}
			if stored := tree(t, d.do("GET", configMaps+"/a", "").body); dropped(stored) == 0 {
				t.Errorf("%s as %s removed the managed fields", c.method, accept)
			}
		}
		many := accept
		if strings.Contains(accept, "as=") {
			many = strings.Replace(accept, partialParams, partialsParams, 1)
		}
		a := d.do("DELETE", configMaps, "", "Accept: "+many+drops)
		if got := a.tree(t); a.StatusCode != http.StatusOK || dropped(got) != 0 || len(got["items"].([]any)) != 1 {
			t.Errorf("DELETE of all as %s: %d %v", accept, a.StatusCode, got)
		}
		d.do("PATCH", configMaps+"/a", `{"metadata":{"finalizers":null}}`, "Content-Type: application/merge-patch+json")
	}
}

// TestManagedFieldsAreDroppedFromWatches compares watches with and without the parameter, as
// streaming lists and without a state, of the same events.
func TestManagedFieldsAreDroppedFromWatches(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", `"x":"y"`)
	const streaming = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	for _, client := range []*http.Client{d.h1, d.h2} {
		for _, accept := range []string{
			"application/json", protobufType, "application/json" + partialParams, protobufType + partialParams,
			"application/json;as=Table;g=meta.k8s.io;v=v1",
		} {
			path := configMaps + "?watch=1&allowWatchBookmarks=true&labelSelector=x%3Dy" + streaming
			whole, bare, other := d.open(client, path, "Accept: "+accept), d.open(client, path,
				"Accept: "+accept+drops), d.open(client, path, "Accept: "+accept+drops)
			same := func(n int) {
				t.Helper()
				for range n {
					want, got, again := whole.next(), bare.next(), other.next()
					if found := dropped(want); found == 0 && want["type"] != "BOOKMARK" {
						t.Errorf("%s: no managed fields in %v", accept, want)
					}
					for _, e := range []map[string]any{got, again} {
						if found := dropped(e); found > 0 {
							t.Fatalf("%s has managed fields: %v", accept, e)
						}
						if diff := cmp.Diff(shown(want), shown(e)); diff != "" {
							t.Fatalf("%s: %s", accept, diff)
						}
					}
				}
			}
			same(2) // the state and its end
			d.create("b", `"x":"y"`)
			d.do("PATCH", configMaps+"/b", `{"data":{"z":"1"}}`, "Content-Type: application/merge-patch+json")
			// leaves
			d.do("PATCH", configMaps+"/b", `{"metadata":{"labels":{"x":"z"}}}`, "Content-Type: application/merge-patch+json")
			d.do("PATCH", configMaps+"/b", `{"metadata":{"labels":{"x":"y"}}}`, "Content-Type: application/merge-patch+json")
			d.do("DELETE", configMaps+"/b", "")
			same(5)
			for _, s := range []*stream{whole, bare, other} {
				s.stop()
			}
		}
	}
}

func TestCompressedStreamingListDropsManagedFields(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	s := d.open(d.h2,
		configMaps+"?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
		"Accept: application/json"+drops, "Accept-Encoding: gzip")
	z, err := gzip.NewReader(s.resp.Body)
	if err != nil {
		t.Fatalf("make a reader: %v", err)
	}
	body, err := io.ReadAll(z)
	if err != nil || !bytes.Contains(body, []byte(`"name":"a"`)) || bytes.Contains(body, []byte("managedFields")) {
		t.Errorf("%v %s", err, body)
	}
}

// Bad values are answered as by apiserver negotiation.go acceptMediaTypeOptions (0.38).
func TestNothingElseCanBeDropped(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	const get = configMaps + "/a"
	for _, c := range []struct {
		path, accept string
		code, found  int
	}{
		{get, "application/json" + drops, 200, 0},
		{get, `application/json;drop="metadata.managedFields"`, 200, 0},
		{get, "application/json;DROP=metadata.managedFields", 200, 0},
		{get, "application/json;drop=", 200, 1},
		{get, `application/json;drop=""`, 200, 1},
		{get, "application/json;drop=;q=0.5", 200, 1},
		{get, "application/json;drop=metadata.managedfields", 406, 0},
		{get, "application/json;drop=managedFields", 406, 0},
		{get, "application/json;drop=metadata.labels", 406, 0},
		{get, `application/json;drop="metadata.managedFields,status"`, 406, 0},
		{get, "application/json;drop=spec,application/json", 200, 1},
		{get, "application/json;drop=spec," + protobufType + drops, 200, 0},
		{get, protobufType + ";drop=spec", 406, 0},
		{get, protobufType + ";drop=spec,application/json;q=0.1" + drops, 200, 0},
		{configMaps, "application/json;drop=spec", 406, 0},
		{configMaps + "?watch=1", "application/json;drop=spec", 406, 0},
		{configMaps + "?watch=1", protobufType + ";stream=watch;drop=spec", 406, 0},
		{configMaps + "/none", "application/json" + drops, 404, 0},
	} {
		a := d.do("GET", c.path, "", "Accept: "+c.accept)
		got := a.tree(t)
		if a.StatusCode != c.code || dropped(got) != c.found {
			t.Errorf("%s for %s: %d %v", c.path, c.accept, a.StatusCode, got)
		}
		if c.code == 406 &&
			!strings.HasPrefix(fmt.Sprint(got["message"]), "only the following media types are accepted: application/json") {
			t.Errorf("%s for %s: %v", c.path, c.accept, got)
		}
	}
	if a := d.do("PATCH",
		get, `{"data":{"b":"c"}}`, "Content-Type: application/merge-patch+json",
		"Accept: application/json;drop=x"); a.StatusCode != http.StatusNotAcceptable {
		t.Errorf("a write: %d %s", a.StatusCode, a.body)
	}
	if got := tree(t, d.do("GET", get, "").body); at(got, "data", "b") != nil {
		t.Error("a refused write was done")
	}
}
