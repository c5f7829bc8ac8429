package dashboard_test

import (
	"fmt"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	differing = regexp.MustCompile(`<h2><span class="tag">(\w+)</span> <a href="([^"]*)">ConfigMap shop/([^<]*)</a>`)
	nextPage  = regexp.MustCompile(`<a class="next" href="([^"]*)">`)
)

// follow reads all pages from one on, and returns what has become of each ConfigMap.
func (p page) follow(path string) (found map[string]string, pages int) {
	p.t.Helper()
	found = map[string]string{}
	for path != "" {
		pages++
		body := p.shows(path)
		if strings.Contains(body, `class="bad"`) {
			p.t.Errorf("%s says that something is wrong: %s", path, main(body))
		}
		for _, o := range differing.FindAllStringSubmatch(body, -1) {
			if was := found[o[3]]; was != "" {
				p.t.Errorf("%s is on two pages: %s, %s", o[3], was, o[1])
			}
			found[o[3]] = o[1]
			if pages == 1 {
				p.shows(html.UnescapeString(o[2]), "Life")
			}
		}
		next := nextPage.FindStringSubmatch(body)
		if path = ""; next != nil {
			path = html.UnescapeString(next[1])
		}
		if pages > 100 {
			p.t.Fatal("the pages do not end")
		}
	}
	return found, pages
}

// moment is a time after all that was done before, and before all that is done after: times of changes are of milliseconds.
func moment(t *testing.T) string {
	t.Helper()
	const apart = 20 * time.Millisecond
	wait := func() {
		select {
		case <-time.After(apart):
		case <-t.Context().Done():
		}
	}
	wait()
	defer wait()
	return time.Now().UTC().Format(time.RFC3339Nano)
}

