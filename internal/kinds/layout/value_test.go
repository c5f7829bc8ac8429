package layout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/wire"
)

// fixtures are upstream's round-trip fixtures of a release: an object of every version of every kind, in
// which every field is set.
func fixtures(tb testing.TB, release string) string {
	tb.Helper()
	dir, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		tb.Fatalf("find k8s.io/api: %v", err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), "testdata", release)
}

// fixture is the file of a version of a kind, without the suffix.
// hasNoFixture reports whether a kind is of another module than k8s.io/api, which has no fixtures.
func hasNoFixture(r *kinds.Resource) bool {
	return r.IsDefinition() || r.Group == "apiregistration.k8s.io"
}

func fixture(dir string, gvk kinds.GroupVersionKind) string {
	group := gvk.Group
	if group == "" {
		group = "core"
	}
	return filepath.Join(dir, group+"."+gvk.Version+"."+gvk.Kind)
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatalf("read a fixture: %v", err)
	}
	return text
}

// storedVersions are the versions in which kube-apiserver 1.37 stores kinds that this server has in v1.
func storedVersions() map[string]string {
	return map[string]string{
		"ClusterTrustBundle": "v1beta1", "PodCertificateRequest": "v1beta1", "StorageVersionMigration": "v1beta1",
		"DeviceTaintRule": "v1beta2",
	}
}

// keyOf is a key in the store.
func keyOf(r *kinds.Resource) string { return r.GR().String() + "/default/a" }

// tree decodes JSON.
func tree(tb testing.TB, text []byte) map[string]any {
	tb.Helper()
	var o map[string]any
	if err := json.Unmarshal(text, &o); err != nil {
		tb.Fatalf("decode %s: %v", text, err)
	}
	return o
}

func TestEncodedObjectsAreTheBytesOfKubeAPIServer(t *testing.T) {
	l, dir, checked := newLayout(), fixtures(t, "HEAD"), 0
	for _, r := range builtin.Catalog().Stored() {
		if hasNoFixture(r) {
			continue // k8s.io/api has no fixture of it
		}
		gvk := r.GVK()
		own := read(t, fixture(dir, gvk)+".json")
		if version, other := storedVersions()[r.Kind]; other {
			gvk.Version = version
		}
		if r.Kind == "PodCertificateRequest" {
			continue // the fixture of v1beta1 has fields that v1 does not have
		}
		want := read(t, fixture(dir, gvk)+".pb")
		var value bytes.Buffer // content of any type stays as it is written
		if err := json.Compact(&value, own); err != nil {
			t.Fatalf("compact the %s: %v", r.Kind, err)
		}
		got, err := l.Encode(keyOf(r), value.Bytes(), nil)
		if err != nil {
			t.Errorf("encode the %s: %v", r.Kind, err)
			continue
		}
		if checked++; !bytes.Equal(got, want) {
			t.Errorf("%s is encoded as\n%.2000q, want\n%.2000q", r.Kind, got, want)
		}
	}
	if checked < 50 {
		t.Errorf("only %d kinds were checked", checked)
	}
}

// TestAPIServicesAreStoredInJSON: as kube-apiserver, whose aggregator has a codec of its own. What was written in protobuf
// is read all the same.
func TestAPIServicesAreStoredInJSON(t *testing.T) {
	const (
		key   = "apiservices.apiregistration.k8s.io/v1.a.b"
		value = `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.a.b"},` +
			`"spec":{"group":"a.b","groupPriorityMinimum":1,"version":"v1","versionPriority":2},"status":{}}`
		stored = `{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1","metadata":{"name":"v1.a.b"},` +
			`"spec":{"group":"a.b","version":"v1","groupPriorityMinimum":1,"versionPriority":2},"status":{}}` + "\n"
	)
	l := newLayout()
	got, err := l.Encode(key, []byte(value), nil)
	if err != nil || string(got) != stored {
		t.Errorf("%s %v, want %s", got, err, stored)
	}
	back, err := l.Decode(key, got)
	if err != nil || string(back) != value {
		t.Errorf("%s %v, want %s", back, err, value)
	}
	if at, err := l.Key(key); err != nil || at != "/registry/apiregistration.k8s.io/apiservices/v1.a.b" {
		t.Errorf("the key is %s %v", at, err)
	}
}

