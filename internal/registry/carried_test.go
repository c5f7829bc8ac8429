package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/wire"
)

// service is the body of the service "s".
func service(spec string) string {
	return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":` + spec + `}`
}

// replaced returns the spec of a service that was created with a spec and replaced by another, as
// JSON without what is the same for all, or why the update is refused.
func (s *server) replaced(was, now string) string {
	s.t.Helper()
	s.create(s.at("services", "default"), service(was))
	at := s.at("services", "default", "s")
	defer s.delete(at)
	out, err := s.Update(s.t.Context(), at, []byte(service(now)), metav1.UpdateOptions{})
	if err != nil {
		return status(err)
	}
	spec, _ := field(s.t, out.Object, "spec").(map[string]any)
	for _, name := range []string{"sessionAffinity", "internalTrafficPolicy", "selector"} {
		delete(spec, name)
	}
	var ports []string
	list, _ := spec["ports"].([]any)
	for _, port := range list {
		port, _ := port.(map[string]any)
		ports = append(ports, fmt.Sprintf("%v %v→%v", port["name"], port["port"], port["nodePort"]))
	}
	delete(spec, "ports")
	return fmt.Sprint(spec, ports)
}

// TestAServiceKeepsWhatAnUpdateLeavesOut has upstream's rules of what was allocated
// (pkg/registry/core/service/storage patchAllocatedValues and initIPFamilyFields).
func TestAServiceKeepsWhatAnUpdateLeavesOut(t *testing.T) {
	const (
		node = `{"type":"NodePort","ports":[{"name":"a","port":80,"nodePort":30080},{"name":"b","port":81,"nodePort":30081}]}`
		two  = `{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1","fd00::1"],"ipFamilies":["IPv4","IPv6"],` +
			`"ipFamilyPolicy":"RequireDualStack","ports":[{"port":80}]}`
		load = `{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30099,"ports":[{"port":80,` +
			`"nodePort":30080}]}`
	)
	s := serve(t)
	for _, c := range []struct{ name, was, now, want string }{
		{
			"headless", `{"clusterIP":"None","ports":[{"port":80}]}`, `{"ports":[{"port":81}]}`,
			"map[clusterIP:None clusterIPs:[None] type:ClusterIP] [<nil> 81→<nil>]",
		},
		{
			"cluster IP", `{"clusterIP":"10.0.0.1","ports":[{"port":80}]}`, `{"ports":[{"port":80}]}`,
			"map[clusterIP:10.0.0.1 clusterIPs:[10.0.0.1] type:ClusterIP] [<nil> 80→<nil>]",
		},
		{
			"cluster IPs of a client that knows one", two, `{"clusterIP":"10.0.0.1","ports":[{"port":80}]}`,
			"map[clusterIP:10.0.0.1 clusterIPs:[10.0.0.1 fd00::1] ipFamilies:[IPv4 IPv6] ipFamilyPolicy:RequireDualStack " +
				"type:ClusterIP] [<nil> 80→<nil>]",
		},
		{
			"one of two families is released", two, `{"ipFamilyPolicy":"SingleStack","ports":[{"port":80}]}`,
			"map[clusterIP:10.0.0.1 clusterIPs:[10.0.0.1] ipFamilies:[IPv4] ipFamilyPolicy:SingleStack " +
				"type:ClusterIP] [<nil> 80→<nil>]",
		},
		{
			"one of two addresses without the policy", two,
			`{"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],"ports":[{"port":80}]}`,
			`422 Invalid Service "s" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' ` +
				`to release the secondary cluster IP`,
		},
		{
			"another cluster IP", `{"clusterIP":"10.0.0.1","ports":[{"port":80}]}`,
			`{"clusterIP":"10.0.0.2","ports":[{"port":80}]}`,
			`422 Invalid Service "s" is invalid: spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`,
		},
		{
			"ports in another order", node, `{"type":"NodePort","ports":[{"name":"b","port":81},{"name":"a","port":82}]}`,
			"map[externalTrafficPolicy:Cluster type:NodePort] [b 81→30081 a 82→30080]",
		},
		{
			"a port that another one has now", node,
			`{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81,"nodePort":30080}]}`,
			"map[externalTrafficPolicy:Cluster type:NodePort] [a 80→<nil> b 81→30080]",
		},
		{
			"a new port", node, `{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"c","port":83}]}`,
			"map[externalTrafficPolicy:Cluster type:NodePort] [a 80→30080 c 83→<nil>]",
		},
		{
			"node ports of another type that has them", node, `{"type":"LoadBalancer","ports":[{"name":"a","port":80}]}`,
			"map[allocateLoadBalancerNodePorts:true externalTrafficPolicy:Cluster type:LoadBalancer] [a 80→30080]",
		},
		{
			"node ports of a type that has none", node, `{"ports":[{"name":"a","port":80,"nodePort":30080}]}`,
			"map[type:ClusterIP] [a 80→<nil>]",
		},
		{
			"no node ports are wanted", node,
			`{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false,"ports":[{"name":"a","port":80}]}`,
			"map[allocateLoadBalancerNodePorts:false externalTrafficPolicy:Cluster type:LoadBalancer] [a 80→<nil>]",
		},
		{
			"health check's port", load, `{"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]}`,
			"map[allocateLoadBalancerNodePorts:true externalTrafficPolicy:Local healthCheckNodePort:30099 " +
				"type:LoadBalancer] [<nil> 80→30080]",
		},
		{
			"another health check's port", load,
			`{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30098,"ports":[{"port":80}]}`,
			`422 Invalid Service "s" is invalid: spec.healthCheckNodePort: Forbidden: field is immutable`,
		},
		{
			"health checks of a policy that needs none", load,
			`{"type":"LoadBalancer","externalTrafficPolicy":"Cluster","ports":[{"port":80}]}`,
			"map[allocateLoadBalancerNodePorts:true externalTrafficPolicy:Cluster type:LoadBalancer] [<nil> 80→30080]",
		},
		{
			"a name instead of addresses", two, `{"type":"ExternalName","externalName":"a.example.org","ports":[{"port":80}]}`,
			"map[externalName:a.example.org type:ExternalName] [<nil> 80→<nil>]",
		},
		{
			"an address instead of a name", `{"type":"ExternalName","externalName":"a.example.org"}`,
			`{"clusterIP":"10.0.0.1","ports":[{"port":80}]}`,
			"map[clusterIP:10.0.0.1 clusterIPs:[10.0.0.1] type:ClusterIP] [<nil> 80→<nil>]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, s.replaced(c.was, c.now)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPatchesAndAppliesKeepTheAddressesOfAService(t *testing.T) {
	s := serve(t)
	at := s.at("services", "default", "s")
	ip := func(out wire.Written, err error) any {
		if err != nil {
			return status(err)
		}
		return fmt.Sprint(field(t, out.Object, "spec", "clusterIP"), field(t, out.Object, "spec", "clusterIPs"))
	}
	patch := func(of types.PatchType, body string) any {
		o := metav1.PatchOptions{}
		if of == types.ApplyYAMLPatchType {
			o.FieldManager = "m"
		}
		return ip(s.Patch(t.Context(), at, wire.Patch{Type: of, Body: []byte(body)}, o))
	}
	apply := func(spec string) any { return patch(types.ApplyYAMLPatchType, service(spec)) }
	const want = "None[None]"
	if got := apply(`{"clusterIP":"None","ports":[{"port":80}]}`); got != want {
		t.Fatalf("created: %v", got)
	}
	for name, got := range map[string]any{
		"an apply that leaves it out": apply(`{"ports":[{"port":80}]}`),
		"a merge patch":               patch(types.MergePatchType, `{"spec":{"clusterIP":null}}`),
		"a strategic merge patch":     patch(types.StrategicMergePatchType, `{"spec":{"clusterIP":null,"clusterIPs":null}}`),
		"a JSON patch":                patch(types.JSONPatchType, `[{"op":"remove","path":"/spec/clusterIP"}]`),
	} {
		if got != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

// TestANodeKeepsWhatControllersAssigned: upstream refuses an update that leaves it out.
func TestANodeKeepsWhatControllersAssigned(t *testing.T) {
	s := serve(t)
	at := s.at("nodes", "", "n")
	node := func(spec string) string {
		return `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":` + spec + `}`
	}
	s.create(s.at("nodes"), node(`{}`))
	const assigned = `{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"],"providerID":"cloud://1"}`
	s.update(at, node(assigned))
	s.update(at, node(strings.Replace(assigned, "{", `{"unschedulable":true,`, 1)))
	for spec, want := range map[string]string{
		`{"providerID":"cloud://1"}`: `spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid`,
		`{"podCIDR":"10.0.1.0/24","podCIDRs":["10.0.1.0/24"],"providerID":"cloud://1"}`: `spec.podCIDRs: Forbidden: node ` +
			`updates may not change podCIDR except from "" to valid`,
		`{"podCIDR":"10.0.0.0/24"}`: `spec.providerID: Invalid value: null: field cannot ` +
			`be cleared once set`,
		`{"podCIDR":"10.0.0.0/24","providerID":"cloud://2"}`: `spec.providerID: Invalid value: null: field cannot ` +
			`be modified once set`,
		strings.Replace(assigned, "{", `{"externalID":"x",`, 1): `spec.externalID: Forbidden: may not be updated`,
	} {
		_, err := s.Update(t.Context(), at, []byte(node(spec)), metav1.UpdateOptions{})
		if diff := cmp.Diff(`422 Invalid Node "n" is invalid: `+want, status(err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", spec, diff)
		}
	}
	if is := s.get(at); field(t, is, "spec", "providerID") != "cloud://1" || field(t, is, "spec", "podCIDR") != "10.0.0.0/24" {
		t.Errorf("it is %s", is.JSON())
	}
}

// ownedBy is the body of a config map with these owners, by name; all have the same UID.
func ownedBy(owners ...string) string {
	refs := make([]string, len(owners))
	for i, name := range owners {
		refs[i] = `{"apiVersion":"v1","kind":"ConfigMap","name":"` + name + `","uid":"u"}`
	}
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","ownerReferences":[` + strings.Join(refs, ",") + `]}}`
}

// TestOwnersThatStandTwiceAreRemovedWithAWarning has the rules and texts of apiserver
// handlers dedupOwnerReferencesAndAddWarning.
func TestOwnersThatStandTwiceAreRemovedWithAWarning(t *testing.T) {
	const sent = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may " +
		"reject such requests " +
		"as early as 1.24; please fix your requests; duplicate UID(s) observed: u"
	after := strings.Replace(sent, "entries;", "entries after mutating admission happens;", 1)
	s := serve(t)
	at := s.at("configmaps", "default", "c")
	recorded := &recorder{}
	ctx := warning.WithWarningRecorder(t.Context(), recorded)
	patch := func(of types.PatchType, body string) func() (wire.Written, error) {
		return func() (wire.Written, error) {
			return s.Patch(ctx, at, wire.Patch{Type: of, Body: []byte(body)}, metav1.PatchOptions{})
		}
	}
	for _, c := range []struct {
		name   string
		write  func() (wire.Written, error)
		owners []string
		want   []string
	}{
		{"create", func() (wire.Written, error) {
			return s.Create(ctx, s.at("configmaps", "default"), []byte(ownedBy("a", "a", "b", "a")), metav1.CreateOptions{})
		}, []string{"a", "b"}, []string{sent + ", u"}},
		{"update", func() (wire.Written, error) {
			return s.Update(ctx, at, []byte(ownedBy("a", "b", "b")), metav1.UpdateOptions{})
		}, []string{"a", "b"}, []string{sent}},
		{"merge patch", patch(types.MergePatchType, ownedBy("b", "b")), []string{"b"}, []string{after}},
		{
			"JSON patch",
			patch(types.JSONPatchType,
				`[{"op":"copy","from":"/metadata/ownerReferences/0","path":"/metadata/ownerReferences/-"}]`),
			[]string{"b"},
			[]string{after},
		},
		{"none twice", patch(types.MergePatchType, ownedBy("a", "b")), []string{"a", "b"}, nil},
	} {
		recorded.texts = nil
		out, err := c.write()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var owners []string
		refs, _ := field(t, out.Object, "metadata", "ownerReferences").([]any)
		for _, ref := range refs {
			ref, _ := ref.(map[string]any)
			name, _ := ref["name"].(string)
			owners = append(owners, name)
		}
		if diff := cmp.Diff(c.owners, owners); diff != "" {
			t.Errorf("%s: owners: -want +got:\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.want, append(out.Warnings, recorded.texts...)); diff != "" {
			t.Errorf("%s: warnings: -want +got:\n%s", c.name, diff)
		}
	}
}

// recorder keeps the warnings of a request.
type recorder struct{ texts []string }

// AddWarning implements warning.Recorder.
func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

// TestPluginsCannotMakeAnOwnerTwice: what a webhook adds again is removed too.
func TestPluginsCannotMakeAnOwnerTwice(t *testing.T) {
	p := &reviewer{admit: func(_ context.Context, a admission.Attributes, _ func() error) error {
		if u, is := a.GetObject().(*unstructured.Unstructured); is && u != nil {
			u.SetOwnerReferences(append(u.GetOwnerReferences(), u.GetOwnerReferences()...))
		}
		return nil
	}}
	s := reviewed(t, p)
	out, err := s.Create(t.Context(), by(s.at("configmaps", "default")), []byte(ownedBy("a")), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if refs, _ := field(t, out.Object, "metadata", "ownerReferences").([]any); len(refs) != 1 {
		t.Errorf("created %s", out.Object.JSON())
	}
}

// TestAnEmptyListOfManagersClearsThem holds for built-in kinds; upstream keeps the managers of a
// custom resource, for which one empty entry clears.
func TestAnEmptyListOfManagersClearsThem(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	for _, resource := range []string{"configmaps", foos} {
		at, body := s.at(resource, "default", "f"), foo("f", `{"a":"1"}`)
		if resource == "configmaps" {
			body = configMap("f")
		}
		for _, c := range []struct {
			managers string
			cleared  bool
		}{{"[]", resource == "configmaps"}, {"[{}]", true}, {"null", false}} {
			created := s.create(s.at(resource, "default"), body)
			whole := strings.Replace(body, `"metadata":{`,
				fmt.Sprintf(`"metadata":{"managedFields":%s,"resourceVersion":"%d",`, c.managers, created.ResourceVersion()), 1)
			for what, write := range map[string]func() *wire.Object{
				"update":      func() *wire.Object { return s.update(at, whole) },
				"merge patch": func() *wire.Object { return s.merge(at, `{"metadata":{"managedFields":`+c.managers+`}}`) },
			} {
				got := field(t, write(), "metadata", "managedFields")
				if (got == nil) != c.cleared {
					t.Errorf("%s of %s with managedFields %s left %v", what, resource, c.managers, got)
				}
				s.delete(at)
				created = s.create(s.at(resource, "default"), body)
				whole = strings.Replace(body, `"metadata":{`,
					fmt.Sprintf(`"metadata":{"managedFields":%s,"resourceVersion":"%d",`, c.managers, created.ResourceVersion()),
					1)
			}
			s.delete(at)
		}
	}
}

func TestTheStatusOfANamespaceSaysThePhaseThatItIsIn(t *testing.T) {
	s := serve(t)
	s.create(s.at("namespaces"), `{"metadata":{"name":"n","finalizers":["x.io/f"]}}`)
	at := s.at("namespaces", "", "n", "status")
	phase := func(name string) string {
		_, err := s.Patch(t.Context(), at, mergePatch(`{"status":{"phase":"`+name+`"}}`), metav1.PatchOptions{})
		if err == nil {
			return ""
		}
		return status(err)
	}
	const refused = `422 Invalid Namespace "n" is invalid: status.Phase: Invalid value: "%s": may only be '%s' if ` +
		"`deletionTimestamp` is %s"
	for name, want := range map[string]string{
		"Active": "", "Terminating": fmt.Sprintf(refused, "Terminating", "Active", "empty"),
		"X": fmt.Sprintf(refused, "X", "Active", "empty"),
	} {
		if diff := cmp.Diff(want, phase(name)); diff != "" {
			t.Errorf("live: %s: -want +got:\n%s", name, diff)
		}
	}
	s.delete(s.at("namespaces", "", "n"))
	for name, want := range map[string]string{
		"Terminating": "", "Active": fmt.Sprintf(refused, "Active", "Terminating", "not empty"),
	} {
		if diff := cmp.Diff(want, phase(name)); diff != "" {
			t.Errorf("under deletion: %s: -want +got:\n%s", name, diff)
		}
	}
}
