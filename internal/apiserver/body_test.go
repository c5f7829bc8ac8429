package apiserver_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMalformedBodiesAreRefused(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	const (
		unknown = "the body of the request was in an unknown format - accepted media types include: "
		all     = unknown + "application/json, application/yaml, application/vnd.kubernetes.protobuf"
		noKind  = "the object provided is unrecognized (must be of type ConfigMap): "
		body    = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"}}`
		patches = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"
	)
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	for _, c := range []struct{ name, method, path, media, body, want string }{
		{
			"empty", "POST", configMaps, "application/json", "",
			"400 BadRequest " + noKind + "couldn't get version/kind; json parse error: ",
		},
		{
			"broken", "POST", configMaps, "application/json", "{",
			"400 BadRequest " + noKind + "couldn't get version/kind; json parse error: ",
		},
		{"an array", "POST", configMaps, "application/json", "[]", "400 BadRequest " + noKind},
		{
			"null", "POST", configMaps, "application/json", "null",
			"422 Invalid ConfigMap \"\" is invalid: metadata.name: Required value",
		},
		{
			"a kind that is taken from the path", "POST", configMaps, "application/json", "{}",
			`422 Invalid ConfigMap "" is invalid: metadata.name: Required value`,
		},
		{
			"another kind", "POST", configMaps, "application/json", `{"kind":"Pod","apiVersion":"v1"}`,
			`400 BadRequest Pod in version "v1" cannot be handled as a ConfigMap`,
		},
		{"another version", "POST", configMaps, "application/json", `{"kind":"ConfigMap","apiVersion":"v2"}`, "400 BadRequest "},
		{"too deep", "POST", configMaps, "application/json", deep, "400 BadRequest "},
		{"deep YAML", "POST", configMaps, "application/yaml", strings.Repeat("[", 20000), "400 BadRequest "},
		{
			"broken YAML", "POST", configMaps, "application/yaml", "a: b: c",
			"400 BadRequest the object provided is unrecognized: yaml: ",
		},
		{
			"YAML with a key twice, of which the last one counts", "POST", configMaps, "application/yaml",
			"kind: ConfigMap\nkind: Pod\n", `400 BadRequest Pod in version "" cannot be handled as a ConfigMap`,
		},
		{
			"options with a key twice, in YAML", "DELETE", configMaps + "/a", "application/yaml",
			"gracePeriodSeconds: 1\ngracePeriodSeconds: 2\n", "400 BadRequest decode DeleteOptions: yaml: ",
		},
		{"YAML that grows", "POST", configMaps, "application/yaml", laughs(), "400 BadRequest "},
		{"no protobuf", "POST", configMaps, "application/vnd.kubernetes.protobuf", body, "400 BadRequest " + noKind},
		{
			"a cut off envelope", "POST", configMaps, "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\xff",
			"400 BadRequest " + noKind,
		},
		{"a form", "POST", configMaps, "application/x-www-form-urlencoded", body, "415 UnsupportedMediaType " + all},
		{"a type that is none", "POST", configMaps, "//", body, "415 UnsupportedMediaType " + all},
		{"a patch as a create", "POST", configMaps, "application/merge-patch+json", body, "415 UnsupportedMediaType " + all},
		{"a form as an update", "PUT", configMaps + "/a", "text/plain", body, "415 UnsupportedMediaType " + all},
		{
			"JSON as a patch", "PATCH", configMaps + "/a", "application/json", "{}",
			"415 UnsupportedMediaType " + unknown + patches,
		},
		{"a patch without a type", "PATCH", configMaps + "/a", "", "{}", "415 UnsupportedMediaType " + unknown + patches},
		{"a broken merge patch", "PATCH", configMaps + "/a", "application/merge-patch+json", "{", "400 BadRequest "},
		{"a broken JSON patch", "PATCH", configMaps + "/a", "application/json-patch+json", "{", "400 BadRequest "},
		{"an empty patch", "PATCH", configMaps + "/a", "application/merge-patch+json", "", "400 BadRequest "},
		{"broken options", "DELETE", configMaps + "/a", "application/json", "{", "400 BadRequest decode DeleteOptions: "},
		{
			"other options", "DELETE", configMaps + "/a", "application/json", `{"kind":"Pod"}`,
			"400 BadRequest the body of a DELETE must be DeleteOptions, not Pod",
		},
		{
			"a precondition that is misspelt", "DELETE", configMaps + "/a", "application/json", `{"precondition":{"uid":"x"}}`,
			`400 BadRequest decode DeleteOptions: unknown field "precondition"`,
		},
		{
			"a precondition in another case", "DELETE", configMaps + "/a", "application/json", `{"preconditions":{"UID":"x"}}`,
			`400 BadRequest decode DeleteOptions: unknown field "preconditions.UID"`,
		},
		{
			"a precondition that is misspelt, in YAML", "DELETE", configMaps + "/a", "application/yaml",
			"precondition:\n  uid: x\n", `400 BadRequest decode DeleteOptions: unknown field "precondition"`,
		},
		{
			"options twice", "DELETE", configMaps + "/a", "application/json", `{"dryRun":["All"],"dryRun":[]}`,
			`400 BadRequest decode DeleteOptions: duplicate field "dryRun"`,
		},
		{"another UID in the query", "DELETE", configMaps + "/a?uid=x", "", "", "409 Conflict "},
		{"another version in the query", "DELETE", configMaps + "/a?resourceVersion=7", "", "", "409 Conflict "},
		{"another version of a collection in the query", "DELETE", configMaps + "?resourceVersion=1", "", "", "409 Conflict "},
		{"another UID of a collection in the query", "DELETE", configMaps + "?uid=x", "", "", "409 Conflict "},
		{"options of another type", "DELETE", configMaps + "/a", "text/plain", "{}", "415 UnsupportedMediaType " + all},
		{"protobuf options", "DELETE", configMaps + "/a", "application/vnd.kubernetes.protobuf", "{}", "400 BadRequest "},
		{
			"grace that is no number", "DELETE", configMaps + "/a?gracePeriodSeconds=x", "", "",
			"400 BadRequest gracePeriodSeconds: ",
		},
		{"a policy that there is not", "DELETE", configMaps + "/a?propagationPolicy=Foo", "", "", "422 Invalid "},
		{"both policies", "DELETE", configMaps + "/a?propagationPolicy=Orphan&orphanDependents=true", "", "", "422 Invalid "},
		{"a dry run that there is not", "POST", configMaps + "?dryRun=Some", "application/json", body, "422 Invalid "},
		{"a validation that there is not", "POST", configMaps + "?fieldValidation=Foo", "application/json", body, "422 Invalid "},
		{
			"another namespace", "POST", configMaps, "application/json",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"x"}}`,
			"400 BadRequest the namespace of the provided object does not match the namespace sent on the request",
		},
		{
			"a resourceVersion on creation", "POST", configMaps, "application/json",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","resourceVersion":"1"}}`,
			"400 BadRequest resourceVersion should not be set on objects to be created",
		},
		{
			"a dry run of an update that there is not", "PUT", configMaps + "/a?dryRun=Some", "application/json", body,
			"422 Invalid ",
		},
		{
			"a dry run of a patch that there is not", "PATCH", configMaps + "/a?dryRun=Some", "application/merge-patch+json",
			"{}", "422 Invalid ",
		},
		{"a dry run of a deletion that there is not", "DELETE", configMaps + "/a?dryRun=Some", "", "", "422 Invalid "},
		{"a dry run of a collection's deletion that there is not", "DELETE", configMaps + "?dryRun=Some", "", "", "422 Invalid "},
		{
			"a validation of a patch that there is not", "PATCH", configMaps + "/a?fieldValidation=strict",
			"application/merge-patch+json", "{}", "422 Invalid ",
		},
		{
			"force without server-side apply", "PATCH", configMaps + "/a?force=true", "application/merge-patch+json", "{}",
			"422 Invalid ",
		},
		{
			"no name", "POST", configMaps, "application/json", `{"kind":"ConfigMap","apiVersion":"v1"}`,
			`422 Invalid ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`,
		},
		{
			"exists", "POST", configMaps, "application/json", strings.Replace(body, `"b"`, `"a"`, 1),
			`409 AlreadyExists configmaps "a" already exists`,
		},
		{
			"another name", "PUT", configMaps + "/a", "application/json", body,
			"400 BadRequest the name of the object (b) does not match the name on the URL (a)",
		},
		{
			"stale", "PUT", configMaps + "/a", "application/json",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"1"}}`,
			`409 Conflict Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your ` +
				`changes to the latest version and try again`,
		},
		{"missing", "DELETE", configMaps + "/b", "", "", `404 NotFound configmaps "b" not found`},
		{
			"a namespace that there is not", "POST", "/api/v1/namespaces/x/configmaps", "application/json", body,
			`404 NotFound namespaces "x" not found`,
		},
		{"a namespace that stays", "DELETE", "/api/v1/namespaces/default", "", "", "403 Forbidden "},
		{
			"unknown fields", "POST", configMaps + "?fieldValidation=Strict", "application/json",
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"},"zz":1}`, "400 BadRequest ",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := d.do(c.method, c.path, c.body, "Content-Type: "+c.media)
			s := tree(t, a.body)
			got := fmt.Sprintf("%d %v %v", a.StatusCode, s["reason"], s["message"])
			if !strings.HasPrefix(got, c.want) || s["kind"] != "Status" || s["code"] != float64(a.StatusCode) {
				t.Errorf("%.400s\nwant %s", got, c.want)
			}
		})
	}
	if a := d.do("GET", configMaps+"/b", ""); a.StatusCode != http.StatusNotFound {
		t.Errorf("something was written: %s", a.body)
	}
}

