package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestInvalidQueriesGetUpstreamsErrors(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	for _, c := range []struct{ query, want string }{
		{
			"resourceVersion=abc",
			`400 BadRequest invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing ` +
				`"abc": invalid syntax`,
		},
		{
			"resourceVersion=-5",
			`400 BadRequest invalid resource version: resourceVersion: Invalid value: "-5": strconv.ParseUint: `,
		},
		{"resourceVersion=99999999999999999999", `400 BadRequest invalid resource version: `},
		{"timeoutSeconds=abc", `400 BadRequest strconv.ParseInt: parsing "abc": invalid syntax`},
		{"timeout=abc", `400 BadRequest invalid timeout specified in the request URL - time: invalid duration "abc"`},
		{"limit=x", `400 BadRequest strconv.ParseInt: parsing "x": invalid syntax`},
		{"labelSelector=!!", "400 BadRequest unable to parse requirement: found '!', expected: identifier"},
		{"labelSelector=a%3D%3Db%3D%3Dc", "400 BadRequest "},
		{
			"fieldSelector=spec.a%3D1",
			`400 BadRequest "spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		},
		{"fieldSelector=x", "400 BadRequest "},
		{"continue=%25%25", "400 BadRequest invalid continue token: continue key is not valid: "},
		{
			"continue=e30",
			"400 BadRequest invalid continue token: continue key is not valid: server does not recognize this encoded version ",
		},
		{
			"continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MCwic3RhcnQiOiJhIn0",
			"400 BadRequest invalid continue token: continue key is not valid: incorrect encoded start resourceVersion " +
				"(version meta.k8s.io/v1)",
		},
		{
			"resourceVersionMatch=Exact",
			`422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is ` +
				`forbidden unless resourceVersion is provided`,
		},
		{
			"resourceVersion=0&resourceVersionMatch=Exact",
			`422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" ` +
				`is forbidden for resourceVersion "0"`,
		},
		{
			"resourceVersion=1&resourceVersionMatch=Bogus",
			`422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Bogus": supported ` +
				`values: "Exact", "NotOlderThan", ""`,
		},
		{
			"sendInitialEvents=true",
			`422 Invalid ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents ` +
				`is forbidden for list`,
		},
		{"watch=1&resourceVersion=abc", `400 BadRequest invalid resource version: `},
		{"watch=1&labelSelector=!!", "400 BadRequest unable to parse requirement: "},
		{
			"watch=1&fieldSelector=spec.a%3D1",
			`400 BadRequest "spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		},
		{"watch=1&timeoutSeconds=abc", `400 BadRequest strconv.ParseInt: parsing "abc": invalid syntax`},
		{
			"watch=1&sendInitialEvents=1",
			`422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires ` +
				`setting resourceVersionMatch to NotOlderThan`,
		},
		{
			"watch=1&resourceVersion=5&resourceVersionMatch=NotOlderThan",
			`422 Invalid ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is ` +
				`forbidden for watch unless sendInitialEvents is provided`,
		},
	} {
		t.Run(c.query, func(t *testing.T) {
			for _, accept := range []string{acceptJSON, acceptTable} {
				a := d.do("GET", configMaps+"?"+c.query, "", accept)
				s := tree(t, a.body)
				if got := fmt.Sprintf("%d %v %v", a.StatusCode, s["reason"], s["message"]); !strings.HasPrefix(got, c.want) {
					t.Errorf("%s\nwant %s", got, c.want)
				}
			}
		})
	}
	for _, query := range []string{"resourceVersion=abc", "export=true"} {
		if a := d.do("GET", configMaps+"/a?"+query, ""); a.StatusCode != http.StatusBadRequest {
			t.Errorf("get with %s: %d %s", query, a.StatusCode, a.body)
		}
	}
}

func TestPagesCoverTheWholeList(t *testing.T) {
	d := openServer(t, nil)
	for i := range 5 {
		d.create(fmt.Sprintf("cm-%d", i), "")
	}
	var got []string
	next := ""
	for range 5 {
		list := tree(t, d.do("GET", configMaps+"?limit=2&continue="+next, "").body)
		for _, item := range list["items"].([]any) {
			got = append(got, at(item, "metadata", "name").(string))
		}
		next, _ = at(list, "metadata", "continue").(string)
		if left := at(list, "metadata", "remainingItemCount"); next != "" && left != float64(5-len(got)) {
			t.Errorf("remainingItemCount %v after %d", left, len(got))
		}
		if next == "" {
			break
		}
	}
	if want := "cm-0 cm-1 cm-2 cm-3 cm-4"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestListItemsAreTheObjectBytesWithoutKind(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	for _, client := range []*http.Client{d.h1, d.h2} {
		one := strings.TrimSuffix(d.by(client, "GET", configMaps+"/a", "").body, "\n")
		one = strings.Replace(one, `"apiVersion":"v1","kind":"ConfigMap",`, "", 1)
		list := d.by(client, "GET", configMaps, "").body
		want := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"` + rvOf(t, list) + `"},"items":[` +
			one + "]}\n"
		if list != want {
			t.Errorf("%s\nwant %s", list, want)
		}
		if !strings.Contains(list, `"a":"<&>"`) {
			t.Errorf("the bytes were encoded again: %s", list)
		}
	}
}

// Upstream decodes items of built-in kinds into Go structs whose TypeMeta stays empty
// (controller-runtime's tests compare them); custom resources, single objects, events,
// rows and metadata say what they are.
func TestOnlyListItemsOfBuiltInKindsOmitTheirKind(t *testing.T) {
	const crds, foos = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/t.example.com/v1/namespaces/default/foos"
	d := openServer(t, nil)
	d.create("a", "")
	d.do("POST", crds, definition)
	d.do("POST", foos, `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"f"}}`)
	d.do("POST", "/api/v1/namespaces", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"large"}}`)
	for range 250 { // large enough to be compressed
		d.do("POST", "/api/v1/namespaces/large/configmaps",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"generateName":"c"},"data":{"a":"`+strings.Repeat("x", 500)+`"}}`)
	}
	items := func(path string, headers ...string) (all []any) {
		a := d.do("GET", path, "", headers...)
		body := a.body
		if a.Header.Get("Content-Encoding") == "gzip" {
			body = unzipped(t, a)
		}
		var list map[string]any
		if err := yaml.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("decode YAML: %v", err)
		}
		for _, key := range []string{"items", "rows"} {
			found, _ := list[key].([]any)
			all = append(all, found...)
		}
		if len(all) == 0 {
			t.Fatalf("%s: %.300s", path, body)
		}
		return all
	}
	for _, c := range []struct {
		path, header string
		at           []string
		kind         any
	}{
		{configMaps, acceptJSON, nil, nil},
		{configMaps + "?pretty=1", acceptJSON, nil, nil},
		{configMaps, "Accept: application/yaml", nil, nil},
		{configMaps + "?limit=1", acceptJSON, nil, nil},
		{"/api/v1/namespaces/large/configmaps", "Accept-Encoding: gzip", nil, nil},
		{"/api/v1/namespaces", acceptJSON, nil, nil},
		{crds, acceptJSON, nil, nil},
		{foos, acceptJSON, nil, "Foo"},
		{foos, "Accept: application/yaml", nil, "Foo"},
		{configMaps, acceptPartials, nil, "PartialObjectMetadata"},
		{configMaps, acceptTable, []string{"object"}, "PartialObjectMetadata"},
		{configMaps + "?includeObject=Object", acceptTable, []string{"object"}, "ConfigMap"},
	} {
		for _, item := range items(c.path, c.header) {
			kind, version := at(item, append(c.at, "kind")...), at(item, append(c.at, "apiVersion")...)
			if kind != c.kind || (version == nil) != (c.kind == nil) || at(item, append(c.at, "metadata", "name")...) == nil {
				t.Fatalf("%s, %s: %v in %v, want %v", c.path, c.header, kind, item, c.kind)
			}
		}
	}
	if one := tree(t, d.do("GET", configMaps+"/a", "").body); one["kind"] != "ConfigMap" || one["apiVersion"] != "v1" {
		t.Errorf("one object: %v", one)
	}
	event := d.open(d.h1, configMaps+"?watch=1"+streamingList).next()
	if at(event, "object", "kind") != "ConfigMap" || at(event, "object", "apiVersion") != "v1" {
		t.Errorf("an event: %v", event)
	}
	for _, item := range tree(t, d.do("DELETE", configMaps, "").body)["items"].([]any) {
		if at(item, "kind") != nil || at(item, "apiVersion") != nil {
			t.Errorf("a deleted object: %v", item)
		}
	}
}

