package apiserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// valuesRead counts the values that are read of a store.
type valuesRead struct {
	store.Store
	n atomic.Int64
}

func (r *valuesRead) Read(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := r.Store.Read(ctx, q)
	for _, record := range page.Records {
		if record.Value != nil {
			r.n.Add(1)
		}
	}
	return page, err
}

const (
	kept           = "/apis/t.example.com/v1/namespaces/default/kept"
	keptDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"kept.t.example.com"},"spec":{"group":"t.example.com","scope":"Namespaced",
"names":{"plural":"kept","kind":"Kept"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":
{"type":"object","properties":{"spec":{"type":"object","properties":
{"payload":{"type":"string"},"c":{"type":"string"}}}}}}}]}}`
)

// pastForms are forms of lists of the past, and whether blocks of them are found without reading values.
func pastForms() []struct {
	headers []string
	found   bool
} {
	return []struct {
		headers []string
		found   bool
	}{
		{[]string{acceptJSON}, false},
		{[]string{acceptJSON, acceptGzip}, true},
		{[]string{acceptJSON + drops, acceptGzip}, true},
		{[]string{acceptTable, acceptGzip}, false},
		{[]string{acceptPartials, acceptGzip}, false},
		{[]string{protobufPartials}, true},
		{[]string{protobufPartials, acceptGzip}, false}, // too small to be compressed
		{[]string{protobufAccepted}, true},
		{[]string{protobufAccepted, acceptGzip}, true},
	}
}

// TestKeptListsOfThePastAreWhatWasRead compares a server that has kept what it was asked before with one that was never
// asked: for built-in objects, and for custom ones, before and after their schema has changed.
func TestKeptListsOfThePastAreWhatWasRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	live, read := kinds.NewLive(builtin.Catalog()), &valuesRead{Store: log}
	reg := openRegistryWith(t, log, registry.Config{Store: read, Live: live, CacheEntries: 16})
	warm := openServerOver(t, reg, live, nil)
	if got := warm.do(http.MethodPost, definitions, keptDefinition); got.StatusCode != http.StatusCreated {
		t.Fatal(got.body)
	}
	moments := writePast(warm)
	const field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/c"
	redefined := []string{
		`[]`, `[{"op":"remove","path":"` + field + `"}]`,
		`[{"op":"add","path":"` + field + `","value":{"type":"string","default":"x"}}]`,
	}
	ages := regexp.MustCompile(`"\d+s"`)
	for n, patch := range redefined {
		if got := warm.do(http.MethodPatch, definitions+"/kept.t.example.com", patch,
			"Content-Type: application/json-patch+json"); got.StatusCode != http.StatusOK {
			t.Fatal(got.body)
		}
		fresh := openServerOver(t, reg, live, nil)
		for _, path := range pastPaths(moments) {
			for _, form := range pastForms() {
				want := fresh.do(http.MethodGet, path, "", form.headers...)
				var got answer
				for range 2 {
					read.n.Store(0)
					got = warm.do(http.MethodGet, path, "", form.headers...)
				}
				wanted, plain := string(want.plain(t)), string(got.plain(t))
				if strings.Contains(form.headers[0], "Table") {
					wanted, plain = ages.ReplaceAllString(wanted, "age"), ages.ReplaceAllString(plain, "age")
				}
				if want.StatusCode != got.StatusCode || wanted != plain || contentOf(want) != contentOf(got) {
					t.Errorf("%s as %s, schema %d: %d %s, which is not as it was read: %d %s", path, form.headers, n,
						got.StatusCode, contentOf(got), want.StatusCode, contentOf(want))
				}
				custom, small := strings.HasPrefix(path, kept), strings.Contains(path, "app%3Da1")
				if values := read.n.Load(); values != 0 && form.found && got.StatusCode == http.StatusOK && !small {
					t.Errorf("%s as %s, schema %d: %d values were read again", path, form.headers, n, values)
				}
				if custom && form.found && plain[0] == '{' && strings.Contains(plain, `"c":"`) != (n != 1) {
					t.Errorf("%s as %s, schema %d: the field is not as the schema says: %.1000s", path, form.headers, n, plain)
				}
			}
		}
	}
}

func contentOf(a answer) string {
	return a.Header.Get("Content-Type") + " " + a.Header.Get("Content-Encoding") + " " + a.Header.Get("Vary")
}

// writePast writes objects, and changes all of them several times. It returns the resourceVersions between.
func writePast(d *testServer) (moments []string) {
	d.t.Helper()
	const objects = 120
	seed := rand.Uint64()
	d.t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for n := range 3 {
		for i := range objects {
			for collection, body := range map[string]string{
				pastMaps: `"apiVersion":"v1","kind":"ConfigMap","data":{"a":"%s"}`,
				kept:     `"apiVersion":"t.example.com/v1","kind":"Kept","spec":{"c":"seen","payload":"%s"}`,
			} {
				if n == 1 && r.IntN(4) == 0 {
					continue // it stays as it is
				}
				name := fmt.Sprintf("o-%03d", i)
				content := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":"a%d"}},`+body+`}`, name, r.IntN(3),
					strings.Repeat(fmt.Sprintf("%x-%d-", r.Uint64(), n), 100))
				got := d.do(http.MethodPatch, collection+"/"+name+"?fieldManager=t&force=true", content,
					"Content-Type: application/apply-patch+yaml")
				if got.StatusCode > http.StatusCreated {
					d.t.Fatalf("write %s: %s", name, got.body)
				}
			}
		}
		list := tree(d.t, d.do(http.MethodGet, pastMaps+"?limit=1", "").body)
		moment, _ := at(list, "metadata", "resourceVersion").(string)
		moments = append(moments, moment)
	}
	return moments[:2] // since then all was written again
}

func pastPaths(moments []string) (paths []string) {
	for _, rv := range moments {
		for _, collection := range []string{pastMaps, kept} {
			for _, query := range []string{
				"", "&limit=100", "&limit=97&labelSelector=app%21%3Da2", "&labelSelector=app%3Da1,app%21%3Dx",
			} {
				paths = append(paths, collection+"?resourceVersion="+rv+"&resourceVersionMatch=Exact"+query)
			}
		}
	}
	return paths
}
