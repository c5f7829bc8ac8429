package registry_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestCreateSetsServerFieldsAndIgnoresTheClients(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	o := s.create(s.at(foos, "default"), `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a","uid":"mine",
"creationTimestamp":"2001-01-01T00:00:00Z","deletionTimestamp":"2001-01-01T00:00:00Z","deletionGracePeriodSeconds":5,"generation":77,
"selfLink":"/x","managedFields":[{"manager":"m"}]},"spec":{"a":"1","unknown":true},"status":{"n":3}}`)
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(string(o.UID())) {
		t.Errorf("uid %q is not of RFC 4122 version 4", o.UID())
	}
	if o.Created().Year() < 2020 || o.Deleting() || o.Generation() != 1 || o.ResourceVersion() == 0 {
		t.Errorf("created %v, deleting %t, generation %d, rv %d", o.Created(), o.Deleting(), o.Generation(), o.ResourceVersion())
	}
	for _, path := range [][]string{
		{"metadata", "selfLink"}, {"metadata", "deletionGracePeriodSeconds"}, {"spec", "unknown"}, {"status"},
	} {
		if v := field(t, o, path...); v != nil {
			t.Errorf("%v is %v, want nothing", path, v)
		}
	}
	managed, err := json.Marshal(field(t, o, "metadata", "managedFields"))
	if err != nil || strings.Contains(string(managed), `"m"`) ||
		!strings.Contains(string(managed), `"f:spec":{".":{},"f:a":{}}`) {
		t.Errorf("managedFields are %s, %v", managed, err)
	}
	if ns := o.Key().Namespace; ns != "default" {
		t.Errorf("namespace %q was not filled in", ns)
	}
}

func TestCreateOfABuiltInKindSetsItsInitialStatus(t *testing.T) {
	s := serve(t)
	pod := s.create(s.at("pods", "default"), `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},
"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`)
	if phase := field(t, pod, "status", "phase"); phase != "Pending" {
		t.Errorf("a new pod is %v", phase)
	}
	node := s.create(s.at("nodes"), `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"},"status":{"capacity":{"cpu":"1"}}}`)
	if cpu := field(t, node, "status", "capacity", "cpu"); cpu != "1" {
		t.Errorf("a new node lost its status: %v", cpu)
	}
}

