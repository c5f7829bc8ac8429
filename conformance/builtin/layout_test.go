package builtin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	aggregatorinstall "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/kubeapiserver"

	"github.com/gapless-io/gapless/conformance/builtin"
	"github.com/gapless-io/gapless/internal/kinds"
	ours "github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/layout"
	"github.com/gapless-io/gapless/internal/wire"
)

// storage is how kube-apiserver keeps a resource in etcd.
type storage struct {
	codec  runtime.Codec
	prefix string // of the keys, below --etcd-prefix
	shows  runtime.Encoder
}

// storages makes those of kube-apiserver, with the flags that it has by default.
type storages struct {
	factory     *serverstorage.DefaultStorageFactory
	definitions serializer.CodecFactory
	scheme      *runtime.Scheme // of definitions
}

func newStorages(t *testing.T) *storages {
	t.Helper()
	enabled := serverstorage.NewResourceConfig()
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsAllGroups() {
		enabled.EnableVersions(gv)
	}
	config := kubeapiserver.NewStorageFactoryConfig()
	config.APIResourceConfig = enabled
	options := serveroptions.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	options.DefaultStorageMediaType = "application/vnd.kubernetes.protobuf"
	factory, err := config.Complete(options).New()
	if err != nil {
		t.Fatalf("make the storage factory of kube-apiserver: %v", err)
	}
	scheme := runtime.NewScheme()
	apiextensionsinstall.Install(scheme)
	aggregatorinstall.Install(scheme)
	return &storages{factory: factory, definitions: serializer.NewCodecFactory(scheme), scheme: scheme}
}

func (s *storages) of(t *testing.T, r *kinds.Resource) storage {
	t.Helper()
	if r.IsDefinition() { // as kubernetes pkg/controlplane/apiserver CreateAPIExtensionsConfig
		plain := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, s.scheme, s.scheme,
			jsonserializer.SerializerOptions{})
		return storage{
			codec:  s.definitions.LegacyCodec(apiextensionsv1beta1.SchemeGroupVersion, apiextensionsv1.SchemeGroupVersion),
			prefix: r.Group + "/" + r.Plural,
			shows:  s.definitions.EncoderForVersion(plain, r.GVK().GroupVersion()),
		}
	}
	if r.Group == apiregistrationv1.GroupName { // as CreateAggregatorConfig
		plain := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, s.scheme, s.scheme,
			jsonserializer.SerializerOptions{})
		return storage{
			codec: s.definitions.LegacyCodec(apiregistrationv1.SchemeGroupVersion), prefix: r.Group + "/" + r.Plural,
			shows: s.definitions.EncoderForVersion(plain, r.GVK().GroupVersion()),
		}
	}
	internal := schema.GroupVersionKind{Group: r.Group, Version: runtime.APIVersionInternal, Kind: r.Kind}
	example, err := legacyscheme.Scheme.New(internal)
	if err != nil {
		t.Fatalf("make a %s: %v", r.Kind, err)
	}
	config, err := s.factory.NewConfig(r.GR(), example)
	if err != nil {
		t.Fatalf("the storage of %s: %v", r.GR(), err)
	}
	plain := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, legacyscheme.Scheme, legacyscheme.Scheme,
		jsonserializer.SerializerOptions{})
	return storage{
		codec: config.Codec, prefix: s.factory.ResourcePrefix(r.GR()),
		shows: legacyscheme.Codecs.EncoderForVersion(plain, r.GVK().GroupVersion()),
	}
}

// shown is the value that the store of gapless has for what kube-apiserver answers a GET of an object with.
func (s storage) shown(t *testing.T, object runtime.Object) []byte {
	t.Helper()
	var text bytes.Buffer
	if err := s.shows.Encode(object, &text); err != nil {
		t.Fatalf("encode an object of upstream: %v", err)
	}
	whole := exact(t, text.Bytes())
	if metadata, is := whole["metadata"].(map[string]any); is {
		delete(metadata, "resourceVersion")
		delete(metadata, "selfLink")
	}
	value, err := wire.Canonical(whole)
	if err != nil {
		t.Fatalf("encode a tree: %v", err)
	}
	return value
}

