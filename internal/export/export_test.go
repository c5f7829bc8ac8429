package export

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/seed/manifest"
)

func resource(group, plural string) client.Resource {
	return client.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}}
}

func TestFileNamesAreSafeAndDifferent(t *testing.T) {
	long := strings.Repeat("a", 253)
	for name, want := range map[string]string{
		"web-1.example.com": "web-1.example.com",
		"system:node":       "system%3Anode",
		"Admin":             "%41dmin",
		"admin":             "admin",
		"..":                "%2E%2E",
		".":                 "%2E",
		".hidden":           "%2Ehidden",
		"a/b\\c":            "a%2Fb%5Cc",
		"a%2Fb":             "a%252%46b",
		"con":               "%63on",
		"lpt1.x":            "%6Cpt1.x",
		"é ":                "%C3%A9%20",
		long:                long[:167] + "~",
	} {
		got := fileName(name)
		if name == long {
			if len(got) != longestName || !strings.HasPrefix(got, want) || got == fileName(long[1:]) ||
				got == fileName(long+"b") {
				t.Errorf("the long name becomes %s", got)
			}
		} else if got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, name := range []string{"..", "a/b", "CON", "system:x", strings.Repeat("A", 100), "a."} {
		f.Add(name, "b")
		f.Add(name, strings.ToLower(name))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := fileName(a), fileName(b)
		if a != "" && (filepath.Base(x) != x || !filepath.IsLocal(x) || len(x) > longestName) {
			t.Errorf("%q becomes %q", a, x)
		}
		if a != b && strings.EqualFold(x, y) {
			t.Errorf("%q and %q become %q and %q", a, b, x, y)
		}
	})
}

