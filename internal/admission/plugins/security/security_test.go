package security_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/admission/plugins/security"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

var (
	ofPods        = kinds.GroupResource{Resource: "pods"}
	ofNamespaces  = kinds.GroupResource{Resource: "namespaces"}
	ofDeployments = kinds.GroupResource{Group: "apps", Resource: "deployments"}
)

// cluster has pods.
type cluster struct {
	pods    []*wire.Object
	unknown error
}

func (c *cluster) Objects(kinds.GroupResource, string) iter.Seq[*wire.Object] {
	return func(yield func(*wire.Object) bool) {
		for _, o := range c.pods {
			if !yield(o) {
				return
			}
		}
	}
}

func (c *cluster) UnknownOf(kinds.GroupResource, string, string) error { return c.unknown }

// rig is a plugin and what it reads.
type rig struct {
	cluster    *cluster
	namespaces *security.Namespaces
	plugin     plugins.Plugin
}

func newRig(t testing.TB, config string) *rig {
	t.Helper()
	r := &rig{cluster: &cluster{}, namespaces: security.LabelledNamespaces()}
	var sent []byte
	if config != "" {
		sent = []byte("apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n" + config)
	}
	var err error
	if r.plugin, err = security.PodSecurity(r.namespaces, r.cluster, sent); err != nil {
		t.Fatalf("make the plugin: %v", err)
	}
	return r
}

func namespaceOf(labels string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {a: b, " + labels + "}}"
}

const (
	enforce = "pod-security.kubernetes.io/enforce: "
	warn    = "pod-security.kubernetes.io/warn: "
	inAudit = "pod-security.kubernetes.io/audit: "
)

// question is a write of a resource; old is nil for a creation.
type question struct {
	of          kinds.GroupResource
	subresource string
	now, old    *unstructured.Unstructured
	by          string
	left        bool // the client has
}

// said is what comes of it.
type said struct {
	Err, Warnings string
	Annotations   map[string]string
}

type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) AddWarning(_, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, text)
}

func (r *rig) ask(t testing.TB, q question) said {
	t.Helper()
	op := upstream.Create
	var old runtime.Object
	if q.old != nil {
		op, old = upstream.Update, q.old
	}
	namespace := q.now.GetNamespace()
	if q.of == ofNamespaces {
		namespace = q.now.GetName()
	}
	a := upstream.NewAttributesRecord(q.now, old, q.now.GroupVersionKind(), namespace, q.now.GetName(),
		apischema.GroupVersionResource{Group: q.of.Group, Version: "v1", Resource: q.of.Resource}, q.subresource, op, nil, false,
		&user.DefaultInfo{Name: q.by})
	heard := &recorder{}
	ctx := audit.WithAuditContext(warning.WithWarningRecorder(t.Context(), heard))
	if q.left {
		gone, leave := context.WithCancel(ctx)
		leave()
		ctx = gone
	}
	set := plugins.NewSet(r.plugin)
	err := errors.Join(set.Admit(ctx, a, func() error { return nil }), set.Validate(ctx, a))
	out := said{Warnings: strings.Join(heard.all, "\n"), Annotations: audit.AuditContextFrom(ctx).GetEventAnnotations()}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

func pod(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	return pluginstest.Tree(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: team}\nspec: "+spec)
}

const (
	host      = `{hostNetwork: true, containers: [{name: c, image: i}]}`
	ordinary  = `{containers: [{name: c, image: i}]}`
	hostFound = `host namespaces (hostNetwork=true)`
	key       = "pod-security.kubernetes.io/"
)

func TestPodsAreAsSecureAsTheirNamespaceDemands(t *testing.T) {
	const baseline = `"baseline:latest": ` + hostFound
	for _, c := range []struct {
		labels, spec string
		want         said
	}{
		{"", host, said{Annotations: map[string]string{key + "enforce-policy": "privileged:latest"}}},
		{enforce + "baseline", ordinary, said{Annotations: map[string]string{key + "enforce-policy": "baseline:latest"}}},
		{enforce + "baseline", host, said{
			Err: `pods "p" is forbidden: violates PodSecurity ` + baseline, Annotations: map[string]string{
				key + "enforce-policy": "baseline:latest",
			},
		}},
		{warn + "baseline, " + inAudit + "baseline", host, said{
			Warnings: "would violate PodSecurity " + baseline, Annotations: map[string]string{
				key + "enforce-policy": "privileged:latest", key + "audit-violations": "would violate PodSecurity " + baseline,
			},
		}},
		{warn + "lax", host, said{Annotations: map[string]string{ // stored before the plugin was on
			key + "enforce-policy": "privileged:latest",
			key + "error": `Failed to parse policy: metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "lax": ` +
				`must be one of privileged, baseline, restricted`,
		}}},
	} {
		r := newRig(t, "")
		if c.labels != "" {
			pluginstest.Fill(t, r.namespaces, namespaceOf(c.labels))
		}
		got := r.ask(t, question{of: ofPods, now: pod(t, c.spec)})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", c.labels, c.spec, diff)
		}
	}
}