// exact is object, with numbers as they are written.
func exact(t *testing.T, text []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return o
}

// newLayout is the layout of gapless.
func newLayout() *layout.Layout { return layout.New("/registry", kinds.NewLive(ours.Catalog())) }

// storeKey is a key of a resource in the store of gapless.
func storeKey(r *kinds.Resource) string {
	if r.Namespaced {
		return r.GR().String() + "/default/a"
	}
	return r.GR().String() + "/a"
}

func TestKeysInEtcdAreThoseOfKubeAPIServer(t *testing.T) {
	l, all := newLayout(), newStorages(t)
	for _, r := range ours.Catalog().Stored() {
		prefix := "/" + all.of(t, r).prefix
		keyOf := genericregistry.NoNamespaceKeyFunc
		ctx := t.Context()
		if r.Namespaced {
			keyOf, ctx = genericregistry.NamespaceKeyFunc, request.WithNamespace(ctx, "default")
		}
		want, err := keyOf(ctx, prefix, "a")
		if err != nil {
			t.Fatalf("the key of %s: %v", r.GR(), err)
		}
		if got, err := l.Key(storeKey(r)); got != "/registry"+want || err != nil {
			t.Errorf("the key of %s is %q, %v, want %q", r.GR(), got, err, "/registry"+want)
		}
	}
}

// inStorageOnly are kinds whose storage version has fields that the version served does not have. What a client of
// the storage version has set is lost when gapless writes the object.
var inStorageOnly = map[string]string{"PodCertificateRequest": "v1beta1 has pkixPublicKey and proofOfPossession"}

// TestValuesInEtcdAreThoseOfKubeAPIServer stores the manifests, random objects and upstream's fixtures with
// kube-apiserver's storage codec and with gapless's layout. The bytes are equal, and each reads what the other has
// written.
func TestValuesInEtcdAreThoseOfKubeAPIServer(t *testing.T) {
	catalog := ours.Catalog()
	manifests, err := builtin.Manifests("testdata/manifests", catalog.Resources())
	if err != nil {
		t.Fatalf("manifests: %v", err)
	}
	s := suite{upstream: builtin.NewUpstream(), api: apiModule(t)}
	l, all := newLayout(), newStorages(t)
	for _, r := range catalog.Stored() {
		t.Run(r.GR().String(), func(t *testing.T) {
			c := comparison{layout: l, storage: all.of(t, r), key: storeKey(r), lossy: inStorageOnly[r.Kind] != ""}
			for _, m := range manifests {
				if m.Target.Resource.GR() == r.GR() {
					c.compare(t, m.Name, m.Body)
				}
			}
			if fixture := s.fixture(t, r); fixture != nil {
				c.compare(t, "the fixture", body(t, fixture))
			}
			to := builtin.Target{Resource: resourceOf(catalog, r), Namespace: map[bool]string{true: "default"}[r.Namespaced]}
			cases, err := s.upstream.Random(to, *seed, *objects)
			if err != nil {
				t.Fatalf("make random objects: %v", err)
			}
			for _, random := range cases {
				c.compare(t, random.What, random.Body)
			}
			if c.compared == 0 {
				t.Error("no object was compared")
			}
		})
	}
}

func resourceOf(catalog *kinds.Catalog, r *kinds.Resource) *kinds.Resource {
	if served, is := catalog.Lookup(r.GVR()); is {
		return served
	}
	return r
}

// comparison compares the values of one resource.
type comparison struct {
	layout   *layout.Layout
	storage  storage
	key      string
	lossy    bool
	compared int
}

