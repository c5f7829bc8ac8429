package pods_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/admission/plugins/pods"
	"github.com/gapless-io/gapless/internal/kinds"
)

var ofNamespaces = kinds.GroupResource{Resource: "namespaces"}

// annotated is a cluster whose namespace ns has annotations, in YAML.
func annotated(t *testing.T, annotations string) *pluginstest.Cluster {
	t.Helper()
	c := &pluginstest.Cluster{}
	c.Put(t, ofNamespaces, "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns, annotations: {"+annotations+"}}")
	return c
}

// made returns the plugin of a constructor that has no error.
func made(t *testing.T) func(p plugins.Plugin, err error) plugins.Plugin {
	return func(p plugins.Plugin, err error) plugins.Plugin {
		t.Helper()
		if err != nil {
			t.Fatalf("make a plugin: %v", err)
		}
		return p
	}
}

func TestPodsGetTheNodeSelectorOfTheirNamespace(t *testing.T) {
	const key = "scheduler.alpha.kubernetes.io/node-selector"
	const config = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'disk=ssd', ns: 'disk=ssd,env=test,x=y'}"
	mine := made(t)(pods.PodNodeSelector(annotated(t, key+": env=test"), nil))
	for _, e := range []expectation{
		{spec: `{}`, want: `{nodeSelector: {env: test}}`},
		{spec: `{nodeSelector: {a: b}}`, want: `{nodeSelector: {a: b, env: test}}`},
		{spec: `{nodeSelector: {env: test}}`, want: `{nodeSelector: {env: test}}`},
		{
			spec: `{nodeSelector: {env: x}}`,
			err:  `forbidden: pod node label selector conflicts with its namespace node label selector`,
		},
	} {
		e.check(t, mine)
	}
	listed := made(t)(pods.PodNodeSelector(annotated(t, ""), []byte(config)))
	for _, e := range []expectation{
		{spec: `{}`, want: `{nodeSelector: {disk: ssd}}`},
		{spec: `{nodeSelector: {env: test}}`, want: `{nodeSelector: {env: test, disk: ssd}}`},
		{spec: `{nodeSelector: {a: b}}`, err: `forbidden: pod node label selector labels conflict with its namespace whitelist`},
		{spec: `{nodeSelector: {x: z}}`, err: `whitelist`},
	} {
		e.check(t, listed)
	}
	expectation{spec: `{}`, err: "invalid selector"}.check(t,
		made(t)(pods.PodNodeSelector(annotated(t, key+": env in (a)"), nil)))
	expectation{spec: `{}`, err: `namespaces "ns" not found`}.check(t, made(t)(pods.PodNodeSelector(&pluginstest.Cluster{}, nil)))
	unread := annotated(t, "")
	unread.Unknown = errors.New("it cannot be read")
	expectation{spec: `{}`, err: "it cannot be read"}.check(t, made(t)(pods.PodNodeSelector(unread, nil)))
}

func TestPodsGetTheTolerationsOfTheirNamespaceAndNoOthers(t *testing.T) {
	const defaults, listed = "scheduler.alpha.kubernetes.io/defaultTolerations",
		"scheduler.alpha.kubernetes.io/tolerationsWhitelist"
	const pressure = `{key: node.kubernetes.io/memory-pressure, operator: Exists, effect: NoSchedule}`
	plain := made(t)(pods.PodTolerationRestriction(annotated(t, ""), nil))
	expectation{spec: `{containers: [{name: c}]}`}.check(t, plain)
	const burstable = `containers: [{name: c, resources: {requests: {cpu: "1"}}}]`
	expectation{spec: `{` + burstable + `}`, want: `{` + burstable + `, tolerations: [` + pressure + `]}`}.check(t, plain)

	mine := made(t)(pods.PodTolerationRestriction(annotated(t,
		defaults+`: '[{"key":"a","operator":"Exists"}]', `+listed+`: '[{"key":"a","operator":"Exists"},{"key":"b"}]'`), nil))
	for _, e := range []expectation{
		{spec: `{}`, want: `{tolerations: [{key: a, operator: Exists}]}`},
		{spec: `{tolerations: [{key: a, operator: Equal, value: x}]}`, want: `{tolerations: [{key: a, operator: Exists}]}`},
		{
			spec: `{tolerations: [{key: b, operator: Equal}]}`,
			want: `{tolerations: [{key: b, operator: Equal}, {key: a, operator: Exists}]}`,
		},
		{
			spec: `{tolerations: [{key: c, operator: Exists}]}`,
			err:  "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist",
		},
		// Updates get no defaults.
		{spec: `{}`, old: `{}`},
		{spec: `{tolerations: [{key: c, operator: Exists}]}`, old: `{}`, err: "namespace whitelist"},
	} {
		e.check(t, mine)
	}
	const config = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n" +
		"default: [{key: d, operator: Exists}]\nwhitelist: [{key: d, operator: Exists}]"
	cluster := made(t)(pods.PodTolerationRestriction(annotated(t, ""), []byte(config)))
	expectation{spec: `{}`, want: `{tolerations: [{key: d, operator: Exists}]}`}.check(t, cluster)
	expectation{spec: `{tolerations: [{key: x, operator: Exists}]}`, err: "conflict with its cluster whitelist"}.check(t, cluster)
	// An empty annotation is an empty list, and counts.
	empty := made(t)(pods.PodTolerationRestriction(annotated(t, defaults+`: "", `+listed+`: ""`), []byte(config)))
	expectation{spec: `{tolerations: [{key: x, operator: Exists}]}`}.check(t, empty)
}

