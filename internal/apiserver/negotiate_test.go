package apiserver_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestAcceptSelectsTheForm(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	const (
		jsonType = "application/json"
		yamlType = "application/yaml"
		table    = "application/json;as=Table;g=meta.k8s.io;v=v1"
		partial  = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		partials = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1"
		get      = configMaps + "/a"
		list     = configMaps
		watch    = configMaps + "?watch=1&resourceVersion=0"
	)
	for _, c := range []struct{ accept, path, want string }{
		{"", get, "200 " + jsonType + " ConfigMap v1"},
		{jsonType, get, "200 " + jsonType + " ConfigMap v1"},
		{"*/*", get, "200 " + jsonType + " ConfigMap v1"},
		{"application/*", get, "200 " + jsonType + " ConfigMap v1"},
		{"text/html,application/json;q=0.5", get, "200 " + jsonType + " ConfigMap v1"},
		{"application/json;q=0.2, application/yaml;q=0.7", get, "200 " + yamlType + " ConfigMap v1"},
		{"application/json;q=0, application/yaml", get, "200 " + yamlType + " ConfigMap v1"},
		{yamlType, get, "200 " + yamlType + " ConfigMap v1"},
		{yamlType, list, "200 " + yamlType + " ConfigMapList v1"},
		{protobufType, get, "200 " + protobufType + " ConfigMap v1"},
		{protobufType, list, "200 " + protobufType + " ConfigMapList v1"},
		{protobufType + ";stream=watch", watch, "200 " + protobufType + ";stream=watch ADDED ConfigMap v1"},
		{protobufType + ", application/json", watch, "200 " + protobufType + ";stream=watch ADDED ConfigMap v1"},
		{protobufType + ";stream=other", watch, "406"},
		{protobufType + ";sv=v1", get, "200 " + protobufType + " ConfigMap v1"},
		{protobufType + ";sv=v2", get, "406"},
		{protobufType + partialParams, get, "200 " + protobufType + " PartialObjectMetadata meta.k8s.io/v1"},
		{protobufType + partialsParams + "beta1", list, "200 " + protobufType + " PartialObjectMetadataList meta.k8s.io/v1beta1"},
		{protobufType + partialParams, watch, "200 " + protobufType + ";stream=watch ADDED PartialObjectMetadata meta.k8s.io/v1"},
		{protobufType + partialsParams, get, "406"},
		{protobufType + ";as=Table;g=meta.k8s.io;v=v1", list, "406"},
		{protobufType + ";as=Table;g=meta.k8s.io;v=v1", watch, "406"},
		{protobufType + ";as=Table;g=meta.k8s.io;v=v1," + table, list, "200 " + jsonType + " Table meta.k8s.io/v1"},
		{protobufType + ";g=meta.k8s.io;v=v1", get, "406"},
		{protobufType + ";q=0.5, application/json", get, "200 " + jsonType + " ConfigMap v1"},
		{"application/json;q=0.5, " + protobufType, get, "200 " + protobufType + " ConfigMap v1"},
		{"*/*, " + protobufType, get, "200 " + protobufType + " ConfigMap v1"},
		{"application/*, */*, application/yaml", get, "200 " + yamlType + " ConfigMap v1"},
		{"application/cbor", list, "406"},
		{"text/plain", list, "406"},
		{";;;", list, "406"},
		{protobufType + ",application/json", list, "200 " + protobufType + " ConfigMapList v1"},
		{"application/json," + protobufType, list, "200 " + jsonType + " ConfigMapList v1"},
		{protobufType + ", */*", list, "200 " + protobufType + " ConfigMapList v1"},
		{table, get, "200 " + jsonType + " Table meta.k8s.io/v1"},
		{table, list, "200 " + jsonType + " Table meta.k8s.io/v1"},
		{"application/json;as=Table;g=meta.k8s.io;v=v1beta1", list, "200 " + jsonType + " Table meta.k8s.io/v1beta1"},
		{"application/yaml;as=Table;g=meta.k8s.io;v=v1", list, "200 " + yamlType + " Table meta.k8s.io/v1"},
		{partial, get, "200 " + jsonType + " PartialObjectMetadata meta.k8s.io/v1"},
		{partials, list, "200 " + jsonType + " PartialObjectMetadataList meta.k8s.io/v1beta1"},
		{partial, list, "406"},
		{partials, get, "406"},
		{"application/json;as=Table;g=meta.k8s.io;v=v2", list, "406"},
		{"application/json;as=Table;g=other;v=v1", list, "406"},
		{"application/json;as=Chair;g=meta.k8s.io;v=v1", list, "406"},
		{"application/json;as=Chair;g=meta.k8s.io;v=v1,application/json", list, "200 " + jsonType + " ConfigMapList v1"},
		{yamlType, watch, "406"},
		{jsonType, watch, "200 " + jsonType + " ADDED ConfigMap v1"},
		{"application/json;stream=watch", watch, "200 " + jsonType + " ADDED ConfigMap v1"},
		{table, watch, "200 " + jsonType + " ADDED Table meta.k8s.io/v1"},
		{partial, watch, "200 " + jsonType + " ADDED PartialObjectMetadata meta.k8s.io/v1"},
	} {
		t.Run(c.accept+" "+c.path, func(t *testing.T) {
			s := d.open(d.h2, c.path, "Accept: "+c.accept)
			defer s.stop()
			got := fmt.Sprint(s.resp.StatusCode)
			media := s.resp.Header.Get("Content-Type")
			switch {
			case s.resp.StatusCode != http.StatusOK:
				var status map[string]any
				body, err := io.ReadAll(s.resp.Body)
				if media == protobufType {
					status = envelopeTree(t, body)
				} else if err := errors.Join(err, yaml.Unmarshal(body, &status)); err != nil {
					t.Fatal(err)
				}
				want := "only the following media types are accepted: application/json, application/yaml, " + protobufType
				if c.path == watch && c.accept == yamlType { // which it has, but not as a stream
					want = "only the following media types are accepted: application/json;stream=watch, " + protobufType +
						";stream=watch"
				}
				if status["message"] != want || status["reason"] != "NotAcceptable" {
					t.Errorf("Status %v", status)
				}
			case c.path == watch:
				e := s.next()
				got = fmt.Sprintf("200 %s %v %v %v", media, e["type"], at(e, "object", "kind"), at(e, "object", "apiVersion"))
			default:
				body, err := io.ReadAll(s.resp.Body)
				if err != nil {
					t.Fatalf("read to the end: %v", err)
				}
				var v map[string]any
				if media == protobufType {
					v = envelopeTree(t, body)
				} else if err := yaml.Unmarshal(body, &v); err != nil {
					t.Fatal(err)
				}
				if isJSON := body[0] == '{'; isJSON != (media == jsonType) {
					t.Errorf("%s with a body that begins with %q", media, body[0])
				}
				got = fmt.Sprintf("200 %s %v %v", media, v["kind"], v["apiVersion"])
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestWriteWithUnacceptableAcceptWritesNothing(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	const cbor = "Accept: application/cbor"
	for _, c := range []struct{ method, path, body, media string }{
		{"POST", configMaps, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"}}`, "application/json"},
		{"PUT", configMaps + "/a", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`, "application/json"},
		{"PATCH", configMaps + "/a", `{"data":{"z":"1"}}`, "application/merge-patch+json"},
		{"DELETE", configMaps + "/a", "", ""},
		{"DELETE", configMaps, "", ""},
	} {
		before := d.do("GET", configMaps, "").body
		if a := d.do(c.method, c.path, c.body, cbor, "Content-Type: "+c.media); a.StatusCode != http.StatusNotAcceptable {
			t.Errorf("%s: %d %s", c.method, a.StatusCode, a.body)
		}
		if after := d.do("GET", configMaps, "").body; after != before {
			t.Errorf("%s changed\n%s to\n%s", c.method, before, after)
		}
	}
}

func TestBrowsersAndCurlGetIndentedAnswers(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	for _, c := range []struct {
		path, agent string
		pretty      bool
	}{
		{configMaps + "/a", "test/1", false},
		{configMaps + "/a", "curl/8", true},
		{configMaps, "Wget/1.21", true},
		{configMaps, "Mozilla/5.0 (X11)", true},
		{configMaps + "?pretty=1", "test/1", true},
		{configMaps + "?pretty=true", "test/1", true},
		{configMaps + "?pretty=0", "curl/8", false},
		{configMaps + "?pretty=false", "curl/8", false},
		{configMaps + "/b?pretty=1", "test/1", true},
		{"/version?pretty=1", "test/1", true},
	} {
		a := d.do("GET", c.path, "", "User-Agent: "+c.agent)
		if got := strings.Contains(a.body, "\n  \""); got != c.pretty {
			t.Errorf("%s for %s: indented %v", c.path, c.agent, got)
		}
		tree(t, a.body)
	}
	s := d.open(d.h2, configMaps+"?watch=1&pretty=1&resourceVersion=0", "User-Agent: curl/8")
	if got := s.say(); got != "ADDED a" { // say reads one line
		t.Errorf("watch: %s", got)
	}
}

func TestLargeAnswersAreCompressedIfAccepted(t *testing.T) {
	d := openServer(t, nil)
	for i := range 200 {
		name := fmt.Sprintf("cm-%03d", i)
		body := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name + `"},"data":{"a":"` + strings.Repeat("x",
			1000) + `"}}`
		if a := d.do("POST", configMaps, body); a.StatusCode != http.StatusCreated {
			t.Fatalf("create: %s", a.body)
		}
	}
	plain := d.do("GET", configMaps, "")
	if len(plain.body) < 128<<10 || plain.Header.Get("Content-Encoding") != "" ||
		!strings.Contains(plain.Header.Get("Vary"), "Accept-Encoding") {
		t.Fatalf("%d bytes, headers %v", len(plain.body), plain.Header)
	}
	for _, c := range []struct {
		path, accept, encoding string
		zipped                 bool
	}{
		{configMaps, "", "gzip", true},
		{configMaps, "", "deflate, gzip;q=1.0", true},
		{configMaps, "Accept: application/yaml", "gzip", true},
		{configMaps + "?pretty=1", "", "gzip", true},
		{configMaps, "", "gzip;q=0", false},
		{configMaps, "", "deflate", false},
		{configMaps + "/cm-001", "", "gzip", false},
		{configMaps + "?limit=80", "", "gzip", false}, // 108 KB
	} {
		for _, client := range []*http.Client{d.h1, d.h2} {
			a := d.by(client, "GET", c.path, "", c.accept, "Accept-Encoding: "+c.encoding)
			if got := a.Header.Get("Content-Encoding") == "gzip"; got != c.zipped {
				t.Errorf("%s %s, %s: compressed %v", a.Proto, c.path, c.encoding, got)
				continue
			}
			if c.zipped {
				z, err := gzip.NewReader(strings.NewReader(a.body))
				if err != nil {
					t.Fatalf("make a reader: %v", err)
				}
				body, err := io.ReadAll(z)
				if err != nil {
					t.Fatalf("%s %s: %v", a.Proto, c.path, err)
				}
				if c.accept == "" && !strings.Contains(c.path, "pretty") && string(body) != plain.body {
					t.Errorf("%s %s: other bytes than without compression", a.Proto, c.path)
				}
			}
		}
	}
}