func (c *comparison) compare(t *testing.T, what string, body []byte) {
	t.Helper()
	object, err := runtime.Decode(c.storage.codec, body)
	if err != nil {
		return // upstream does not read it either: a manifest of another version, say
	}
	if about, is := object.(metav1.Object); is { // storage.PrepareObjectForStorage
		about.SetResourceVersion("")
		about.SetSelfLink("")
	}
	c.compared++
	want, err := runtime.Encode(c.storage.codec, object)
	if err != nil {
		t.Fatalf("%s: encode as kube-apiserver does: %v", what, err)
	}
	// Reading it again fills in what the encoding does not have.
	again, err := runtime.Decode(c.storage.codec, want)
	if err != nil {
		t.Fatalf("%s: decode as kube-apiserver does: %v", what, err)
	}
	value := c.storage.shown(t, again)
	got, err := c.layout.Encode(c.key, value, nil)
	if err != nil {
		t.Fatalf("%s: encode: %v", what, err)
	}
	read, err := runtime.Decode(c.storage.codec, got)
	if err != nil {
		t.Fatalf("%s: kube-apiserver does not read what gapless writes: %v", what, err)
	}
	if !c.lossy && !equality.Semantic.DeepEqual(again, read) {
		t.Errorf("%s: kube-apiserver reads another object (-its own +gapless's): %s", what, cmp.Diff(c.storage.shown(t, again),
			c.storage.shown(t, read)))
	}
	if same, err := runtime.Encode(c.storage.codec, again); err != nil || !c.lossy && !bytes.Equal(same, got) {
		t.Errorf("%s: the bytes differ:\nkube-apiserver %q\ngapless        %q %v", what, same, got, err)
	}
	back, err := c.layout.Decode(c.key, want)
	if err != nil {
		t.Fatalf("%s: decode what kube-apiserver writes: %v", what, err)
	}
	if diff := cmp.Diff(exact(t, value), exact(t, back)); diff != "" {
		t.Errorf("%s: gapless reads another object (-kube-apiserver +gapless): %s", what, diff)
	}
}

// TestOldVersionsAreReadAsKubeAPIServerReadsThem reads upstream's fixtures of all versions of the kinds, of five
// releases.
func TestOldVersionsAreReadAsKubeAPIServerReadsThem(t *testing.T) {
	l, all, dir, compared := newLayout(), newStorages(t), apiModule(t), 0
	stored := ours.Catalog().Stored()
	for _, release := range []string{"v1.33.0", "v1.34.0", "v1.35.0", "v1.36.0", "HEAD"} {
		files, err := filepath.Glob(filepath.Join(dir, "testdata", release, "*.pb"))
		if err != nil || len(files) == 0 {
			t.Fatalf("find the fixtures: %v", err)
		}
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".pb")
			i := slices.IndexFunc(stored, func(r *kinds.Resource) bool { return isVersionOf(name, r) })
			if i < 0 {
				continue
			}
			s := all.of(t, stored[i])
			value, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("read a fixture: %v", err)
			}
			object, theirs := runtime.Decode(s.codec, value)
			got, err := l.Decode(storeKey(stored[i]), value)
			if _, refused := errors.AsType[*layout.VersionError](err); (theirs != nil) != refused || err != nil && !refused {
				t.Errorf("%s of %s: kube-apiserver %v, gapless %v", name, release, theirs, err)
			}
			if theirs != nil || err != nil {
				continue
			}
			compared++
			if diff := cmp.Diff(exact(t, s.shown(t, object)), exact(t, got)); diff != "" {
				t.Errorf("%s of %s is another object (-kube-apiserver +gapless): %s", name, release, diff)
			}
		}
	}
	if compared < 500 {
		t.Errorf("only %d fixtures were compared", compared)
	}
}

// isVersionOf reports whether a fixture is of a kind, in any version.
func isVersionOf(fixture string, r *kinds.Resource) bool {
	parts := strings.Split(fixture, ".")
	if len(parts) < 3 || strings.Contains(fixture, "after_roundtrip") || parts[len(parts)-1] != r.Kind {
		return false
	}
	switch group := strings.Join(parts[:len(parts)-2], "."); group {
	case "core":
		return r.Group == ""
	case "events.k8s.io":
		return r.Group == ""
	case "extensions":
		return r.Group == "apps" || r.Group == "networking.k8s.io"
	default:
		return group == r.Group
	}
}