func TestCreateRefusals(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("there", `{}`))
	s.create(s.at(foos, "default"),
		`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"going","finalizers":["x.io/f"]}}`)
	s.delete(s.at(foos, "default", "going"))
	for _, c := range []struct {
		name, resource, namespace, body string
		options                         metav1.CreateOptions
		want                            string
	}{
		{
			"exists", foos, "default", foo("there", `{}`),
			metav1.CreateOptions{},
			`409 AlreadyExists foos.t.example.com "there" already exists`,
		},
		{
			"exists in a dry run", foos, "default", foo("there", `{}`),
			metav1.CreateOptions{DryRun: []string{"All"}},
			`409 AlreadyExists foos.t.example.com "there" already exists`,
		},
		{
			"is being deleted", foos, "default", foo("going", `{}`),
			metav1.CreateOptions{},
			`409 AlreadyExists object is being deleted: foos.t.example.com "going" already exists`,
		},
		{
			"resourceVersion", foos, "default",
			`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a","resourceVersion":"5"}}`,
			metav1.CreateOptions{},
			`400 BadRequest resourceVersion should not be set on objects to be created`,
		},
		{
			"resourceVersion of an invalid object", foos, "default",
			`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a","resourceVersion":"5"},"spec":{"a":1}}`,
			metav1.CreateOptions{},
			`422 Invalid Foo.t.example.com "a" is invalid: spec.a: Invalid value: "integer": spec.a in body must be of ` +
				`type string: "integer"`,
		},
		{
			"resourceVersion of an object that exists, in a dry run", foos, "default",
			`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"there","resourceVersion":"5"}}`,
			metav1.CreateOptions{DryRun: []string{"All"}},
			`409 AlreadyExists foos.t.example.com "there" already exists`,
		},
		{
			"no name", foos, "default", `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{}}`,
			metav1.CreateOptions{},
			`422 Invalid Foo.t.example.com "" is invalid: metadata.name: Required value: name or generateName is required`,
		},
		{
			"no metadata", foos, "default", `{"apiVersion":"t.example.com/v1","kind":"Foo"}`,
			metav1.CreateOptions{},
			`422 Invalid Foo.t.example.com "" is invalid: metadata.name: Required value: name or generateName is required`,
		},
		{
			"another namespace", foos, "default",
			`{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"a","namespace":"other"}}`,
			metav1.CreateOptions{},
			`400 BadRequest the namespace of the provided object does not match the namespace sent on the request`,
		},
		{
			"another version", foos, "default", `{"apiVersion":"t.example.com/v2","kind":"Foo","metadata":{"name":"a"}}`,
			metav1.CreateOptions{},
			`400 BadRequest the API version in the data (t.example.com/v2) does not match the expected API ` +
				`version (t.example.com/v1)`,
		},
		{
			"another kind", foos, "default", `{"apiVersion":"t.example.com/v1","kind":"Bar","metadata":{"name":"a"}}`,
			metav1.CreateOptions{},
			`422 Invalid Bar.t.example.com "a" is invalid: kind: Invalid value: "Bar": must be Foo`,
		},
		{
			"name of slashes", foos, "default", foo("a/b", `{}`),
			metav1.CreateOptions{},
			`422 Invalid Foo.t.example.com "a/b" is invalid: metadata.name: Invalid value: "a/b": may not contain '/'`,
		},
		{
			"name of dots", "rbac.authorization.k8s.io/v1/roles", "default", `{"metadata":{"name":".."}}`,
			metav1.CreateOptions{},
			`422 Invalid Role.rbac.authorization.k8s.io ".." is invalid: metadata.name: Invalid value: "..": may not be '..'`,
		},
		{
			"dryRun", foos, "default", foo("a", `{}`),
			metav1.CreateOptions{DryRun: []string{"Some"}},
			`422 Invalid CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`,
		},
		{
			"strict", foos, "default", foo("a", `{"a":"1","a":"2","zz":1}`),
			metav1.CreateOptions{FieldValidation: "Strict"},
			`400 BadRequest Foo in version "v1" cannot be handled as a Foo: strict decoding error: duplicate field "spec.a", ` +
				`unknown field "spec.zz"`,
		},
		{
			"missing namespace", "configmaps", "nowhere", configMap("a"),
			metav1.CreateOptions{},
			`404 NotFound namespaces "nowhere" not found`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Create(t.Context(), s.at(c.resource, c.namespace), []byte(c.body), c.options)
			got := status(err)
			if c.name == "name of slashes" {
				got, _, _ = strings.Cut(got, ", ") // the rule of subdomains follows
				got = strings.Replace(got, "is invalid: [", "is invalid: ", 1)
				got = strings.TrimSuffix(got, "]")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if n := len(names(s.list(s.at(foos, "default"), nil))); n != 2 {
		t.Errorf("%d objects after refused creations, want 2", n)
	}
}

func TestCreateWarnsAboutUnknownFields(t *testing.T) {
	s := serve(t)
	out, err := s.Create(t.Context(), s.at("configmaps", "default"),
		[]byte(`{"metadata":{"name":"a"},"zz":1}`), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if diff := cmp.Diff([]string{`unknown field "zz"`}, out.Warnings); diff != "" {
		t.Error(diff)
	}
}

func TestGenerateNameAddsFiveLettersToABaseOf58(t *testing.T) {
	s := serve(t)
	base := strings.Repeat("b", 70)
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"generateName": base}})
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	seen := map[string]bool{}
	for range 20 {
		name := s.create(s.at("configmaps", "default"), string(body)).Key().Name
		if !regexp.MustCompile(`^b{58}[bcdfghjklmnpqrstvwxz2456789]{5}$`).MatchString(name) || seen[name] {
			t.Fatalf("name %q", name)
		}
		seen[name] = true
	}
}

