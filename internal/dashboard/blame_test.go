package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var blamed = regexp.MustCompile(`(?s)<tr[^>]*><td>(.*?)</td><td>(.*?)</td></tr>`)

// setBy returns who has set each line of a page, by the line.
func setBy(body string) map[string]string {
	all, last := map[string]string{}, ""
	for _, row := range blamed.FindAllStringSubmatch(body, -1) {
		if row[1] != "" { // otherwise as in the line before
			last = regexp.MustCompile(`<[^>]*>|[\d-]{10} [\d:.]+Z`).ReplaceAllString(row[1], "")
		}
		all[html.UnescapeString(strings.TrimSpace(row[2]))] = strings.TrimSpace(last)
	}
	return all
}

// TestBlameSaysWhoSetEachLine also as it was, of Secrets, and after what is older was removed.
func TestBlameSaysWhoSetEachLine(t *testing.T) {
	s, _ := runServer(t, nil)
	a, p := apiOf(t, s.RESTConfig()), pageAt(t, s.DashboardURL())
	const maps = "/api/v1/namespaces/default/configmaps"
	a.send("POST", maps+"?fieldManager=first", `{"metadata":{"name":"m"},"data":{"a":"1","b":"1"}}`)
	then := url.QueryEscape(moment(t))
	rv, err := s.ResourceVersion(t.Context())
	if err != nil {
		t.Fatalf("ask for the resourceVersion: %v", err)
	}
	a.send("PATCH", maps+"/m?fieldManager=second", `{"data":{"b":"2"}}`)
	const of = "r=configmaps.v1&ns=default&name=m"
	for query, want := range map[string]map[string]string{
		of:                        {`a: "1"`: "first (Update)", `b: "2"`: "second (Update)"},
		of + "&at=" + then:        {`a: "1"`: "first (Update)", `b: "1"`: "first (Update)"},
		of + "&at=" + rv.String(): {`a: "1"`: "first (Update)", `b: "1"`: "first (Update)"},
	} {
		got := setBy(p.shows("/blame?" + query))
		for line, by := range want {
			if got[line] != by {
				t.Errorf("%s: %s is set by %q, want %q: %v", query, line, got[line], by, got)
			}
		}
	}
	p.shows("/object?"+of+"&at="+then, `b: &#34;1&#34;`)
	p.shows("/object?"+of+"&a="+then+"&b=0s", `<td>  b: &#34;1&#34;</td><td>  b: &#34;2&#34;</td>`)
	p.shows("/object?"+of+"&a="+then, `<td>  b: &#34;1&#34;</td><td>  b: &#34;2&#34;</td>`)
	p.shows("/object?"+of+"&at=2020-01-01", "It did not exist at ")
	p.shows("/blame?"+of+"&at=2020-01-01", "It did not exist then")

	a.send("POST", "/api/v1/namespaces/default/secrets?fieldManager=first",
		`{"metadata":{"name":"db"},"data":{"key":"`+encoded+`"}}`)
	a.send("PATCH", "/api/v1/namespaces/default/secrets/db?fieldManager=second", `{"data":{"more":"`+encoded+`"}}`)
	secret := p.shows("/blame?r=secrets.v1&ns=default&name=db&reveal=1", "first (Update)", "second (Update)", "hash ")
	if strings.Contains(secret, encoded) || strings.Contains(secret, secretValue) {
		t.Errorf("the data is shown: %s", main(secret))
	}

	const pods = "/api/v1/namespaces/default/pods"
	a.send("POST", pods, `{"metadata":{"name":"one"},"spec":{"containers":[{"name":"c","image":"a:1"}]}}`)
	a.send("PATCH", pods+"/one/status?fieldManager=kubelet", `{"status":{"phase":"Running"}}`)
	if body := p.shows("/blame?r=pods.v1&ns=default&name=one"); strings.Contains(body, "phase: Running") {
		t.Errorf("the status is not folded: %s", main(body))
	}
	p.shows("/blame?r=pods.v1&ns=default&name=one&status=1", "phase: Running", "kubelet (Update status)")

	a.send("DELETE", maps+"/m", "")
	p.shows("/blame?"+of, "It did not exist then")
	a.send("POST", maps, `{"metadata":{"name":"kept"},"data":{"a":"1"}}`)
	for i := range 520 {
		a.send("PATCH", maps+"/kept", fmt.Sprintf(`{"data":{"b":"%d"}}`, i))
	}
	p.shows("/blame?r=configmaps.v1&ns=default&name=kept", "the newest 500 were read", "earlier tester (Update)")
	rv, err = s.ResourceVersion(t.Context())
	if err != nil {
		t.Fatalf("ask for the resourceVersion: %v", err)
	}
	if _, err := s.Compact(t.Context(), rv); err != nil {
		t.Fatalf("compact: %v", err)
	}
	p.shows("/blame?r=configmaps.v1&ns=default&name=kept", "before history tester (Update)")
	p.shows("/object?r=configmaps.v1&ns=default&name=kept&at="+then, `class="bad"`, "b: ") // why not, and as it is
	if code, body := p.get("/blame?r=configmaps.v1&ns=default&name=kept&at=" + then); code != http.StatusGone {
		t.Errorf("blame before the history: %d %s", code, main(body))
	}
}
