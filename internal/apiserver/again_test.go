package apiserver_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// itemsOf lists, and returns the answer from its first item on.
func (d *testServer) itemsOf(path string, headers ...string) string {
	d.t.Helper()
	a := d.do("GET", path, "", headers...)
	_, items, found := strings.Cut(string(a.plain(d.t)), `"items":[`)
	if a.StatusCode != http.StatusOK || !found {
		d.t.Fatalf("list %s: %d %.300s", path, a.StatusCode, a.body)
	}
	return items
}

// again lists several times, as who has what was listed before, and compares with a page, of which nothing is kept.
func (d *testServer) again(after, path string) {
	d.t.Helper()
	want := d.itemsOf(path + "?limit=10000")
	for round := range 4 {
		for _, query := range []string{"", "?resourceVersion=0"} {
			if got := d.itemsOf(path + query); got != want {
				d.t.Fatalf("after %s, list %d of %s%s: got\n%.600s, want\n%.600s", after, round, path, query, got, want)
			}
		}
		if got := d.itemsOf(path, "Accept-Encoding: gzip"); got != want {
			d.t.Fatalf("after %s, list %d of %s in gzip: got\n%.600s, want\n%.600s", after, round, path, got, want)
		}
	}
}

// TestAListThatIsAskedForAgainIsOfItsState changes objects between lists.
func TestAListThatIsAskedForAgainIsOfItsState(t *testing.T) {
	d := openServer(t, nil)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	body := func(i int) string {
		return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m-%03d"},"data":{"a":"%d","b":%q}}`, i,
			r.IntN(9),
			strings.Repeat("<", r.IntN(900)))
	}
	place := func(i int) string { return fmt.Sprintf("/api/v1/namespaces/n%d/configmaps", i%3) }
	for i := range 3 {
		d.do("POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"n%d"}}`, i))
	}
	for i := range 400 {
		if a := d.do("POST", place(i), body(i)); a.StatusCode != http.StatusCreated {
			t.Fatalf("create: %s", a.body)
		}
	}
	for step := range 12 {
		i := r.IntN(400)
		one, what := fmt.Sprintf("%s/m-%03d", place(i), i), "nothing"
		switch r.IntN(4) {
		case 0:
			what = "a deletion"
			d.do("DELETE", one, "")
		case 1:
			what = "an update"
			d.do("PUT", one, body(i))
		case 2:
			what = "a creation"
			d.do("POST", place(i), strings.Replace(body(i), "m-", "new-", 1))
		}
		what = fmt.Sprintf("step %d, %s", step, what)
		d.again(what, "/api/v1/configmaps")
		d.again(what, place(r.IntN(3)))
	}
}

// TestAListThatIsAskedForAgainFollowsTheSchema: the objects stay the same when their schema changes, what is read does not.
func TestAListThatIsAskedForAgainFollowsTheSchema(t *testing.T) {
	d := openServer(t, nil)
	d.defineBars(`{"strategy":"None"}`)
	d.fillBars()
	const field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/c"
	d.again("the creations", bars)
	for round, patch := range []string{
		`[{"op":"remove","path":"` + field + `"}]`,
		`[{"op":"add","path":"` + field + `","value":{"type":"string"}}]`,
		`[{"op":"replace","path":"` + strings.TrimSuffix(field, "c") + `d","value":{"type":"string","default":"new"}}]`,
	} {
		before := d.itemsOf(bars)
		d.redefineBars(patch)
		if d.itemsOf(bars) == before {
			t.Errorf("change %d of the schema changes nothing", round)
		}
		d.again(fmt.Sprintf("change %d of the schema", round), bars)
		d.again(fmt.Sprintf("change %d of the schema", round), barsV2)
	}
}