// TestPagesOfWhatDiffersHaveAllOfIt compares with what was done between two moments: with few changes, and with more than
// are read at once, when the lists of both moments are compared.
func TestPagesOfWhatDiffersHaveAllOfIt(t *testing.T) {
	s, _ := runServer(t, nil)
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	a.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	a.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"else"}}`)
	const maps1 = "/api/v1/namespaces/shop/configmaps"
	name := func(i int) string { return fmt.Sprintf("m-%03d", i) }
	labels := `"labels":{"app":"web"}`
	for i := range 300 { // more than a page of a list has
		a.send("POST", maps1, `{"metadata":{"name":"`+name(i)+`",`+labels+`},"data":{"n":"0"}}`)
	}
	from := moment(t)
	rv, err := s.ResourceVersion(t.Context())
	if err != nil {
		t.Fatalf("ask for the resourceVersion: %v", err)
	}
	want := map[string]string{}
	for i := 0; i < 300; i += 4 {
		a.send("PATCH", maps1+"/"+name(i), `{"data":{"n":"1"}}`)
		want[name(i)] = "changed"
	}
	for i := 1; i < 300; i += 10 {
		a.send("DELETE", maps1+"/"+name(i), "")
		want[name(i)] = "deleted"
	}
	a.send("DELETE", maps1+"/"+name(0), "")
	a.send("POST", maps1, `{"metadata":{"name":"`+name(0)+`",`+labels+`},"data":{"n":"2"}}`) // another uid
	for _, i := range []int{300, 301, 302} {
		a.send("POST", maps1, `{"metadata":{"name":"`+name(i)+`",`+labels+`}}`)
		want[name(i)] = "created"
	}
	a.send("POST", maps1, `{"metadata":{"name":"came-and-went"}}`)
	a.send("DELETE", maps1+"/came-and-went", "")
	a.send("PATCH", maps1+"/"+name(2), `{"data":{"n":"1"}}`)
	a.send("PATCH", maps1+"/"+name(2), `{"data":{"n":"0"}}`) // as it was
	a.send("POST", "/api/v1/namespaces/else/configmaps", `{"metadata":{"name":"elsewhere"}}`)
	check := func(what string) {
		t.Helper()
		to := time.Now().UTC().Format(time.RFC3339Nano)
		for _, query := range []string{
			"ns=shop&a=" + rv.String() + "&b=9000000000", "ns=shop&a=9000000000&b=" + rv.String(), "ns=shop&a=" + rv.String(),
			"ns=shop&a=" + url.QueryEscape(from), "ns=shop&a=" + url.QueryEscape(to) + "&b=" + url.QueryEscape(from),
			"ns=shop&kind=configmaps.v1&label=app%3Dweb&a=" + url.QueryEscape(from),
			"kind=configmaps.v1&label=app%3Dweb&a=" + rv.String(),
		} {
			got, pages := p.follow("/between?" + query)
			if !maps.Equal(got, want) {
				t.Errorf("%s, %s, %d pages: %d differ, want %d: %v", what, query, pages, len(got), len(want),
					slices.Sorted(maps.Keys(got)))
			}
			if pages < 3 {
				t.Errorf("%s, %s: %d pages", what, query, pages)
			}
		}
	}
	check("with few changes")
	body := p.shows("/between?kind=configmaps.v1&ns=shop&a="+rv.String(), "on this page")
	if strings.Contains(body, "came-and-went") {
		t.Errorf("what came and went is shown: %s", main(body))
	}
	for i := range 600 { // more than are read at once
		a.send("PATCH", maps1+"/"+name(4), fmt.Sprintf(`{"data":{"n":"%d"}}`, i))
	}
	check("with many changes")
	const secrets = "/api/v1/namespaces/shop/secrets"
	a.send("POST", secrets, `{"metadata":{"name":"db"},"data":{"key":"`+encoded+`"}}`)
	for i := range 520 {
		a.send("PATCH", secrets+"/db", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i))
	}
	body = p.shows("/between?kind=secrets.v1&a="+rv.String(), "Secret shop/db", "key: (13 bytes, hash ")
	if strings.Contains(body, encoded) {
		t.Errorf("the data of a Secret is shown: %s", main(body))
	}
}

// TestTheStatusIsComparedWhenItIsAskedFor, and what comes and goes is left out.
func TestTheStatusIsComparedWhenItIsAskedFor(t *testing.T) {
	s, _ := runServer(t, nil)
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	a.send("POST", "/api/v1/namespaces/default/pods",
		`{"metadata":{"name":"one"},"spec":{"containers":[{"name":"c","image":"a:1"}]}}`)
	rv, err := s.ResourceVersion(t.Context())
	if err != nil {
		t.Fatalf("ask for the resourceVersion: %v", err)
	}
	a.send("PATCH", "/api/v1/namespaces/default/pods/one/status", `{"status":{"phase":"Running"}}`)
	a.send("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"quick"}}`)
	body := p.shows("/between?a="+rv.String(), "1 objects have another status only", "Leases are left out")
	if strings.Contains(body, "Pod default/one") || strings.Contains(body, "default/quick") {
		t.Errorf("it shows what it leaves out: %s", main(body))
	}
	p.shows("/between?status=1&a="+rv.String(), "Pod default/one", "phase: Running")
	p.shows("/between?kind=leases.v1.coordination.k8s.io&a="+rv.String(), "Lease default/quick")
}

// TestPagesGoOnUntilTheyHaveFoundWhatDiffers has one object that differs behind 3 MiB of objects that do not: a page without
// it, on a machine that is too slow for more, says how far it has looked.
func TestPagesGoOnUntilTheyHaveFoundWhatDiffers(t *testing.T) {
	s, _ := runServer(t, nil)
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	a.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`)
	const maps1, objects = "/api/v1/namespaces/shop/configmaps", 300
	large := strings.Repeat("x", 10<<10)
	for i := range objects {
		a.send("POST", maps1, fmt.Sprintf(`{"metadata":{"name":"m-%03d"},"data":{"n":"0","large":"%s"}}`, i, large))
	}
	rv, err := s.ResourceVersion(t.Context())
	if err != nil {
		t.Fatalf("ask for the resourceVersion: %v", err)
	}
	for i := range 502 { // more than are read at once; at the end it is as it was
		a.send("PATCH", maps1+"/m-000", fmt.Sprintf(`{"data":{"n":"%d"}}`, (i+1)%2))
	}
	a.send("PATCH", maps1+"/m-299", `{"data":{"n":"1"}}`)
	path := "/between?ns=shop&kind=configmaps.v1&a=" + rv.String()
	if got, _ := p.follow(path); !maps.Equal(got, map[string]string{"m-299": "changed"}) {
		t.Errorf("what differs is %v", got)
	}
	if body := p.shows(path); !strings.Contains(body, "ConfigMap shop/m-299") &&
		!strings.Contains(body, "nothing differs so far") {
		t.Errorf("a page says neither what differs nor how far it has looked: %s", main(body))
	}
}
