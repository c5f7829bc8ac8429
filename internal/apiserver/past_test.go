package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// changeList is what a client decodes of a page of changes.
type changeList struct {
	Kind, APIVersion, After, UpTo string
	Metadata                      struct{ ResourceVersion, Continue string }
	Items                         []struct {
		Type, ResourceVersion string
		Time                  time.Time
		Object, Previous      *struct {
			Kind     string
			Metadata struct{ Name, ResourceVersion string }
			Data     map[string]string
		}
	}
}

func (d *testServer) changes(path string, headers ...string) (l changeList) {
	d.t.Helper()
	got := d.do("GET", path, "", headers...)
	if got.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %d %s", path, got.StatusCode, got.body)
	}
	if err := json.Unmarshal([]byte(got.body), &l); err != nil {
		d.t.Fatalf("%s: %v in %s", path, err, got.body)
	}
	return l
}

func (l changeList) lines() (lines []string) {
	for _, c := range l.Items {
		line := c.Type + " " + c.Object.Metadata.Name + " " + c.Object.Data["a"]
		if c.Previous != nil {
			line += " before: " + c.Previous.Data["a"]
		}
		lines = append(lines, line)
	}
	return lines
}

const pastMaps = "/api/v1/namespaces/default/configmaps"

func TestThePastOfACollectionAndOfAnObject(t *testing.T) {
	d := openServer(t, nil)
	put := func(name, value string) {
		body := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q},"data":{"a":%q}}`, name, value)
		if got := d.do("PATCH", pastMaps+"/"+name+"?fieldManager=t&force=true", body,
			"Content-Type: application/apply-patch+yaml"); got.StatusCode > 201 {
			t.Fatalf("put %s: %s", name, got.body)
		}
	}
	put("x", "1")
	put("y", "1")
	<-time.After(5 * time.Millisecond)
	then := url.QueryEscape(time.Now().Format(time.RFC3339Nano))
	<-time.After(5 * time.Millisecond)
	put("x", "2")
	d.do("DELETE", pastMaps+"/y", "")
	put("x", "3")

	all := d.changes(pastMaps + "?changes=OldestFirst")
	want := []string{"ADDED x 1", "ADDED y 1", "MODIFIED x 2 before: 1", "DELETED y 1", "MODIFIED x 3 before: 2"}
	if diff := cmp.Diff(want, all.lines()); diff != "" || all.Kind != "ChangeList" || all.APIVersion != "gapless.io/v1" ||
		all.Metadata.Continue != "" || all.UpTo != all.Metadata.ResourceVersion {
		t.Errorf("%+v (-want +got):\n%s", all, diff)
	}
	one := d.changes(pastMaps + "/x?changes=NewestFirst&previous=false&since=" + then)
	if diff := cmp.Diff([]string{"MODIFIED x 3", "MODIFIED x 2"}, one.lines()); diff != "" {
		t.Errorf("of one object (-want +got):\n%s", diff)
	}
	first := d.changes(pastMaps + "?changes=NewestFirst&limit=2")
	second := d.changes(pastMaps + "?changes=NewestFirst&limit=9&continue=" + first.Metadata.Continue)
	got := append(first.lines(), second.lines()...)
	if diff := cmp.Diff([]string{want[4], want[3], want[2], want[1], want[0]}, got); diff != "" {
		t.Errorf("in two pages (-want +got):\n%s", diff)
	}
	partial := d.changes(pastMaps+"?changes=OldestFirst&limit=1",
		"Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	if c := partial.Items[0].Object; c.Kind != "PartialObjectMetadata" || c.Metadata.Name != "x" || c.Data != nil {
		t.Errorf("metadata only: %+v", c)
	}
	if got := d.do("GET",
		pastMaps+"?changes=OldestFirst", "", "Accept: application/yaml"); !strings.Contains(got.body, "kind: ChangeList") {
		t.Errorf("as YAML: %s", got.body)
	}

	for _, c := range []struct{ path, want string }{
		{pastMaps + "?at=" + then, `"x","namespace":"default"`},
		{pastMaps + "?at=0001-01-01T00:00:00Z", `"items":[]`}, // before the server's first
		{pastMaps + "/x?at=" + then, `"data":{"a":"1"}`},
		{pastMaps + "/y?at=" + then, `"data":{"a":"1"}`},
		{pastMaps + "/x?resourceVersion=" + all.Items[2].ResourceVersion + "&resourceVersionMatch=Exact", `"data":{"a":"2"}`},
	} {
		got := d.do("GET", c.path, "")
		if got.StatusCode != http.StatusOK || !strings.Contains(got.body, c.want) || got.Header.Get("Gapless-At") == "" {
			t.Errorf("%s: %d %q %s", c.path, got.StatusCode, got.Header.Get("Gapless-At"), got.body)
		}
	}
	if got := d.do("GET", pastMaps+"/x", ""); got.Header.Get("Gapless-At") != "" {
		t.Error("the present is answered as if it were the past")
	}
}

func TestWhatIsNoQuestionAboutThePastIsRefused(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	tomorrow := url.QueryEscape(time.Now().Add(24 * time.Hour).Format(time.RFC3339))
	const maps, then, exact = pastMaps, "2026-11-25T14:00:00Z", "resourceVersionMatch=Exact"
	const invalid = `422 Invalid ListOptions.meta.k8s.io "" is invalid: `
	for path, want := range map[string]string{
		maps +
			"?at=yesterday": "400 BadRequest at is \"yesterday\": expected a time as in RFC 3339",
		maps + "?at=" + tomorrow:                         invalid + "at: Invalid value",
		maps + "/a?at=" + tomorrow:                       invalid + "at: Invalid value",
		maps + "/a?at=0001-01-01T00:00:00Z":              "404 NotFound ", // not what it is now
		maps + "?at=" + then + "&resourceVersion=5":      invalid,
		maps + "/a?at=" + then + "&resourceVersion=5":    invalid,
		maps + "?watch=1&at=" + then:                     invalid,
		maps + "/a?" + exact:                             invalid,
		maps + "/a?resourceVersion=1&" + exact:           "404 NotFound ",
		maps + "/b?resourceVersion=99999999999&" + exact: "504 Timeout ",
		maps +
			"?changes": "400 BadRequest changes is \"\": expected NewestFirst or OldestFirst",
		maps + "?changes=NewestFirst&after=x":               "400 BadRequest invalid after: ",
		maps + "?changes=NewestFirst&after=5&since=" + then: invalid,
		maps + "?changes=NewestFirst&after=9&upTo=5":        invalid,
		maps + "?changes=NewestFirst&resourceVersion=5":     invalid,
		maps + "?changes=NewestFirst&continue=abc":          "400 BadRequest invalid continue token",
		maps +
			"?changes=NewestFirst&fieldSelector=spec.a%3D1": "400 BadRequest \"spec.a\" is not a known field selector",
		"/api/v1/namespaces/default/pods/x/log?changes=NewestFirst": "",
		"/apis/apps/v1/namespaces/default/deployments/x/scale?at=" +
			then: "400 BadRequest the past of deployments.apps has no subresource",
	} {
		if got := d.do("GET", path, ""); got.StatusCode == http.StatusOK || !strings.HasPrefix(got.status(), want) {
			t.Errorf("%s: %s, want %s", path, got.status(), want)
		}
	}
	if got := d.do("DELETE", pastMaps+"?at=2026-11-25T14:00:00Z", ""); got.StatusCode != http.StatusBadRequest {
		t.Errorf("delete the past: %s", got.status())
	}
	if got := d.do("GET",
		pastMaps+"?changes=NewestFirst", "",
		"Accept: application/json;as=Table;g=meta.k8s.io;v=v1"); got.StatusCode != http.StatusNotAcceptable {
		t.Errorf("as a table: %s", got.status())
	}
}

// status is the Status of an answer as text.
func (a answer) status() string {
	var s struct {
		Code            int
		Reason, Message string
	}
	_ = json.Unmarshal([]byte(a.body), &s) // then it has no reason
	return fmt.Sprintf("%d %s %s", s.Code, s.Reason, s.Message)
}