func TestDecodedObjectsAreWhatTheStoreHas(t *testing.T) {
	l, dir := newLayout(), fixtures(t, "HEAD")
	for _, r := range builtin.Catalog().Stored() {
		if hasNoFixture(r) {
			continue // TestDefinitionsAreStoredAsKubeAPIServerStoresThem
		}
		file := fixture(dir, r.GVK())
		u, _, err := r.Type.Decode(read(t, file+".json"), kinds.FieldsIgnore)
		if err != nil {
			t.Fatalf("decode the %s: %v", r.Kind, err)
		}
		if err := r.Type.Default(u); err != nil {
			t.Fatalf("default the %s: %v", r.Kind, err)
		}
		metadata := u.Object["metadata"].(map[string]any)
		delete(metadata, "selfLink")
		if r.Kind == "DaemonSet" {
			metadata["annotations"].(map[string]any)["deprecated.daemonset.template.generation"] = "0"
		}
		want, err := wire.Canonical(u.Object)
		if err != nil {
			t.Fatalf("encode the %s: %v", r.Kind, err)
		}
		for _, form := range []string{".pb", ".json"} {
			got, err := l.Decode(keyOf(r), read(t, file+form))
			if err != nil {
				t.Errorf("decode the %s of %s: %v", form, r.Kind, err)
				continue
			}
			if diff := cmp.Diff(tree(t, want), tree(t, got)); diff != "" {
				t.Errorf("the %s of %s is another object (-want +got): %s", form, r.Kind, diff)
			}
		}
	}
}

// gone are versions that k8s.io/api had in the releases that it has fixtures of, and does not have any more.
// kube-apiserver 1.37 does not read them either.
var gone = map[string]bool{
	"autoscaling.v2beta1.HorizontalPodAutoscaler": true, "autoscaling.v2beta2.HorizontalPodAutoscaler": true,
	"networking.k8s.io.v1alpha1.IPAddress": true, "networking.k8s.io.v1alpha1.ServiceCIDR": true,
	"resource.k8s.io.v1alpha3.DeviceClass": true, "resource.k8s.io.v1alpha3.ResourceClaim": true,
	"resource.k8s.io.v1alpha3.ResourceClaimTemplate": true, "resource.k8s.io.v1alpha3.ResourceSlice": true,
	"scheduling.k8s.io.v1alpha1.PriorityClass": true, "certificates.k8s.io.v1alpha1.PodCertificateRequest": true,
}