// TestManyTolerationsAreNotCompared: each would be compared with each.
func TestManyTolerationsAreNotCompared(t *testing.T) {
	many := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"key":"k%d","operator":"Exists"}`, i)
		}
		return strings.Join(all, ", ")
	}
	const namespaced = "scheduler.alpha.kubernetes.io/"
	cluster := annotated(t, namespaced+`defaultTolerations: '[{"key":"a","operator":"Exists"}]', `+
		namespaced+`tolerationsWhitelist: '[{"key":"b"}, {"operator":"Exists"}]'`)
	merging := made(t)(pods.PodTolerationRestriction(cluster, nil))
	expectation{
		spec: `{tolerations: [` + many(999) + `]}`, want: `{tolerations: [` + many(999) + `, {key: a, operator: Exists}]}`,
	}.check(t, merging)
	expectation{
		spec: `{tolerations: [` + many(1000) + `]}`,
		err:  "Request entity too large: a pod and what it gets have 1001 tolerations, limit is 1000",
	}.check(t, merging)

	listing := made(t)(pods.PodTolerationRestriction(annotated(t, namespaced+"tolerationsWhitelist: '["+many(2000)+"]'"), nil))
	expectation{spec: `{tolerations: [` + many(500) + `]}`}.check(t, listing)
	expectation{
		spec: `{tolerations: [` + many(501) + `]}`,
		err: "Request entity too large: 501 tolerations of a pod and 2000 of the namespace whitelist are 1002000 pairs, " +
			"limit is 1000000",
	}.check(t, listing)
}

func TestWrongConfigurationsOfPodPluginsAreRefused(t *testing.T) {
	const head = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"
	for config, want := range map[string]string{
		head + "default: [{key: 'a b', operator: Exists}]": "podtolerationrestriction.default[0].key",
		head + "whitelist: [{operator: Both}]":             "podtolerationrestriction.whitelist[0]",
		head + "whitlist: []":                              `unknown field "whitlist"`,
		"apiVersion: v1\nkind: Configuration":              "want a Configuration of podtolerationrestriction.admission",
		"{":                                                "configuration of PodTolerationRestriction",
		"":                                                 "want a Configuration",
		strings.Replace(head, "v1alpha1", "v1", 1) + "default: 7": "want a Configuration",
	} {
		if _, err := pods.PodTolerationRestriction(nil, []byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	for config, want := range map[string]string{
		"podNodeSelectorPluginConfig: {ns: 'a in (b)'}": "podNodeSelectorPluginConfig[ns]",
		"podNodeSelectorPluginConfig: {ns: {a: b}}":     "configuration of PodNodeSelector",
		"podNodeSelector: {ns: 'a=b'}":                  `unknown field "podNodeSelector"`,
	} {
		if _, err := pods.PodNodeSelector(nil, []byte(config)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

func TestPodsTolerateTheNodesOfTheirExtendedResources(t *testing.T) {
	const gpu = `{key: example.com/gpu, operator: Exists, effect: NoSchedule}`
	const asks = `containers: [{name: c, resources: {requests: {example.com/gpu: "1", cpu: "1", x.kubernetes.io/y: "1"}}}]`
	const both = asks + `, initContainers: [{name: i, resources: {requests: {a.example/b: "1"}}}]`
	for _, e := range []expectation{
		{spec: `{containers: [{name: c}]}`},
		{spec: `{` + asks + `}`, want: `{` + asks + `, tolerations: [` + gpu + `]}`},
		{
			spec: `{` + both + `}`,
			want: `{` + both + `, tolerations: [{key: a.example/b, operator: Exists, effect: NoSchedule}, ` + gpu + `]}`,
		},
		{spec: `{` + asks + `, tolerations: [` + gpu + `]}`, old: `{}`},
		{
			spec: `{` + asks + `, tolerations: [{key: example.com/gpu, operator: Exists, effect: NoExecute}]}`,
			want: `{` + asks + `, tolerations: [{key: example.com/gpu, operator: Exists, effect: NoExecute}, ` + gpu + `]}`,
		},
		{
			spec: `{` + asks +
				`, tolerations: [{key: example.com/gpu, operator: Exists, effect: NoSchedule, tolerationSeconds: 3}]}`,
			want: `{` + asks + `, tolerations: [` + gpu + `]}`,
		},
	} {
		e.check(t, pods.ExtendedResourceToleration())
	}
}

func TestPodsKeepOthersAwayFromTheirNodeOnly(t *testing.T) {
	affinity := func(kind, keys string) string {
		return `{affinity: {podAntiAffinity: {` + kind + `: [` + keys + `]}}}`
	}
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	for _, e := range []expectation{
		{spec: `{}`},
		{spec: affinity(required, `{topologyKey: kubernetes.io/hostname}`)},
		{
			spec: affinity(required, `{topologyKey: kubernetes.io/hostname}, {topologyKey: zone}`),
			err: `pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key ` +
				`kubernetes.io/hostname is allowed`,
		},
		{spec: affinity(required, `{topologyKey: zone}`), old: `{}`, err: "TopologyKey zone"},
		{spec: affinity("preferredDuringSchedulingIgnoredDuringExecution", `{podAffinityTerm: {topologyKey: zone}}`)},
	} {
		e.check(t, pods.LimitPodHardAntiAffinityTopology())
	}
}

func FuzzConfigurationsOfPodPlugins(f *testing.F) {
	f.Add("podNodeSelectorPluginConfig: {ns: 'a=b'}")
	f.Add("apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\ndefault: [{key: a}]")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = pods.PodNodeSelector(nil, []byte(text))          // an error is fine
		_, _ = pods.PodTolerationRestriction(nil, []byte(text)) // an error is fine
	})
}