func TestServersFieldsAreRemoved(t *testing.T) {
	const meta = `"uid":"u","resourceVersion":"5","creationTimestamp":"t","generation":3,"managedFields":[],"selfLink":"/x"`
	for name, c := range map[string]struct {
		r         client.Resource
		options   Options
		object    string
		want, why string
	}{
		"all kinds": {
			r: resource("", "pods"),
			object: `{"metadata":{"name":"a","ownerReferences":[{"uid":"u"}],` + meta +
				`},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}`,
			want: `{"metadata":{"name":"a"},"spec":{"nodeName":"n"}}`,
		},
		"status": {
			r: resource("", "pods"), options: Options{Status: true}, object: `{"metadata":{},"status":{"a":1}}`,
			want: `{"metadata":{},"status":{"a":1}}`,
		},
		"controlled": {
			r: resource("", "pods"), object: `{"metadata":{"ownerReferences":[{"controller":true}]}}`, why: byController,
		},
		"controlled, all": {
			r: resource("", "pods"), options: Options{All: true},
			object: `{"metadata":{"name":"a","ownerReferences":[{"controller":true}]}}`, want: `{"metadata":{"name":"a"}}`,
		},
		"deleted": {
			r: resource("", "pods"), options: Options{All: true}, object: `{"metadata":{"deletionTimestamp":"t"}}`,
			why: inDeletion,
		},
		"namespace": {
			r: resource("", "namespaces"),
			object: `{"metadata":{"name":"shop","labels":{"kubernetes.io/metadata.name":"shop"}},` +
				`"spec":{"finalizers":["kubernetes"]}}`, want: `{"metadata":{"name":"shop"}}`,
		},
		"first namespace": {
			r: resource("", "namespaces"),
			object: `{"kind":"Namespace","metadata":{"name":"default","uid":"u",` +
				`"labels":{"kubernetes.io/metadata.name":"default"}},"status":{}}`, why: byStart,
		},
		"labelled namespace": {
			r: resource("", "namespaces"), object: `{"metadata":{"name":"default","labels":{"a":"b"}}}`,
			want: `{"metadata":{"labels":{"a":"b"},"name":"default"}}`,
		},
		"first account": {
			r: resource("", "serviceaccounts"), object: `{"metadata":{"name":"default","namespace":"shop"}}`, why: byStart,
		},
		"changed account": {
			r: resource("", "serviceaccounts"), object: `{"metadata":{"name":"default"},"secrets":[]}`,
			want: `{"metadata":{"name":"default"},"secrets":[]}`,
		},
		"class of the system": {
			r: resource("scheduling.k8s.io", "priorityclasses"), object: `{"metadata":{"name":"system-node-critical"}}`,
			why: byStart,
		},
		"flow schema of the server": {
			r:      resource("flowcontrol.apiserver.k8s.io", "flowschemas"),
			object: `{"metadata":{"name":"probes","annotations":{"apf.kubernetes.io/autoupdate-spec":"true"}}}`, why: byStart,
		},
		"flow schema of a user": {
			r:      resource("flowcontrol.apiserver.k8s.io", "flowschemas"),
			object: `{"metadata":{"name":"probes","annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}}}`,
			want:   `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"},"name":"probes"}}`,
		},
		"certificate": {r: resource("", "configmaps"), object: `{"metadata":{"name":"kube-root-ca.crt"}}`, why: byStart},
		"ranges of Services": {
			r: resource("networking.k8s.io", "servicecidrs"), object: `{"metadata":{"name":"kubernetes"}}`, why: byStart,
		},
		"address of a Service": {
			r: resource("networking.k8s.io", "ipaddresses"), object: `{"metadata":{"name":"10.0.0.9",` +
				`"labels":{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"}}}`, why: byController,
		},
		"APIService of the server": {
			r:      resource("apiregistration.k8s.io", "apiservices"),
			object: `{"metadata":{"name":"v1.apps","labels":{"kube-aggregator.kubernetes.io/automanaged":"onstart"}}}`,
			why:    byStart,
		},
		"service": {
			r: resource("", "services"), object: `{"metadata":{"name":"kubernetes","namespace":"default"}}`, why: byStart,
		},
		"other service": {
			r: resource("", "services"), object: `{"metadata":{"name":"kubernetes","namespace":"shop"}}`,
			want: `{"metadata":{"name":"kubernetes","namespace":"shop"}}`,
		},
		"token": {
			r: resource("", "secrets"), object: `{"metadata":{},"type":"kubernetes.io/service-account-token"}`, why: ofCluster,
		},
		"first role": {
			r:      resource("rbac.authorization.k8s.io", "clusterroles"),
			object: `{"metadata":{"labels":{"kubernetes.io/bootstrapping":"rbac-defaults"}}}`, why: byStart,
		},
		"aggregated": {
			r: resource("rbac.authorization.k8s.io", "clusterroles"), object: `{"metadata":{},"aggregationRule":{},"rules":[{}]}`,
			want: `{"aggregationRule":{},"metadata":{}}`,
		},
		"odd": {
			r: resource("", "pods"), object: `{"metadata":{"labels":[1],"ownerReferences":{"x":1}},"spec":null}`,
			want: `{"metadata":{"labels":[1]},"spec":null}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tree, err := decode([]byte(c.object))
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if why := c.options.clean(c.r, tree); why != c.why {
				t.Errorf("left out because %q, want %q", why, c.why)
			}
			if got, err := json.Marshal(tree); err != nil || c.want != "" && string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// FuzzEncode: what is written is read as the same object, and encoded again to the same
// text.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{
		`{"a":"1e3","b":"yes","c":"0x1F","d":"2020-01-01","e":"~","f":"- x","g":" a\n b\n","h":"\n\n",` +
			`"i":"é\u2028\u0007","j":"=","k":"<<"}`,
		`{"a":1.0,"b":1e21,"c":9007199254740993,"d":18446744073709551615,"e":0.1,"f":-0,"g":[null,true,{}]}`,
		`{"":"","a b":{"*x":"&y"},"10":1,"9":2,"on":3,"\t":"\t","x":"\u0085\ufeff\ud83d\ude00"}`,
	} {
		f.Add([]byte(text))
		f.Add([]byte(`{"0":"00","00":0,"x":"\u0080\u007f\u009f\ufffe\uffff\ufeff\u0085"}`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		tree, err := decode(text)
		if err != nil {
			return
		}
		first, err := encode(tree)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		asJSON, err := yaml.YAMLToJSONStrict(first) // of JSON too
		if err != nil {
			t.Fatalf("%s becomes %s: %v", text, first, err)
		}
		if first[0] == '{' {
			asJSON = first // as gapless serve --from reads it
		}
		read, err := decode(asJSON)
		if err != nil || !same(tree, read) {
			t.Fatalf("%s becomes %s, which is %v, %v", text, first, read, err)
		}
		if again, err := encode(read); err != nil || string(again) != string(first) {
			t.Fatalf("%s becomes %s, and then %s", text, first, again)
		}
	})
}

func TestDirectoryIsReplacedAtTheEndOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	files := func() (names []string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				below, _ := filepath.Rel(dir, name)
				names = append(names, filepath.ToSlash(below))
			}
			return err
		})
		if err != nil {
			t.Fatalf("walk over a directory: %v", err)
		}
		return names
	}
	open := func(replace Replace, names ...string) *Directory {
		t.Helper()
		d, err := NewDirectory(dir, replace)
		if err != nil {
			t.Fatalf("make a directory: %v", err)
		}
		for _, name := range names {
			if err := d.Put(resource("apps", "deployments"), "shop", name, []byte("x")); err != nil {
				t.Fatalf("put: %v", err)
			}
		}
		return d
	}
	if err := open(KeepFormer, "a").Abort(); err != nil {
		t.Fatalf("abort: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an export that was given up leaves its directory: %v", err)
	}
	if err := open(KeepFormer, "a", "b").Finish(); err != nil {
		t.Fatalf("finish: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README"), nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if _, err := NewDirectory(dir, KeepFormer); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("into a full directory: %v", err)
	}
	_ = open(ReplaceFormer, "c") // as if it was killed
	if got := files(); len(got) != 4 || !strings.HasPrefix(got[0], manifest.UnfinishedPrefix) {
		t.Errorf("an export under way has the files %v", got)
	}
	if err := open(ReplaceFormer, "c").Finish(); err != nil {
		t.Fatalf("finish: %v", err)
	}
	if diff := cmp.Diff([]string{"README", "namespaces/shop/deployments.apps/c.yaml"}, files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestListThatExpiresIsExplained: the server answers 410 to the second page.
func TestListThatExpiresIsExplained(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}}]}`
		switch {
		case r.URL.Path == "/api":
			body = `{"kind":"APIVersions","versions":["v1"]}`
		case r.URL.Path == "/apis":
			body = `{"kind":"APIGroupList","groups":[]}`
		case r.URL.Path == "/api/v1":
			body = `{"kind":"APIResourceList","resources":[{"name":"configmaps","namespaced":true,"kind":"ConfigMap",` +
				`"verbs":["create","list"]}]}`
		case r.URL.Query().Get("limit") != "500":
			w.WriteHeader(http.StatusBadRequest)
		case r.URL.Query().Get("continue") != "":
			w.WriteHeader(http.StatusGone)
			body = `{"kind":"Status","status":"Failure","reason":"Expired","code":410}`
		}
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	c, err := client.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer c.CloseIdle()
	var out strings.Builder
	done, err := (&Exporter{Client: c}).Run(t.Context(), Stream{To: &out})
	if err == nil || !strings.Contains(err.Error(), "export again") {
		t.Errorf("got %v", err)
	}
	if want := "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"; done.Written != 1 || out.String() != want {
		t.Errorf("%+v, and the output is %q", done, out.String())
	}
}