func TestOlderVersionsAreRead(t *testing.T) {
	l, catalog, checked := newLayout(), builtin.Catalog(), 0
	for _, release := range []string{"v1.33.0", "v1.34.0", "v1.35.0", "v1.36.0", "HEAD"} {
		files, err := filepath.Glob(filepath.Join(fixtures(t, release), "*.pb"))
		if err != nil {
			t.Fatalf("find the fixtures: %v", err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".pb")
			r := homeOf(catalog, name)
			if r == nil {
				continue
			}
			value, err := l.Decode(keyOf(r), read(t, file))
			if gone[name] {
				if _, is := errors.AsType[*layout.VersionError](err); !is {
					t.Errorf("%s of %s: %v, want a *VersionError", name, release, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s of %s: %v", name, release, err)
				continue
			}
			checked++
			if got := tree(t, value); got["apiVersion"] != r.APIVersion() || got["kind"] != r.Kind {
				t.Errorf("%s of %s is a %s of %s", name, release, got["kind"], got["apiVersion"])
			}
			plain, err := l.Decode(keyOf(r), read(t, strings.TrimSuffix(file, ".pb")+".json"))
			if err != nil {
				t.Errorf("the JSON of %s of %s: %v", name, release, err)
			} else if diff := cmp.Diff(tree(t, plain), tree(t, value)); diff != "" {
				t.Errorf("%s of %s: the protobuf is another object than the JSON (-JSON +protobuf): %s", name, release, diff)
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d fixtures were checked", checked)
	}
}

// homeOf returns the resource that stores the objects of a fixture, nil if there is none.
func homeOf(catalog *kinds.Catalog, fixture string) *kinds.Resource {
	if strings.Contains(fixture, "after_roundtrip") {
		return nil
	}
	parts := strings.Split(fixture, ".")
	kind, group := parts[len(parts)-1], strings.Join(parts[:len(parts)-2], ".")
	if group == "core" {
		group = ""
	}
	for r := range catalog.All() {
		moved := group == "extensions" && (r.Group == "apps" || r.Group == "networking.k8s.io")
		if r.Kind == kind && (r.Group == group || moved) && (r.StorageVersion != "" || r.Conversion != nil) {
			return r.Home()
		}
	}
	return nil
}

func TestDefinitionsAreStoredAsKubeAPIServerStoresThem(t *testing.T) {
	l := newLayout()
	r := builtintest.Resource(t, "apiextensions.k8s.io", "v1", "customresourcedefinitions")
	value, err := wire.Canonical(builtintest.Written(t, r, builtintest.Manifest(t, r)).Object)
	if err != nil {
		t.Fatalf("encode the definition: %v", err)
	}
	key := "customresourcedefinitions.apiextensions.k8s.io/a"
	stored, err := l.Encode(key, value, nil)
	if err != nil {
		t.Fatalf("encode the value: %v", err)
	}
	if got := tree(t, stored)["apiVersion"]; got != "apiextensions.k8s.io/v1beta1" {
		t.Errorf("it is stored in %v", got)
	}
	for _, form := range [][]byte{stored, value} {
		back, err := l.Decode(key, form)
		if err != nil {
			t.Fatalf("decode %s: %v", form, err)
		}
		if diff := cmp.Diff(tree(t, value), tree(t, back)); diff != "" {
			t.Errorf("it comes back as another one (-want +got): %s", diff)
		}
	}
}

func TestOnlyDefaultsThatReadingFillsInAreFilledIn(t *testing.T) {
	l := newLayout()
	for name, c := range map[string]struct{ key, value, want string }{
		"the port of a service has a protocol": {
			"services/d/a", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"spec":{"ports":[{"port":1}]}}`,
			`"protocol":"TCP"`,
		},
		"a namespace that was finalized stays so": {
			"namespaces/a", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"},"spec":{}}`, `"spec":{},`,
		},
		"a namespace keeps its finalizers": {
			"namespaces/a", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"},"spec":{"finalizers":["x"]}}`, `["x"]`,
		},
		"a definition keeps its stored versions": {
			"customresourcedefinitions.apiextensions.k8s.io/a",
			`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
				`"metadata":{"name":"a"},"spec":{"group":"g","names":{"kind":"K","plural":"p"},"scope":"Cluster",` +
				`"versions":[{"name":"v2","served":true,"storage":true}]},"status":{"storedVersions":["v1"]}}`, `["v1"]`,
		},
		"a daemon set has its deprecated generation": {
			"daemonsets.apps/d/a", `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"a"}}`,
			`"annotations":{"deprecated.daemonset.template.generation":"0"}`,
		},
	} {
		got, err := l.Decode(c.key, []byte(c.value))
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s: got %s, %v, want %s in it", name, got, err, c.want)
		}
	}
}

func TestCustomResourcesStayInTheirVersion(t *testing.T) {
	l := newLayout()
	value := `{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a","namespace":"default"},` +
		`"big":12345678901234567890,` +
		`"data":{"b":1,"a":"<>"}}`
	stored, err := l.Encode("foos.example.com/default/a", []byte(value), nil)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	// As kube-apiserver writes it, with all members in order.
	theirs := `{"apiVersion":"example.com/v1","big":12345678901234567890,"data":{"a":"\u003c\u003e","b":1},"kind":"Foo",` +
		`"metadata":{"name":"a","namespace":"default","resourceVersion":"5"}}` + "\n"
	for _, form := range []string{string(stored), theirs} {
		got, err := l.Decode("foos.example.com/default/a", []byte(form))
		want, _ := l.Decode("foos.example.com/default/a", []byte(value))
		if err != nil || !bytes.Equal(got, want) || bytes.Contains(got, []byte("resourceVersion")) {
			t.Errorf("%s is decoded as %s, %v, want %s", form, got, err, want)
		}
	}
}

func TestValuesThatCannotBeReadAreNamed(t *testing.T) {
	l := newLayout()
	configMap, err := l.Encode("configmaps/default/a",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`), nil)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	for name, c := range map[string]struct {
		key, value string
		want       error
	}{
		"encrypted":         {"secrets/default/a", "k8s:enc:aescbc:v1:key1:\x00", layout.ErrEncrypted},
		"encrypted, custom": {"foos.example.com/a", "k8s:enc:kms:v2:x:\x00", layout.ErrEncrypted},
		"CBOR":              {"foos.example.com/a", "\xd9\xd9\xf7\xa0", layout.ErrCBOR},
		"CBOR, built in":    {"configmaps/default/a", "\xd9\xd9\xf7\xa0", layout.ErrCBOR},
		"nothing":           {"configmaps/default/a", "", layout.ErrCorrupt},
		"text":              {"configmaps/default/a", "2026-01-01", layout.ErrCorrupt},
		"protobuf, custom":  {"foos.example.com/a", string(configMap), layout.ErrCorrupt},
		"protobuf, definition": {
			"customresourcedefinitions.apiextensions.k8s.io/a",
			"k8s\x00\n)\n\x1capiextensions.k8s.io/v1beta1\x12\tCustomRes\x12\x00", nil,
		},
		"another kind":         {"secrets/default/a", string(configMap), nil},
		"another kind, JSON":   {"secrets/default/a", `{"apiVersion":"v1","kind":"ConfigMap"}`, nil},
		"another group":        {"foos.example.com/a", `{"apiVersion":"example.org/v1","kind":"Foo"}`, nil},
		"no kind":              {"foos.example.com/a", `{"apiVersion":"example.com/v1"}`, nil},
		"an unknown version":   {"pods/default/a", `{"apiVersion":"v2","kind":"Pod"}`, nil},
		"half a value":         {"configmaps/default/a", string(configMap[:len(configMap)-6]), nil},
		"half a value of JSON": {"configmaps/default/a", `{"apiVersion":"v1","kind":"ConfigMap","data":{`, nil},
		"half a custom one":    {"foos.example.com/a", `{"apiVersion":"example.com/v1","kind":"Foo","data":{`, nil},
		"a wrong type":         {"configmaps/default/a", `{"apiVersion":"v1","kind":"ConfigMap","data":5}`, nil},
	} {
		_, err := l.Decode(c.key, []byte(c.value))
		var bad *layout.ValueError
		if !errors.As(err, &bad) || bad.Key != c.key || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: %v, want a *ValueError that names the key", name, err)
		}
		if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestVersionsThatCannotBeReadAreNamed(t *testing.T) {
	_, err := newLayout().Decode("resourceclaims.resource.k8s.io/default/a",
		[]byte(`{"apiVersion":"resource.k8s.io/v1alpha2","kind":"ResourceClaim"}`))
	bad, is := errors.AsType[*layout.VersionError](err)
	if !is || bad.APIVersion != "resource.k8s.io/v1alpha2" || bad.Kind != "ResourceClaim" {
		t.Fatalf("got %v, want a *VersionError", err)
	}
	for _, want := range []string{"resourceclaims.resource.k8s.io/default/a", "resource.k8s.io/v1alpha2", "ResourceClaim"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}

func TestValuesAreNotKept(t *testing.T) {
	l := newLayout()
	for key, value := range map[string]string{
		"configmaps/default/a": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"binaryData":{"x":"aGVsbG8="},` +
			`"data":{"a":"hello"}}`,
		"foos.example.com/a": `{"apiVersion":"example.com/v1","kind":"Foo","metadata":{"name":"a"}}`,
	} {
		given := []byte(value)
		stored, err := l.Encode(key, given, nil)
		if err != nil {
			t.Fatalf("encode %s: %v", key, err)
		}
		before := bytes.Clone(stored)
		clear(given)
		if !bytes.Equal(stored, before) {
			t.Errorf("%s: the value in etcd has parts of the store's", key)
		}
		back, err := l.Decode(key, stored)
		if err != nil {
			t.Fatalf("decode %s: %v", key, err)
		}
		want := bytes.Clone(back)
		clear(stored)
		if !bytes.Equal(back, want) {
			t.Errorf("%s: the value in the store has parts of etcd's", key)
		}
	}
}

func FuzzDecode(f *testing.F) {
	dir := fixtures(f, "HEAD")
	stored := builtin.Catalog().Stored()
	for i, r := range stored {
		if !hasNoFixture(r) {
			f.Add(uint8(i), read(f, fixture(dir, r.GVK())+".pb"))
			f.Add(uint8(i), read(f, fixture(dir, r.GVK())+".json"))
		}
	}
	l := newLayout()
	f.Fuzz(func(t *testing.T, n uint8, value []byte) {
		r := stored[int(n)%len(stored)]
		got, err := l.Decode(keyOf(r), value)
		if err != nil {
			return
		}
		again, err := l.Encode(keyOf(r), got, nil)
		if err != nil {
			t.Fatalf("encode %s: %v", got, err)
		}
		back, err := l.Decode(keyOf(r), again)
		if err != nil {
			t.Fatalf("decode again: %v", err)
		}
		if !bytes.Equal(got, back) {
			t.Errorf("%s\ncomes back as\n%s", got, back)
		}
	})
}

// TestAnObjectOfAFormerVersionIsStale: an update that changes nothing gives it the version that is stored now.
func TestAnObjectOfAFormerVersionIsStale(t *testing.T) {
	l := newLayout()
	for name, c := range map[string]struct {
		key, stored string
		want        bool
	}{
		"of the version now": {
			"ingresses.networking.k8s.io/default/a", `{"apiVersion":"networking.k8s.io/v1","kind":"Ingress"}`, false,
		},
		"of a former version": {
			"ingresses.networking.k8s.io/default/a", `{"apiVersion":"networking.k8s.io/v1beta1","kind":"Ingress"}`, true,
		},
		"of a former group": {
			"ingresses.networking.k8s.io/default/a", `{"apiVersion":"extensions/v1beta1","kind":"Ingress"}`, true,
		},
		"served in another version than stored": {
			"clustertrustbundles.certificates.k8s.io/a",
			`{"apiVersion":"certificates.k8s.io/v1","kind":"ClusterTrustBundle"}`, true,
		},
		"a definition as it is stored": {
			"customresourcedefinitions.apiextensions.k8s.io/a",
			`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition"}`, false,
		},
		"a custom resource": {"widgets.example.org/default/a", `{"apiVersion":"example.org/v1","kind":"Widget"}`, false},
	} {
		if stale, err := l.Stale(c.key, []byte(c.stored)); err != nil || stale != c.want {
			t.Errorf("%s: it is stale: %v, %v, want %v", name, stale, err, c.want)
		}
	}
	const key = "configmaps/default/a"
	stored, err := l.Encode(key, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`),
		nil)
	if err != nil {
		t.Fatalf("encode a ConfigMap: %v", err)
	}
	if stale, err := l.Stale(key, stored); err != nil || stale {
		t.Errorf("what was written now is stale: %v, %v", stale, err)
	}
	if _, err := l.Stale(key, []byte("k8s:enc:aescbc:v1:")); !errors.Is(err, layout.ErrEncrypted) {
		t.Errorf("a value that is encrypted: %v", err)
	}
}
