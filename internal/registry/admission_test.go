package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// reviewer is a plugin that records what it is asked, and changes or refuses it.
type reviewer struct {
	admit    func(ctx context.Context, a admission.Attributes, redo func() error) error // nil: nothing
	validate func(ctx context.Context, a admission.Attributes) error

	// mu guards asked.
	mu    sync.Mutex
	asked []string
}

// Handles implements admission.Plugin.
func (*reviewer) Handles(*kinds.Resource, string, admission.Operation) bool { return true }

// Admit implements admission.Plugin.
func (*reviewer) Waits(*kinds.Resource, string, admission.Operation) bool { return true }

func (p *reviewer) Admit(ctx context.Context, a admission.Attributes, redo func() error) error {
	p.record("admit", a)
	if p.admit == nil {
		return nil
	}
	return p.admit(ctx, a, redo)
}

// Validate implements admission.Plugin.
func (p *reviewer) Validate(ctx context.Context, a admission.Attributes) error {
	p.record("validate", a)
	if p.validate == nil {
		return nil
	}
	return p.validate(ctx, a)
}

func (p *reviewer) record(phase string, a admission.Attributes) {
	resource := a.GetResource().Resource
	if sub := a.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	show := func(o any) string {
		u, _ := o.(*unstructured.Unstructured)
		if u == nil {
			return "-"
		}
		return fmt.Sprintf("%s(uid=%t)", u.GetName(), u.GetUID() != "")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked,
		fmt.Sprintf("%s %s %s %s name=%q %s %s %T", phase, a.GetOperation(), a.GetKind().Kind, resource, a.GetName(),
			show(a.GetObject()), show(a.GetOldObject()), a.GetOperationOptions()))
}

// heard returns what the plugin was asked since the last call.
func (p *reviewer) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// reviewed runs a registry that asks p.
func reviewed(t *testing.T, p *reviewer) *server {
	t.Helper()
	log := openLog(t)
	s, _ := serveWith(t, log, registry.Config{Store: log, Admission: p})
	return s
}

// by is a target with a caller.
func by(t kinds.Target) kinds.Target {
	t.Caller = &user.DefaultInfo{Name: "jane"}
	return t
}