func TestUpdatesOfPodsAreLookedAtIfTheyBringImages(t *testing.T) {
	r := newRig(t, "")
	pluginstest.Fill(t, r.namespaces, namespaceOf(enforce+"baseline"))
	const with = `{hostNetwork: true, containers: [{name: c, image: i}], ephemeralContainers: [{name: e, image: %s}]}`
	for now, refused := range map[string]bool{
		host: false,
		`{hostNetwork: true, containers: [{name: c, image: j}]}`:                              true,
		`{hostNetwork: true, containers: [{name: c, image: i}, {name: d}]}`:                   true,
		`{hostNetwork: true, containers: [{name: c, image: i}], initContainers: [{name: d}]}`: true,
		fmt.Sprintf(with, "i"): true,
		`{hostNetwork: true, containers: [{name: c, image: i, resources: {limits: {cpu: 1}}}]}`: false,
	} {
		got := r.ask(t, question{of: ofPods, subresource: "ephemeralcontainers", now: pod(t, now), old: pod(t, host)})
		if (got.Err != "") != refused {
			t.Errorf("%s: %q, refused: want %v", now, got.Err, refused)
		}
	}
	for image, refused := range map[string]bool{"i": false, "j": true} {
		got := r.ask(t, question{of: ofPods, now: pod(t, fmt.Sprintf(with, image)), old: pod(t, fmt.Sprintf(with, "i"))})
		if (got.Err != "") != refused {
			t.Errorf("an ephemeral container of %s: %q, refused: want %v", image, got.Err, refused)
		}
	}
	for _, ignored := range []string{"status", "binding", "eviction"} {
		if got := r.ask(t, question{of: ofPods, subresource: ignored, now: pod(t, host)}); got.Err != "" {
			t.Errorf("%s: %s", ignored, got.Err)
		}
	}
}

func deployment(t testing.TB, spec string) *unstructured.Unstructured {
	t.Helper()
	return pluginstest.Tree(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: team}\nspec: {template: "+
		"{metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}}, spec: "+spec+"}}")
}