// TestDuplicateKeysOfYAMLFollowFieldValidation: what is refused, and the texts, are upstream's.
func TestDuplicateKeysOfYAMLFollowFieldValidation(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	const (
		twice   = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: \"1\"\n  k: \"2\"\n"
		key     = `line 7: key "k" already set in map`
		strict  = "strict decoding error: yaml: unmarshal errors:\n  " + key
		refused = `400 ConfigMap in version "v1" cannot be handled as a ConfigMap: ` + strict
	)
	for _, c := range []struct {
		name, validation, extra string
		want                    string
		warnings                []string
	}{
		{"strict", "Strict", "", refused, nil},
		{"strict, and an unknown field", "Strict", "zz: 1\n", refused + `, unknown field "zz"`, nil},
		{
			"strict, and a value of another type", "Strict", "immutable: 5\n",
			`400 ConfigMap in version "v1" cannot be handled as a ConfigMap: json: `, nil,
		},
		{"warn", "Warn", "", "200 2", []string{key}},
		{"default", "", "zz: 1\n", "200 2", []string{key, `unknown field "zz"`}},
		{"ignore", "Ignore", "zz: 1\n", "200 2", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := d.do("PUT",
				configMaps+"/a?dryRun=All&fieldValidation="+c.validation, twice+c.extra, "Content-Type: application/yaml")
			o := tree(t, a.body)
			data, _ := o["data"].(map[string]any)
			got := fmt.Sprintf("%d %v", a.StatusCode, data["k"])
			if a.StatusCode != http.StatusOK {
				got = fmt.Sprintf("%d %v", a.StatusCode, o["message"])
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			var warnings []string
			for _, text := range c.warnings {
				warnings = append(warnings, fmt.Sprintf("299 - %q", text))
			}
			if diff := cmp.Diff(warnings, a.Header.Values("Warning")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	const scale = "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: d, namespace: default}\nspec:\n  " +
		"replicas: 1\n  replicas: 2\n"
	a := d.do("PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale?fieldValidation=Strict", scale,
		"Content-Type: application/yaml")
	if got := tree(t,
		a.body)["message"]; got !=
		`Scale in version "v1" cannot be handled as a Scale: strict decoding error: yaml: unmarshal errors:`+"\n"+
			`  line 6: key "replicas" already set in map` {
		t.Errorf("a scale: %d %v", a.StatusCode, got)
	}
}

// laughs is YAML of a few hundred bytes that would be gigabytes.
func laughs() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := range 12 {
		item := fmt.Sprintf("*a%d,", i)
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(item, 9), ","))
	}
	return b.String()
}

func TestBodiesOfEveryMediaTypeAreRead(t *testing.T) {
	d := openServer(t, nil)
	for i, c := range []struct{ media, body string }{
		{"", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-0"}}`},
		{
			"application/json; charset=utf-8",
			"{\n\t\"kind\": \"ConfigMap\", \"apiVersion\": \"v1\",\n\t\"metadata\": {\"name\": \"cm-1\"}}",
		},
		{"application/yaml", "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: cm-2\n"},
	} {
		a := d.do("POST", configMaps, c.body, "Content-Type: "+c.media)
		if a.StatusCode != http.StatusCreated {
			t.Errorf("%q: %d %s", c.media, a.StatusCode, a.body)
		}
		options := []string{
			"{\n\t\"kind\": \"DeleteOptions\",\n\t\"dryRun\": [\"All\"]}", "{}", "kind: DeleteOptions\ndryRun: [All]\n",
		}[i]
		a = d.do("DELETE", fmt.Sprintf("%s/cm-%d", configMaps, i), options, "Content-Type: "+c.media)
		if a.StatusCode != http.StatusOK {
			t.Errorf("delete with %q: %d %s", c.media, a.StatusCode, a.body)
		}
	}
	list := tree(t, d.do("GET", configMaps, "").body)
	if items, _ := list["items"].([]any); len(items) != 2 { // two deletes were dry
		t.Errorf("%v", list)
	}
}

func TestBodiesOverThreeMegabytesAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	d := openServer(t, nil)
	d.create("a", "")
	const limit = 3 << 20
	object := func(size int) string {
		head, tail := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"a":"`, `"}}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	for _, c := range []struct {
		name, method, path, media, body string
		want                            int
	}{
		{"create", "POST", configMaps, "application/json", object(limit + 1), 413},
		{"update", "PUT", configMaps + "/a", "application/json", object(limit + 1), 413},
		{"patch", "PATCH", configMaps + "/a", "application/merge-patch+json", object(limit + 1), 413},
		{"delete", "DELETE", configMaps + "/a", "application/json", object(limit + 1), 413},
		{"much too large", "POST", configMaps, "application/json", object(8 * limit), 413},
		// The object itself is too large for its kind, but the body is read.
		{"at the limit", "PUT", configMaps + "/a", "application/json", object(limit), 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, client := range []*http.Client{d.h1, d.h2} {
				for _, chunked := range []bool{false, true} {
					r := d.request(c.method, c.path, c.body, "Content-Type: "+c.media)
					if chunked {
						r.ContentLength, r.Body = -1, io.NopCloser(strings.NewReader(c.body))
					}
					resp, err := client.Do(r)
					if err != nil {
						t.Fatalf("chunked %v: %v", chunked, err)
					}
					body, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err != nil {
						t.Fatalf("read to the end: %v", err)
					}
					if resp.StatusCode != c.want {
						t.Errorf("%s, chunked %v: %d %.300s", resp.Proto, chunked, resp.StatusCode, body)
					}
					if s := tree(t,
						string(body)); c.want == 413 &&
						(s["reason"] != "RequestEntityTooLarge" || s["message"] != "Request entity too large: limit is 3145728") {
						t.Errorf("Status %s", body)
					}
				}
			}
		})
	}
}
