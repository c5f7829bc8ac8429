package registry_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/wire"
)

// fooAt is the body of a Foo with this metadata besides its name.
func fooAt(name, meta, rest string) string {
	return `{"apiVersion":"t.example.com/v1","kind":"Foo","metadata":{"name":"` + name + `"` + meta + `}` + rest + `}`
}

func rvOf(o *wire.Object) string { return `,"resourceVersion":"` + o.ResourceVersion().String() + `"` }

func TestUpdateRefusals(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	old := s.create(s.at(foos, "default"), foo("a", `{"a":"1"}`))
	now := s.merge(s.at(foos, "default", "a"), `{"spec":{"a":"2"}}`)
	lease := "coordination.k8s.io/v1/leases"
	s.create(s.at(lease, "default"), `{"metadata":{"name":"l"},"spec":{}}`)
	for _, c := range []struct{ name, resource, object, body, want string }{
		{
			"custom without resourceVersion", foos, "a", foo("a", `{}`),
			`422 Invalid foos.t.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be ` +
				`specified for an update`,
		},
		{
			"built-in that needs one", lease, "l", `{"metadata":{"name":"l"}}`,
			`422 Invalid leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be ` +
				`specified for an update`,
		},
		{
			"stale", foos, "a", fooAt("a", rvOf(old), ``),
			`409 Conflict Operation cannot be fulfilled on foos.t.example.com "a": the object has been modified; please apply ` +
				`your changes to the latest version and try again`,
		},
		{
			"future", foos, "a", fooAt("a", `,"resourceVersion":"9000000000"`, ``),
			`409 Conflict Operation cannot be fulfilled on foos.t.example.com "a": the object has been modified; please apply ` +
				`your changes to the latest version and try again`,
		},
		{
			"malformed resourceVersion", foos, "a", fooAt("a", `,"resourceVersion":"abc"`, ``),
			`400 BadRequest invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing ` +
				`"abc": invalid syntax`,
		},
		{
			"another uid", foos, "a", fooAt("a", rvOf(now)+`,"uid":"zzz"`, ``),
			fmt.Sprintf(
				`409 Conflict Operation cannot be fulfilled on foos.t.example.com "a": StorageError: invalid object, Code: 4, `+
					`Key: /foos.t.example.com/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in `+
					`precondition: zzz, UID in object meta: %s`, now.UID()),
		},
		{"missing", foos, "b", foo("b", `{}`), `404 NotFound foos.t.example.com "b" not found`},
		{
			"another name", foos, "a", foo("f2", `{}`),
			`400 BadRequest the name of the object (f2) does not match the name on the URL (a)`,
		},
		{
			"no name", foos, "a", `{"apiVersion":"t.example.com/v1","kind":"Foo"}`,
			`400 BadRequest the name of the object (a based on URL) was undeterminable: name must be provided`,
		},
		{
			"another namespace", foos, "a", fooAt("a", `,"namespace":"x"`, ``),
			`400 BadRequest the namespace of the provided object does not match the namespace sent on the request`,
		},
		{
			"wrong type", foos, "a", fooAt("a", rvOf(now), `,"spec":{"a":1}`),
			`422 Invalid Foo.t.example.com "a" is invalid: spec.a: Invalid value: "integer": spec.a in body must be of ` +
				`type string: "integer"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Update(t.Context(), s.at(c.resource, "default", c.object), []byte(c.body), metav1.UpdateOptions{})
			if diff := cmp.Diff(c.want, status(err)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if is := s.get(s.at(foos, "default", "a")); is != now {
		t.Errorf("refused updates changed the object to %s", is.JSON())
	}
}

func TestUpdateWithoutChangesWritesNothing(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	for _, c := range []struct {
		resource, namespace, name, body string
	}{
		{foos, "default", "a", foo("a", `{"a":"1","n":2}`)},
		{"configmaps", "default", "a", configMap("a")},
		{
			"pods", "default", "p",
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}`,
		},
		{
			"apps/v1/deployments", "default", "d",
			`{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
		},
		{"namespaces", "", "n", `{"metadata":{"name":"n"}}`},
	} {
		was := s.create(s.at(c.resource, c.namespace), c.body)
		at := s.at(c.resource, c.namespace, c.name)
		if is := s.update(at, string(was.JSON())); is != was {
			t.Errorf("%s: the object itself as an update made\n%s of\n%s", c.resource, is.JSON(), was.JSON())
		}
		// What a client that does not know the server's fields sends.
		bare := strings.Replace(c.body, `"metadata":{`, `"metadata":{"resourceVersion":"`+was.ResourceVersion().String()+`",`, 1)
		if is := s.update(at, bare); is.ResourceVersion() != was.ResourceVersion() {
			t.Errorf("%s: the creation's body as an update made\n%s of\n%s", c.resource, is.JSON(), was.JSON())
		}
		if is := s.merge(at, `{}`); is.ResourceVersion() != was.ResourceVersion() {
			t.Errorf("%s: an empty patch made a new version", c.resource)
		}
	}
	at := s.at(crds, "", "foos.t.example.com")
	was := s.get(at)
	if is := s.update(at, string(was.JSON())); is.ResourceVersion() != was.ResourceVersion() {
		t.Errorf("the definition itself as an update made\n%s of\n%s", is.JSON(), was.JSON())
	}
}

func TestUpdateKeepsServerSetFields(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	was := s.create(s.at(foos, "default"), foo("a", `{"a":"1"}`))
	is := s.update(s.at(foos, "default", "a"), fooAt("a", rvOf(was)+
		`,"creationTimestamp":"2001-01-01T00:00:00Z","generation":50,"selfLink":"/x","managedFields":[{"manager":"x"}],"labels":{"l":"1"}`,
		`,"spec":{"a":"1"},"status":{"n":9}`))
	if is.UID() != was.UID() || !is.Created().Equal(was.Created()) || is.Generation() != 1 || is.Deleting() ||
		strings.Contains(string(is.JSON()), `"manager":"x"`) || field(t, is, "status") != nil || is.Labels()["l"] != "1" {
		t.Errorf("update made %s", is.JSON())
	}
	// A deletion cannot begin with an update, and its grace period not change.
	for member, value := range map[string]string{
		"deletionTimestamp": `"2001-01-01T00:00:00Z"`, "deletionGracePeriodSeconds": "3",
	} {
		_, err := s.Patch(t.Context(), s.at(foos, "default", "a"), mergePatch(`{"metadata":{"`+member+`":`+value+`}}`),
			metav1.PatchOptions{})
		if got := wire.StatusOf(err); got.Code != 422 || !strings.Contains(got.Message, "metadata."+member+": Invalid value") {
			t.Errorf("%s: %v", member, err)
		}
	}
}

func TestNewFinalizerWithoutADomainGetsAWarning(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	made, err := s.Create(t.Context(), s.at(foos, "default"), []byte(fooAt("a", `,"finalizers":["x.io/f","x.io"]`, ``)),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	changed, err := s.Patch(t.Context(), s.at(foos, "default", "a"),
		mergePatch(`{"metadata":{"finalizers":["x.io","plain","orphan"]},"zz":1}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("patch: %v", err)
	}
	const why = "to avoid accidental conflicts with other finalizer writers"
	if diff := cmp.Diff([]string{
		`metadata.finalizers: "x.io": prefer a domain-qualified finalizer name including a path (/) ` + why,
	}, made.Warnings); diff != "" {
		t.Errorf("creation: %s", diff)
	}
	want := []string{`unknown field "zz"`, `metadata.finalizers: "plain": prefer a domain-qualified finalizer name ` + why}
	if diff := cmp.Diff(want, changed.Warnings); diff != "" {
		t.Errorf("patch: %s", diff)
	}
}

func TestGenerationCountsChangesOfTheDesiredState(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("a", `{"a":"1"}`))
	at := s.at(foos, "default", "a")
	for _, step := range []struct {
		subresource, patch string
		want               int64
	}{
		{"", `{"metadata":{"labels":{"x":"1"}}}`, 1},
		{"", `{"spec":{"a":"2"}}`, 2},
		{"", `{"status":{"n":1}}`, 2},
		{"status", `{"status":{"n":1},"spec":{"a":"no"},"metadata":{"labels":{"x":"no"}}}`, 2},
		{"", `{"spec":{"n":4}}`, 3},
	} {
		at.Subresource = step.subresource
		if o := s.merge(at, step.patch); o.Generation() != step.want {
			t.Errorf("%s %s: generation %d, want %d", step.subresource, step.patch, o.Generation(), step.want)
		}
	}
	o := s.get(at)
	if field(t, o, "spec", "a") != "2" || o.Labels()["x"] != "1" || field(t, o, "status", "n") != float64(1) {
		t.Errorf("at the end %s", o.JSON())
	}
}

func TestUpdateOfAMissingObjectCreatesItIfTheKindAllows(t *testing.T) {
	s := serve(t)
	lease := s.at("coordination.k8s.io/v1/leases", "default", "l")
	out, err := s.Update(t.Context(), lease, []byte(`{"metadata":{"name":"l","resourceVersion":"5"},"spec":{}}`),
		metav1.UpdateOptions{})
	if err != nil || !out.Created || out.Object.UID() == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	lease.Name = "other"
	_, err = s.Update(t.Context(), lease, []byte(`{"metadata":{"name":"other","uid":"u"},"spec":{}}`), metav1.UpdateOptions{})
	if wire.StatusOf(err).Code != 409 {
		t.Errorf("an update that was made for another object: %v", err)
	}
}

func TestUpdateWithoutResourceVersionOverwritesBuiltInKinds(t *testing.T) {
	s := serve(t)
	s.create(s.at("configmaps", "default"), configMap("a"))
	at := s.at("configmaps", "default", "a")
	s.merge(at, `{"data":{"b":"2"}}`)
	o := s.update(at, `{"metadata":{"name":"a"},"data":{"c":"3"}}`)
	if diff := cmp.Diff(map[string]any{"c": "3"}, field(t, o, "data")); diff != "" {
		t.Error(diff)
	}
}

func TestUpdateThatRemovesTheLastFinalizerRemovesTheObject(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	at := s.at(foos, "default", "a")
	s.create(s.at(foos, "default"), fooAt("a", `,"finalizers":["x.io/f","y.io/g"]`, ``))
	marked := s.delete(at).Object
	w := s.watch(s.at(foos), func(o *wire.ListOptions) { o.ResourceVersion = marked.ResourceVersion().String() })
	_, err := s.Update(t.Context(), at, []byte(fooAt("a", rvOf(marked)+`,"finalizers":["x.io/f","y.io/g","z.io/h"]`, ``)),
		metav1.UpdateOptions{})
	want := `422 Invalid Foo.t.example.com "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if ` +
		`the object is being deleted, found new finalizers []string{"z.io/h"}`
	if diff := cmp.Diff(want, status(err)); diff != "" {
		t.Error(diff)
	}
	held := s.merge(at, `{"metadata":{"finalizers":["y.io/g"]}}`)
	last := s.merge(at, `{"metadata":{"finalizers":null}}`)
	if last.ResourceVersion() != held.ResourceVersion() || field(t, last, "metadata", "finalizers") != nil {
		t.Errorf("the last of it is %s, before it was at %d", last.JSON(), held.ResourceVersion())
	}
	if diff := cmp.Diff([]string{"MODIFIED default/a", "DELETED default/a"}, w.take(2)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Get(t.Context(), at, ""); wire.StatusOf(err).Code != 404 {
		t.Errorf("it is still there: %v", err)
	}
}

func TestScaleShowsAndSetsReplicas(t *testing.T) {
	s := serve(t)
	s.create(s.at("apps/v1/deployments", "default"),
		`{"metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	at := s.at("apps/v1/deployments", "default", "d", "scale")
	scale := s.get(at)
	if scale.Kind() != "Scale" || scale.APIVersion() != "autoscaling/v1" || field(t, scale, "spec", "replicas") != float64(2) ||
		field(t, scale, "status", "selector") != "a=b" {
		t.Errorf("scale %s", scale.JSON())
	}
	out, err := s.Update(t.Context(), at,
		[]byte(
			`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"default"`+rvOf(scale)+
				`},"spec":{"replicas":5}}`), metav1.UpdateOptions{})
	if err != nil || field(t, out.Object, "spec", "replicas") != float64(5) {
		t.Fatalf("%+v, %v", out, err)
	}
	if n := field(t, s.merge(at, `{"spec":{"replicas":0}}`), "spec", "replicas"); n != float64(0) && n != nil {
		t.Errorf("patched to %v", n)
	}
	if o := s.get(s.at("apps/v1/deployments", "default", "d")); field(t, o, "spec", "replicas") != float64(0) ||
		o.Generation() != 3 {
		t.Errorf("the deployment is %s", o.JSON())
	}
	for body, want := range map[string]string{
		`{"metadata":{"name":"d"` + rvOf(scale) +
			`},"spec":{"replicas":1}}`: `409 Conflict Operation cannot be fulfilled on deployments.apps "d": the object has ` +
			`been modified; please apply your changes to the latest version and try again`,
		`{"metadata":{"name":"d"},"spec":{"replicas":-1}}`: `422 Invalid Scale.autoscaling "d" is invalid: ` +
			`spec.replicas: Invalid value: -1: must be greater than or equal to 0`,
		`{"metadata":{"name":"x"}}`: `400 BadRequest the name of the object (x) does ` +
			`not match the name on the URL (d)`,
	} {
		_, err := s.Update(t.Context(), at, []byte(body), metav1.UpdateOptions{})
		if diff := cmp.Diff(want, status(err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", body, diff)
		}
	}
	s.create(s.at(crds), definition(""))
	s.create(s.at(foos, "default"), foo("a", `{"n":3}`))
	if n := field(t, s.merge(s.at(foos, "default", "a", "scale"), `{"spec":{"replicas":7}}`), "spec",
		"replicas"); n != float64(7) {
		t.Errorf("a custom resource was scaled to %v", n)
	}
}

func TestStatusUpdateThatRemovesTheLastFinalizerRemovesTheObject(t *testing.T) {
	s := serve(t)
	s.create(s.at("nodes"), `{"metadata":{"name":"n","finalizers":["x.io/f"]}}`)
	at := s.at("nodes", "", "n")
	s.delete(at)
	s.merge(s.at("nodes", "", "n", "status"), `{"metadata":{"finalizers":null}}`)
	if _, err := s.Get(t.Context(), at, ""); wire.StatusOf(err).Code != 404 {
		t.Errorf("it is still there: %v", err)
	}
}
