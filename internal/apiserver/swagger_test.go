package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestOpenAPIVersion2FollowsTheDefinitions(t *testing.T) {
	d := openServer(t, nil)
	tags := map[string]bool{}
	expect := func(when string, served bool) {
		t.Helper()
		a := d.do("GET", "/openapi/v2", "", "Accept: application/json")
		definitions, _ := tree(t, a.body)["definitions"].(map[string]any)
		if a.StatusCode != http.StatusOK || definitions["io.k8s.api.core.v1.Pod"] == nil ||
			(definitions["com.example.t.v1.Foo"] != nil) != served {
			t.Errorf("%s: %d, %d definitions, want foos: %t", when, a.StatusCode, len(definitions), served)
		}
		etag := a.Header.Get("Etag")
		if again := d.do("GET",
			"/openapi/v2", "", "Accept: application/json", "If-None-Match: "+etag); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d for the same tag", when, again.StatusCode)
		}
		tags[etag] = true
	}
	definitions := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	expect("at first", false)
	if a := d.do("POST", definitions, definition); a.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	expect("defined", true)
	if a := d.do("DELETE", definitions+"/foos.t.example.com", ""); a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for d.do("GET", definitions+"/foos.t.example.com", "").StatusCode != http.StatusNotFound {
		<-tick.C // its objects are deleted first
	}
	expect("deleted", false)
	if len(tags) != 2 {
		t.Errorf("%d tags of two documents", len(tags))
	}
}

func TestOpenAPIVersion2AnswersAsUpstream(t *testing.T) {
	d := openServer(t, nil)
	const older = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	a := d.do("GET", "/openapi/v2", "", "Accept: "+older)
	if a.StatusCode != http.StatusOK || a.Header.Get("Content-Type") != strings.Replace(older, "@", ".", 1) {
		t.Errorf("protobuf: %d %v", a.StatusCode, a.Header)
	}
	if a := d.do("HEAD", "/openapi/v2", ""); a.StatusCode != http.StatusOK || a.body != "" || a.Header.Get("Etag") == "" {
		t.Errorf("HEAD: %d %q %v", a.StatusCode, a.body, a.Header)
	}
	if a := d.do("GET",
		"/openapi/v2", "", "Accept: text/html"); a.StatusCode != http.StatusNotAcceptable || !strings.Contains(a.body, older) {
		t.Errorf("HTML: %d %s", a.StatusCode, a.body)
	}
	if a := d.do("POST", "/openapi/v2", "{}"); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", a.StatusCode, a.body)
	}
	if a := d.do("GET", "/", ""); !strings.Contains(a.body, `"/openapi/v2"`) {
		t.Errorf("the index does not list it: %s", a.body)
	}
}

// TestOpenAPIVersion3FollowsTheDefinitions at the addresses of its index.
func TestOpenAPIVersion3FollowsTheDefinitions(t *testing.T) {
	d := openServer(t, nil)
	address := func() string {
		t.Helper()
		paths, _ := tree(t, d.do("GET", "/openapi/v3", "").body)["paths"].(map[string]any)
		entry, _ := paths["apis/t.example.com/v1"].(map[string]any)
		url, _ := entry["serverRelativeURL"].(string)
		return url
	}
	const path = "/openapi/v3/apis/t.example.com/v1"
	if url := address(); url != "" || d.do("GET", path, "").StatusCode != http.StatusNotFound {
		t.Errorf("at first: %q", url)
	}
	if a := d.do("POST",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition); a.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	url := address()
	a := d.do("GET", url, "")
	components, _ := tree(t, a.body)["components"].(map[string]any)
	schemas, _ := components["schemas"].(map[string]any)
	if a.StatusCode != http.StatusOK || schemas["com.example.t.v1.FooList"] == nil || !strings.HasPrefix(url, path+"?hash=") {
		t.Errorf("%q: %d, %d definitions", url, a.StatusCode, len(schemas))
	}
	if a := d.do("HEAD", url, ""); a.StatusCode != http.StatusOK || a.body != "" || a.Header.Get("Etag") == "" {
		t.Errorf("HEAD: %d %q %v", a.StatusCode, a.body, a.Header)
	}
	if a := d.do("GET",
		path, "",
		"Accept: application/com.github.proto-openapi.spec.v3@v1.0+protobuf"); a.StatusCode != http.StatusNotAcceptable {
		t.Errorf("protobuf: %d", a.StatusCode)
	}
	if a := d.do("POST", path, "{}"); a.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", a.StatusCode)
	}
}