func TestTemplatesOfPodsAreWarnedOf(t *testing.T) {
	r := newRig(t, "")
	pluginstest.Fill(t, r.namespaces, namespaceOf(enforce+"baseline"))
	found := `would violate PodSecurity "baseline:latest": forbidden AppArmor profile ` +
		`(annotation must not set AppArmor profile type to "container.apparmor.security.beta.kubernetes.io/c="unconfined""), ` +
		hostFound
	if diff := cmp.Diff(said{Warnings: found}, r.ask(t, question{of: ofDeployments, now: deployment(t, host)})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	pluginstest.Fill(t, r.namespaces, namespaceOf(inAudit+"baseline"))
	want := said{Annotations: map[string]string{key + "audit-violations": found}}
	if diff := cmp.Diff(want, r.ask(t, question{of: ofDeployments, now: deployment(t, host)})); diff != "" {
		t.Errorf("for the audit log: -want +got:\n%s", diff)
	}
	r.namespaces.Unknown = func(kinds.GroupResource, string, string) error { return errors.New("team cannot be read") }
	want = said{Annotations: map[string]string{key + "error": `failed to lookup namespace "team": team cannot be read`}}
	if diff := cmp.Diff(want, r.ask(t, question{of: ofDeployments, now: deployment(t, host)})); diff != "" {
		t.Errorf("a namespace that cannot be read: -want +got:\n%s", diff)
	}
	if got := r.ask(t, question{
		of: ofPods, now: pod(t, ordinary),
	}); !strings.Contains(got.Err, `failed to lookup namespace "team"`) {
		t.Errorf("a pod there: %+v", got)
	}
}

// TestTemplatesCostNothingUnlessANamespaceHasLabels: writes of workloads are not prepared for the plugin.
func TestTemplatesCostNothingUnlessANamespaceHasLabels(t *testing.T) {
	resource := &kinds.Resource{Group: "apps", Version: "v1", Plural: "deployments"}
	handles := func(r *rig) bool { return plugins.NewSet(r.plugin).Handles(resource, "", upstream.Update) }
	r := newRig(t, "")
	if handles(r) {
		t.Errorf("without labels it looks at a Deployment")
	}
	labelled := pluginstest.Object(t, namespaceOf(warn+"baseline"))
	r.namespaces.Change(ofNamespaces, labelled, false)
	if !handles(r) {
		t.Errorf("with labels it does not look at a Deployment")
	}
	r.namespaces.Change(ofNamespaces, pluginstest.Object(t, namespaceOf("c: d")), false)
	if handles(r) {
		t.Errorf("once the labels are gone it looks at a Deployment")
	}
	r.namespaces.Change(ofNamespaces, labelled, false)
	r.namespaces.Change(ofNamespaces, labelled, true)
	if handles(r) {
		t.Errorf("once the namespace is gone it looks at a Deployment")
	}
	r.namespaces.Unknown = func(kinds.GroupResource, string, string) error { return errors.New("it cannot be read") }
	if !handles(r) {
		t.Errorf("with a namespace that cannot be read it does not look at a Deployment")
	}
	for _, config := range []string{
		"defaults: {audit: baseline}", "exemptions: {usernames: [u]}", "exemptions: {namespaces: [team]}",
	} {
		if !handles(newRig(t, config)) {
			t.Errorf("with %s it does not look at a Deployment", config)
		}
	}
}

func TestExemptionsAreThoseOfTheConfiguration(t *testing.T) {
	r := newRig(t, "defaults: {enforce: restricted, warn: baseline}\n"+
		"exemptions: {usernames: [root], namespaces: [free], runtimeClasses: [vm]}")
	if got := r.ask(t, question{of: ofPods, now: pod(t, ordinary), by: "me"}); !strings.Contains(got.Err, `"restricted:latest"`) {
		t.Errorf("the default: %+v", got)
	}
	free := pod(t, host)
	free.SetNamespace("free")
	for want, q := range map[string]question{
		"user":         {of: ofPods, now: pod(t, host), by: "root"},
		"namespace":    {of: ofPods, now: free, by: "me"},
		"runtimeClass": {of: ofPods, now: pod(t, `{runtimeClassName: vm, hostNetwork: true}`), by: "me"},
	} {
		if diff := cmp.Diff(said{Annotations: map[string]string{key + "exempt": want}}, r.ask(t, q)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", want, diff)
		}
	}
	ns := pluginstest.Tree(t, strings.Replace(namespaceOf(enforce+"baseline, "+warn+"restricted"), "name: team", "name: free", 1))
	if got, want := r.ask(t,
		question{of: ofNamespaces, now: ns}), `namespace "free" is exempt from Pod Security, and the policy `+
		`(enforce=baseline:latest, warn=restricted:latest) will be ignored`; got.Warnings != want {
		t.Errorf("%+v, want a warning %s", got, want)
	}
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	const head = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
	for config, want := range map[string]string{
		head + "defaults: {enforce: strict}":             `defaults.enforce: Invalid value: "strict": must be one of`,
		head + "defaults: {warn-version: \"1.30\"}":      `defaults.warn-version: Invalid value: "1.30"`,
		head + "exemptions: {namespaces: [A]}":           `exemptions.namespaces[0]: Invalid value: "A"`,
		head + "exemptions: {usernames: [a, a]}":         `exemptions.usernames[1]: Duplicate value: "a"`,
		head + "default: {}":                             `unknown field "default"`,
		"apiVersion: v1\nkind: PodSecurityConfiguration": "read the configuration of PodSecurity: no kind",
		"{": "read the configuration of PodSecurity",
	} {
		_, err := security.PodSecurity(security.LabelledNamespaces(), &cluster{}, []byte(config))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestLabelsOfNamespacesAreValidIfTheyChange(t *testing.T) {
	r := newRig(t, "")
	namespace := func(labels string) *unstructured.Unstructured { return pluginstest.Tree(t, namespaceOf(labels)) }
	wrong := namespace(enforce + "strict")
	const text = `Namespace "team" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid ` +
		`value: "strict": must be ` +
		`one of privileged, baseline, restricted`
	for _, c := range []struct {
		now, old *unstructured.Unstructured
		want     string
	}{
		{wrong, nil, text},
		{wrong, namespace("x: z"), text},
		{wrong, wrong, ""}, // it was stored before the plugin was on
		{wrong, namespace(enforce + "lax"), text},
		{namespace(enforce + "restricted"), wrong, ""},
	} {
		if got := r.ask(t, question{of: ofNamespaces, now: c.now, old: c.old}); got.Err != c.want {
			t.Errorf("%v after %v: %q, want %q", c.now.GetLabels(), c.old, got.Err, c.want)
		}
	}
}

func TestStricterLevelsWarnOfExistingPods(t *testing.T) {
	r := newRig(t, "exemptions: {runtimeClasses: [vm]}")
	add := func(name, owner, spec string) {
		metadata := "{name: " + name + ", namespace: team"
		if owner != "" {
			metadata += ", ownerReferences: [{uid: other}, {controller: true, uid: " + owner + "}]"
		}
		r.cluster.pods = append(r.cluster.pods, pluginstest.Object(t, "apiVersion: v1\nkind: Pod\nmetadata: "+metadata+
			"}\nspec: "+spec))
	}
	add("a", "", ordinary)
	add("b", "set", host)
	add("c", "set", host)
	add("d", "", host)
	add("e", "", `{containers: [{name: c, securityContext: {privileged: true}}]}`)
	add("f", "", `{runtimeClassName: vm, hostNetwork: true}`)
	tell := func(now, old string) string {
		return r.ask(t, question{
			of: ofNamespaces, now: pluginstest.Tree(t, namespaceOf(now)), old: pluginstest.Tree(t, namespaceOf(old)),
		}).Warnings
	}
	want := strings.Join([]string{
		`existing pods in namespace "team" violate the new PodSecurity enforce level "baseline:latest"`,
		"b (and 2 other pods): host namespaces", "e: privileged",
	}, "\n")
	if diff := cmp.Diff(want, tell(enforce+"baseline", "x: z")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, quiet := range []struct{ now, old string }{
		{enforce + "baseline", enforce + "restricted"},
		{enforce + "privileged", "x: z"},
		{enforce + "baseline", enforce + "baseline"},
		{warn + "baseline", "x: z"},
	} {
		if got := tell(quiet.now, quiet.old); got != "" {
			t.Errorf("%s after %s: %s", quiet.now, quiet.old, got)
		}
	}
	r.cluster.unknown = errors.New("a pod cannot be read")
	if got := tell(enforce+"baseline", "x: z"); got != "failed to list pods while checking new PodSecurity enforce level" {
		t.Errorf("with a pod that cannot be read: %s", got)
	}
	r.cluster.unknown, r.cluster.pods = nil, nil
	for i := range 3100 {
		add(fmt.Sprintf("p%04d", i), "set", ordinary)
	}
	add("z", "", host)
	got := tell(enforce+"baseline", "x: z")
	if !strings.HasPrefix(got, "new PodSecurity enforce level only checked against the first ") ||
		!strings.Contains(got, "of 3101 existing pods") {
		t.Errorf("of many: %s", got)
	}

	// Those that do not count are not all read either.
	r.cluster.pods = nil
	for i := range 3000 {
		add(fmt.Sprintf("vm%d", i), "", `{runtimeClassName: vm}`)
	}
	add("z", "", host)
	got = r.ask(t, question{
		of: ofNamespaces, now: pluginstest.Tree(t, namespaceOf(enforce+"baseline")),
		old:  pluginstest.Tree(t, namespaceOf("x: z")),
		left: true,
	}).Warnings
	if want := "new PodSecurity enforce level only checked against the first 0 of 1 existing pods"; got != want {
		t.Errorf("behind many that are exempt: %s", got)
	}
}

func BenchmarkPodSecurity(b *testing.B) {
	for name, labels := range map[string]string{
		"privileged": "", "baseline": enforce + "baseline", "restricted": enforce + "restricted",
	} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, "")
			if labels != "" {
				pluginstest.Fill(b, r.namespaces, namespaceOf(labels))
			}
			set := plugins.NewSet(r.plugin)
			u := pod(b,
				`{containers: [{name: c, image: i, ports: [{containerPort: 80}], resources: {limits: {cpu: `+
					`1}}, securityContext: `+
					`{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}], securityContext: {runAsNonRoot: true, `+
					`seccompProfile: {type: RuntimeDefault}}}`)
			a := upstream.NewAttributesRecord(u, nil, u.GroupVersionKind(), "team", "p", apischema.GroupVersionResource{
				Version: "v1", Resource: "pods",
			}, "", upstream.Create, nil, false, &user.DefaultInfo{})
			ctx := context.WithoutCancel(b.Context())
			b.ReportAllocs()
			for b.Loop() {
				if err := set.Validate(ctx, a); err != nil {
					b.Fatalf("ask: %v", err)
				}
			}
		})
	}
}