func TestPluginsAreAskedAboutEveryWriteAsUpstream(t *testing.T) {
	p := &reviewer{}
	s := reviewed(t, p)
	scaled := `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"default"},"spec":{"replicas":3}}`
	deployment := `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},` +
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	maps, deployments := by(s.at("configmaps", "default")), by(s.at("apps/v1/deployments", "default"))
	named := func(t kinds.Target, place ...string) kinds.Target {
		place = append(place, "")
		t.Name, t.Subresource = place[0], place[1]
		return t
	}
	apply := wire.Patch{
		Type: types.ApplyYAMLPatchType,
		Body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"applied"},"data":{"a":"1"}}`),
	}
	for _, c := range []struct {
		what string
		do   func() error
		want []string
	}{
		{"create", func() error { s.create(maps, configMap("a")); return nil }, []string{
			`admit CREATE ConfigMap configmaps name="a" a(uid=false) - *v1.CreateOptions`,
			`validate CREATE ConfigMap configmaps name="a" a(uid=true) - *v1.CreateOptions`,
		}},
		{"update", func() error { s.update(named(maps, "a"), configMap("a")); return nil }, []string{
			`admit UPDATE ConfigMap configmaps name="a" a(uid=true) a(uid=true) *v1.UpdateOptions`,
			`validate UPDATE ConfigMap configmaps name="a" a(uid=true) a(uid=true) *v1.UpdateOptions`,
		}},
		{"patch", func() error { s.merge(named(maps, "a"), `{"data":{"a":"2"}}`); return nil }, []string{
			`admit UPDATE ConfigMap configmaps name="a" a(uid=true) a(uid=true) *v1.UpdateOptions`,
			`validate UPDATE ConfigMap configmaps name="a" a(uid=true) a(uid=true) *v1.UpdateOptions`,
		}},
		{"apply that creates", func() error {
			_, err := s.Patch(t.Context(), named(maps, "applied"), apply, metav1.PatchOptions{FieldManager: "m"})
			return err
		}, []string{
			`admit CREATE ConfigMap configmaps name="applied" applied(uid=false) - *v1.CreateOptions`,
			`validate CREATE ConfigMap configmaps name="applied" applied(uid=true) - *v1.CreateOptions`,
		}},
		{"scale", func() error {
			s.create(deployments, deployment)
			p.heard()
			_, err := s.Update(t.Context(), named(deployments, "d", "scale"), []byte(scaled), metav1.UpdateOptions{})
			return err
		}, []string{
			`admit UPDATE Scale deployments/scale name="d" d(uid=false) d(uid=true) *v1.UpdateOptions`,
			`validate UPDATE Scale deployments/scale name="d" d(uid=false) d(uid=true) *v1.UpdateOptions`,
		}},
		{"status", func() error {
			s.merge(named(deployments, "d", "status"), `{"status":{"replicas":3}}`)
			return nil
		}, []string{
			`admit UPDATE Deployment deployments/status name="d" d(uid=true) d(uid=true) *v1.UpdateOptions`,
			`validate UPDATE Deployment deployments/status name="d" d(uid=true) d(uid=true) *v1.UpdateOptions`,
		}},
		{"binding", func() error {
			s.create(s.at("pods", "default"), pod("p"))
			_, err := s.post(by(s.at("pods", "default", "p", "binding")),
				`{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`)
			return err
		}, []string{
			`admit CREATE Binding pods/binding name="p" p(uid=false) - *v1.CreateOptions`,
			`validate CREATE Binding pods/binding name="p" p(uid=false) - *v1.CreateOptions`,
		}},
		{"eviction", func() error {
			_, err := s.post(by(s.at("pods", "default", "p", "eviction")), `{"metadata":{"name":"p"}}`)
			return err
		}, []string{
			`admit CREATE Eviction pods/eviction name="p" p(uid=false) - *v1.CreateOptions`,
			`validate CREATE Eviction pods/eviction name="p" p(uid=false) - *v1.CreateOptions`,
		}},
		{"delete", func() error { s.delete(named(maps, "applied")); return nil }, []string{
			`admit DELETE ConfigMap configmaps name="applied" - applied(uid=true) *v1.DeleteOptions`,
			`validate DELETE ConfigMap configmaps name="applied" - applied(uid=true) *v1.DeleteOptions`,
		}},
		{"deletecollection", func() error {
			_, err := s.DeleteCollection(t.Context(), maps, metav1.DeleteOptions{}, options(nil))
			return err
		}, []string{
			`admit DELETE ConfigMap configmaps name="" - a(uid=true) *v1.DeleteOptions`,
			`validate DELETE ConfigMap configmaps name="" - a(uid=true) *v1.DeleteOptions`,
		}},
		{"the server itself", func() error { s.create(s.at("configmaps", "default"), configMap("own")); return nil }, nil},
	} {
		p.heard()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got := p.heard(); !slices.Equal(got, c.want) {
			t.Errorf("%s: asked\n%s\nwant\n%s", c.what, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// label adds a label, and a field that the kind does not have.
func label(_ context.Context, a admission.Attributes, redo func() error) error {
	u, is := a.GetObject().(*unstructured.Unstructured)
	if !is {
		return nil
	}
	labels := u.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels["by"] = "plugin"
	u.SetLabels(labels)
	u.Object["unknown"] = "x"
	return redo()
}

func TestChangesOfPluginsAreStoredInTheFormOfTheKind(t *testing.T) {
	s := reviewed(t, &reviewer{admit: label})
	for _, target := range []kinds.Target{s.at("configmaps", "default"), s.at("pods", "default")} {
		body := `{"metadata":{"generateName":"a-"}}`
		if target.Resource.Plural == "pods" {
			body = strings.Replace(pod("x"), `"name":"x"`, `"generateName":"a-"`, 1)
		}
		o := s.create(by(target), body)
		if o.Labels()["by"] != "plugin" || field(t, o, "unknown") != nil || !strings.HasPrefix(o.Key().Name, "a-") ||
			len(o.Key().Name) < 4 {
			t.Errorf("created as %s", o.JSON())
		}
		if strings.Contains(fmt.Sprint(field(t, o, "metadata", "managedFields")), "f:by") {
			t.Errorf("the client manages what the plugin has set: %s", o.JSON())
		}
		target.Name = o.Key().Name
		s.merge(target, `{"metadata":{"labels":{"by":null}}}`)
		again := s.merge(by(target), `{"metadata":{"labels":{"own":"1"}}}`)
		if again.Labels()["by"] != "plugin" || again.Labels()["own"] != "1" || again.UID() != o.UID() {
			t.Errorf("updated as %s", again.JSON())
		}
	}
}

func TestPluginsCannotChangeThroughTheStatusWhatItDoesNotHave(t *testing.T) {
	s := reviewed(t, &reviewer{admit: func(_ context.Context, a admission.Attributes, redo func() error) error {
		u, is := a.GetObject().(*unstructured.Unstructured)
		if !is || a.GetSubresource() != "status" {
			return nil
		}
		u.Object["spec"] = map[string]any{"a": "changed", "n": int64(7)}
		return redo()
	}})
	s.create(s.at(crds), definition(""))
	o := s.create(s.at(foos, "default"), foo("a", `{"a":"x"}`))
	after := s.merge(by(s.at(foos, "default", "a", "status")), `{"status":{"n":1}}`)
	if field(t, after, "spec", "a") != "x" || field(t, after, "spec", "n") != nil || field(t, after, "status", "n") != 1.0 ||
		after.Generation() != o.Generation() {
		t.Errorf("after a write of the status: %s", after.JSON())
	}
}

func TestPluginsRefuse(t *testing.T) {
	p := &reviewer{validate: func(_ context.Context, a admission.Attributes) error {
		return wire.Forbidden(kinds.GroupResource{Group: a.GetResource().Group, Resource: a.GetResource().Resource}, a.GetName(),
			"because")
	}}
	s := reviewed(t, p)
	s.create(s.at("configmaps", "default"), configMap("a"))
	target := by(s.at("configmaps", "default", "a"))
	const want = `403 Forbidden configmaps "a" is forbidden: because`
	_, err := s.Update(t.Context(), target, []byte(configMap("a")), metav1.UpdateOptions{DryRun: []string{"All"}})
	if status(err) != want {
		t.Errorf("dry run: %v", err)
	}
	if _, err := s.Delete(t.Context(), target, metav1.DeleteOptions{}); status(err) != want {
		t.Errorf("delete: %v", err)
	}
	s.get(target)
}

// A webhook may write too: also to the object that the write is about, and definitions.
func TestPluginsMayWriteMeanwhile(t *testing.T) {
	p := &reviewer{}
	s := reviewed(t, p)
	s.create(s.at("namespaces"), `{"metadata":{"name":"n"}}`)
	s.create(s.at("configmaps", "n"), configMap("a"))
	inside := 0
	p.validate = func(_ context.Context, a admission.Attributes) error {
		switch {
		case a.GetResource().Resource == "customresourcedefinitions":
			s.create(s.at(crds), strings.NewReplacer("foos", "bars", "Foo", "Bar").Replace(definition(""))) //nolint:contextcheck // the test's
		case a.GetOperation() == admission.Update && inside == 0:
			s.merge(s.at("configmaps", "n", "a"), `{"data":{"inside":"1"}}`) //nolint:contextcheck // the write begins again
		case a.GetOperation() == admission.Create:
			w := s.watch(s.at("namespaces"), nil)                     //nolint:contextcheck // the test's
			s.delete(s.at("namespaces", "", "n"))                     //nolint:contextcheck // its content is deleted while the creation waits
			for e := w.next(); e.Type != kube.Deleted; e = w.next() { //nolint:contextcheck // the test's
			}
		}
		inside++
		return nil
	}
	o := s.merge(by(s.at("configmaps", "n", "a")), `{"data":{"outside":"1"}}`)
	if field(t, o, "data", "inside") != "1" || field(t, o, "data", "outside") != "1" {
		t.Errorf("written as %s", o.JSON())
	}
	s.create(by(s.at(crds)), definition(""))
	if _, err := s.Create(t.Context(), by(s.at("configmaps", "n")), []byte(configMap("b")),
		metav1.CreateOptions{}); status(err) != `404 NotFound namespaces "n" not found` {
		t.Errorf("creation in a namespace that was deleted meanwhile: %v", err)
	}
}

// following records the namespaces that it hears of.
type following struct {
	// mu guards names.
	mu    sync.Mutex
	names map[string]bool
}

// Follows implements registry.Follower.
func (*following) Follows() []kinds.GroupResource {
	return []kinds.GroupResource{kinds.Namespaces()}
}

// Replace implements registry.Follower.
func (f *following) Replace(_ kinds.GroupResource, objects []*wire.Object) {
	for _, o := range objects {
		f.Change(kinds.Namespaces(), o, false)
	}
}

// Change implements registry.Follower.
func (f *following) Change(_ kinds.GroupResource, o *wire.Object, deleted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.names[o.Key().Name] = !deleted
}

func TestFollowersKnowAWriteBeforeItsWriter(t *testing.T) {
	log := openLog(t)
	before, stop := serveWith(t, log, registry.Config{Store: log})
	before.create(before.at("namespaces"), `{"metadata":{"name":"old"}}`)
	stop()
	f := &following{names: map[string]bool{}}
	s, _ := serveWith(t, log, registry.Config{Store: log, Followers: []registry.Follower{f}})
	has := func(name string) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.names[name]
	}
	if !has("old") || !has("default") {
		t.Error("a follower does not know what was there before")
	}
	for i := range 100 {
		name := fmt.Sprint("n", i)
		s.create(s.at("namespaces"), `{"metadata":{"name":"`+name+`"}}`)
		if !has(name) || s.Find(kinds.Namespaces(), wire.Key{Name: name}) == nil {
			t.Fatalf("%s was created, and a follower does not know it", name)
		}
	}
	found := 0
	for range s.Objects(kinds.Namespaces(), "") {
		found++
	}
	if found != 105 {
		t.Errorf("there are %d namespaces", found)
	}
}

func TestPluginsSeeAManagerOnlyIfTheClientNamesIt(t *testing.T) {
	var named []string
	p := &reviewer{validate: func(_ context.Context, a admission.Attributes) error {
		o, is := a.GetOperationOptions().(*metav1.CreateOptions)
		if !is {
			return fmt.Errorf("options are %T", a.GetOperationOptions())
		}
		named = append(named, o.FieldManager)
		return nil
	}}
	s := reviewed(t, p)
	maps := by(s.at("configmaps", "default"))
	maps.Manager = "agent"
	for name, o := range map[string]metav1.CreateOptions{"agent": {}, "me": {FieldManager: "me"}} {
		out, err := s.Create(t.Context(), maps, []byte(configMap(name)), o)
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		if text := string(out.Object.JSON()); !strings.Contains(text, `"manager":"`+name+`"`) {
			t.Errorf("the manager is not %s: %s", name, text)
		}
	}
	if slices.Sort(named); !slices.Equal(named, []string{"", "me"}) {
		t.Errorf("plugins see the managers %q", named)
	}
}

func TestAPluginCannotGiveANewObjectAResourceVersion(t *testing.T) {
	p := &reviewer{admit: func(_ context.Context, a admission.Attributes, redo func() error) error {
		if u, is := a.GetObject().(*unstructured.Unstructured); is {
			u.SetResourceVersion("5")
		}
		return redo()
	}}
	s := reviewed(t, p)
	_, err := s.Create(t.Context(), by(s.at("configmaps", "default")), []byte(configMap("a")), metav1.CreateOptions{})
	if want := "resourceVersion should not be set on objects to be created"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