func TestDeleteCollectionReturnsTheDeletedObjects(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", `"x":"1"`)
	d.create("b", `"x":"2"`)
	a := d.do("DELETE", configMaps+"?labelSelector=x%3D1", "")
	list := tree(t, a.body)
	items, _ := list["items"].([]any)
	if a.StatusCode != http.StatusOK || list["kind"] != "ConfigMapList" || len(items) != 1 ||
		at(items[0], "metadata", "name") != "a" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := d.do("GET", configMaps+"/b", ""); a.StatusCode != http.StatusOK {
		t.Errorf("b: %d", a.StatusCode)
	}
	if a := d.do("DELETE", configMaps+"?fieldSelector=spec.a%3D1", ""); a.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// cutShort is a reader whose lists fail after some items.
type cutShort struct {
	apiserver.Reader
	after int
	err   error
}

func (c cutShort) List(context.Context, kinds.Target, wire.ListOptions) (*wire.List, error) {
	o, err := wire.ParseObject(
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","resourceVersion":"7"},"data":{"a":"`+
			strings.Repeat("x", 1000)+`"}}`), nil)
	if err != nil {
		return nil, err
	}
	return &wire.List{ResourceVersion: 7, Items: func(yield func(*wire.Object, error) bool) {
		for range c.after {
			if !yield(o, nil) {
				return
			}
		}
		yield(nil, c.err)
	}}, nil
}

func TestIncompleteListIsAnErrorOrCutOff(t *testing.T) {
	gone := &kube.ExpiredError{Requested: 7, Oldest: 9, Kind: kube.ExpiredList}
	for _, after := range []int{0, 3, 3000} {
		d := openServer(t, func(cfg *apiserver.Config) { cfg.Reader = cutShort{cfg.Reader, after, gone} })
		for _, headers := range [][]string{
			{acceptJSON},
			{acceptJSON, "Accept-Encoding: gzip"},
			{acceptTable},
			{acceptTable, "Accept-Encoding: gzip"},
			{"Accept: application/yaml"},
		} {
			for _, client := range []*http.Client{d.h1, d.h2} {
				code, body, err := d.try(client, configMaps, headers...)
				small := after < 3000 || strings.HasSuffix(headers[0], "yaml")
				switch {
				case small && (code != http.StatusGone || err != nil || !strings.Contains(body, "Expired")):
					t.Errorf("%v after %d items: %d %.80s, %v; want 410", headers, after, code, body, err)
				case !small && err == nil:
					t.Errorf("%v after %d items: %d with %d bytes looks whole", headers, after, code, len(body))
				}
			}
		}
	}
}

// try sends a GET and reads as much of the answer as there is.
func (d *testServer) try(client *http.Client, path string, headers ...string) (code int, body string, err error) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+path, http.NoBody)
	if err != nil {
		d.t.Fatalf("make a request: %v", err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	read, err := io.ReadAll(res.Body)
	return res.StatusCode, string(read), errors.Join(err, res.Body.Close())
}