func TestLimitRangeWithoutANameGetsOne(t *testing.T) {
	s := serve(t)
	o := s.create(s.at("limitranges", "default"), `{"spec":{"limits":[{"type":"Container","max":{"cpu":"1"}}]}}`)
	if o.Key().Name == "" {
		t.Error("got no name, want a random one")
	}
}

func TestNamespaceWithAGeneratedNameGetsItsNameLabel(t *testing.T) {
	s := serve(t)
	o := s.create(s.at("namespaces"), `{"metadata":{"generateName":"team-"}}`)
	if o.Labels()["kubernetes.io/metadata.name"] != o.Key().Name {
		t.Errorf("labels %v of %s", o.Labels(), o.Key())
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	s := serve(t)
	at := s.at("configmaps", "default", "a")
	out, err := s.Create(t.Context(), s.at("configmaps", "default"), []byte(configMap("a")), metav1.CreateOptions{
		DryRun: []string{"All"},
	})
	if err != nil || !out.Created || out.Object.ResourceVersion() != 0 || out.Object.UID() == "" {
		t.Fatalf("dry creation: %+v, %v", out, err)
	}
	if _, err := s.Get(t.Context(), at, ""); wire.StatusOf(err).Code != 404 {
		t.Fatalf("a dry run has created: %v", err)
	}
	versioned := `{"metadata":{"name":"a","resourceVersion":"5"}}`
	out, err = s.Create(t.Context(), s.at("configmaps", "default"), []byte(versioned), metav1.CreateOptions{
		DryRun: []string{"All"},
	})
	if err != nil || out.Object.ResourceVersion() != 0 {
		t.Fatalf("dry creation with a resourceVersion: %+v, %v", out, err)
	}
	was := s.create(s.at("configmaps", "default"), configMap("a"))
	dry, err := s.Update(t.Context(), at, []byte(`{"metadata":{"name":"a"},"data":{"a":"2"}}`), metav1.UpdateOptions{
		DryRun: []string{"All"},
	})
	if err != nil || field(t, dry.Object, "data", "a") != "2" {
		t.Fatalf("dry update: %s, %v", dry.Object.JSON(), err)
	}
	gone, err := s.Delete(t.Context(), at, metav1.DeleteOptions{DryRun: []string{"All"}})
	if err != nil || gone.Status == nil {
		t.Fatalf("dry deletion: %+v, %v", gone, err)
	}
	if is := s.get(at); is != was {
		t.Errorf("dry runs changed %s to %s", was.JSON(), is.JSON())
	}
}

// taken lets another client create the first object of a prefix just before, under the
// same name.
type taken struct {
	store.Store
	prefix string
	once   sync.Once
}

func (k *taken) Commit(ctx context.Context, t store.Txn) (store.Committed, error) {
	var err error
	if strings.HasPrefix(t.Key, k.prefix) {
		k.once.Do(func() { _, err = k.Store.Commit(ctx, t) })
	}
	if err != nil {
		return store.Committed{}, err
	}
	return k.Store.Commit(ctx, t)
}

func TestAJobWhoseGeneratedNameWasTakenSelectsByItsOwnNameAndUID(t *testing.T) {
	log := openLog(t)
	s, _ := serveOn(t, log, func(below store.Store) store.Store { return &taken{Store: below, prefix: "jobs.batch/"} })
	job := s.create(s.at("batch/v1/jobs", "default"),
		`{"metadata":{"generateName":"once-"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"a"}]}}}}`)
	var got struct {
		Spec struct {
			Selector metav1.LabelSelector
			Template struct{ Metadata metav1.ObjectMeta }
		}
	}
	if err := json.Unmarshal(job.JSON(), &got); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	const uid, name = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
	labels := got.Spec.Template.Metadata.Labels
	if got.Spec.Selector.MatchLabels[uid] != string(job.UID()) || labels[uid] != string(job.UID()) ||
		labels[name] != job.Key().Name {
		t.Errorf("%s with uid %s selects %v and labels its pods %v", job.Key(), job.UID(), got.Spec.Selector, labels)
	}
}
