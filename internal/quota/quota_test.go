package quota_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/quota"
	"github.com/gapless-io/gapless/internal/wire"
)

// item makes an object of YAML.
func item(t testing.TB, k quota.Kind, text string) quota.Item {
	t.Helper()
	i, err := k.Item(func(into any) error {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return err
		}
		return json.Unmarshal(data, into)
	})
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return i
}

func kindOf(t testing.TB, group, resource string, classes quota.Classes) quota.Kind {
	t.Helper()
	k, counted := quota.KindOf(kinds.GroupResource{Group: group, Resource: resource}, classes)
	if !counted {
		t.Fatalf("%s is not measured", resource)
	}
	return k
}

func TestUsageIsUpstreams(t *testing.T) {
	const pod = "spec:\n  containers:\n  - name: c\n    resources: "
	for _, c := range []struct{ group, resource, object, want string }{
		{"", "pods", pod + "{}", "count/pods=1,pods=1"},
		{
			"", "pods",
			pod +
				"{requests: {cpu: 1, memory: 1Gi, ephemeral-storage: 1, hugepages-2Mi: 2Mi, example.com/gpu: 1, " +
				"a.kubernetes.io/b: 1}," +
				" limits: {cpu: 2, memory: 2Gi, ephemeral-storage: 2, hugepages-2Mi: 2Mi, example.com/gpu: 1}}",
			"count/pods=1,cpu=1,ephemeral-storage=1,hugepages-2Mi=2Mi,limits.cpu=2,limits.ephemeral-storage=2," +
				"limits.memory=2Gi,memory=1Gi,pods=1,requests.cpu=1,requests.ephemeral-storage=1,requests.example.com/gpu=1," +
				"requests.hugepages-2Mi=2Mi,requests.memory=1Gi",
		},
		{
			"", "pods",
			pod + "{requests: {cpu: 1}}\n  initContainers:\n  - {name: i, resources: {requests: {cpu: 3}}}\n  overhead: {cpu: 1}",
			"count/pods=1,cpu=4,pods=1,requests.cpu=4",
		},
		{"", "pods", pod + "{requests: {cpu: 1}}\nstatus: {phase: Failed}", "count/pods=1"},
		{
			"", "pods", "metadata: {deletionTimestamp: '2020-01-01T00:00:00Z', deletionGracePeriodSeconds: 30}\n" + pod + "{}",
			"count/pods=1",
		},
		{
			"", "services", "spec: {ports: [{port: 1}]}",
			"count/services=1,services=1,services.loadbalancers=0,services.nodeports=0",
		},
		{
			"", "services", "spec: {type: NodePort, ports: [{port: 1}, {port: 2}]}",
			"count/services=1,services=1,services.loadbalancers=0,services.nodeports=2",
		},
		{
			"", "services",
			"spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 1}, {port: 2, nodePort: 3}]}",
			"count/services=1,services=1,services.loadbalancers=1,services.nodeports=1",
		},
		{
			"", "persistentvolumeclaims", "spec: {storageClassName: gold, resources: {requests: {storage: 1500m}}}",
			"count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1," +
				"gold.storageclass.storage.k8s.io/requests.storage=2,persistentvolumeclaims=1,requests.storage=2",
		},
		{
			"", "persistentvolumeclaims",
			"spec: {resources: {requests: {storage: 1Gi}}}\nstatus: {allocatedResources: {storage: 2Gi}}",
			"count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=2Gi",
		},
		{"", "configmaps", "{}", "configmaps=1,count/configmaps=1"},
		{"", "endpoints", "{}", "count/endpoints=1"},
		{"apps", "deployments", "{}", "count/deployments.apps=1"},
		{
			"resource.k8s.io", "resourceclaims", "spec: {devices: {requests: [" +
				"{name: a, exactly: {deviceClassName: x, allocationMode: ExactCount, count: 2}}, " +
				"{name: b, exactly: {deviceClassName: z, allocationMode: All}}, " +
				"{name: c, firstAvailable: [{deviceClassName: x, allocationMode: ExactCount, count: 1}, " +
				"{deviceClassName: x, allocationMode: ExactCount, count: 3}]}]}}",
			"count/resourceclaims.resource.k8s.io=1,x.deviceclass.resource.k8s.io/devices=5,z.deviceclass.resource.k8s.io/devices=32",
		},
	} {
		k := kindOf(t, c.group, c.resource, nil)
		i := item(t, k, c.object)
		if got := quota.Text(i.Usage()); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.resource, c.object, got, c.want)
		}
		if got := quota.Text(quota.Compact(i).Usage()); got != c.want {
			t.Errorf("%s %s, compact: %s, want %s", c.resource, c.object, got, c.want)
		}
	}
}

func TestScopesSelectAsUpstream(t *testing.T) {
	scope := func(name corev1.ResourceQuotaScope, op corev1.ScopeSelectorOperator,
		values ...string,
	) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: op, Values: values}
	}
	const exists, in, notIn = corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn
	priority, attributes := corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass
	crosses := corev1.ResourceQuotaScopeCrossNamespacePodAffinity
	for _, c := range []struct {
		resource, object string
		scope            corev1.ScopedResourceSelectorRequirement
		want             bool
	}{
		{"pods", "spec: {activeDeadlineSeconds: 0}", scope(corev1.ResourceQuotaScopeTerminating, exists), true},
		{"pods", "spec: {}", scope(corev1.ResourceQuotaScopeTerminating, exists), false},
		{"pods", "spec: {}", scope(corev1.ResourceQuotaScopeNotTerminating, exists), true},
		{
			"pods", "spec: {containers: [{resources: {requests: {memory: 0}}}]}",
			scope(corev1.ResourceQuotaScopeBestEffort, exists), true,
		},
		{
			"pods", "spec: {containers: [{resources: {limits: {cpu: 1}}}]}",
			scope(corev1.ResourceQuotaScopeNotBestEffort, exists), true,
		},
		{"pods", "spec: {resources: {limits: {cpu: 1}}}", scope(corev1.ResourceQuotaScopeBestEffort, exists), false},
		{"pods", "status: {qosClass: Burstable}", scope(corev1.ResourceQuotaScopeBestEffort, exists), false},
		{"pods", "spec: {priorityClassName: a}", scope(priority, exists), true},
		{"pods", "spec: {priorityClassName: a}", scope(priority, in, "b", "a"), true},
		{"pods", "spec: {}", scope(priority, in, "a"), false},
		{"pods", "spec: {}", scope(priority, notIn, "a"), true},
		{"pods", "spec: {affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
			"[{podAffinityTerm: {namespaceSelector: {}}}]}}}", scope(crosses, exists), true},
		{
			"pods", "spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a}]}}}",
			scope(crosses, exists), false,
		},
		{"persistentvolumeclaims", "spec: {volumeAttributesClassName: a}", scope(attributes, in, "a"), true},
		{
			"persistentvolumeclaims", "status: {modifyVolumeStatus: {targetVolumeAttributesClassName: a}}",
			scope(attributes, exists), true,
		},
		{"persistentvolumeclaims", "spec: {}", scope(attributes, notIn, "a"), true},
		{"persistentvolumeclaims", "spec: {}", scope(corev1.ResourceQuotaScopeNotTerminating, exists), false},
		{"configmaps", "{}", scope(corev1.ResourceQuotaScopeNotTerminating, exists), false},
	} {
		i := item(t, kindOf(t, "", c.resource, nil), c.object)
		for _, one := range []quota.Item{i, quota.Compact(i)} {
			if got, err := one.InScope(c.scope); err != nil || got != c.want {
				t.Errorf("%s %s in %v: %v, %v, want %v", c.resource, c.object, c.scope, got, err, c.want)
			}
		}
	}
}

func TestPodsMustSayWhatQuotasLimit(t *testing.T) {
	k := kindOf(t, "", "pods", nil)
	required := []corev1.ResourceName{"limits.memory", "cpu", "pods", "requests.example.com/gpu"}
	for object, want := range map[string]string{
		"spec: {containers: [{name: b}, {name: a, resources: {requests: {cpu: 1}}}], " +
			"initContainers: [{name: i}]}": "must specify " +
			"cpu for: b,i; limits.memory for: a,b,i",
		"spec: {containers: [{name: a, resources: {requests: {cpu: 0}, limits: {memory: 0}}}]}": "",
		"spec: {resources: {limits: {cpu: 1}}, containers: [{name: a}]}":                        "",
	} {
		got := ""
		if err := item(t, k, object).Missing(required); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", object, got, want)
		}
	}
}

func stored(t testing.TB, text string) *wire.Object {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("parse YAML: %v", err)
	}
	o, err := wire.ParseObject(data, nil)
	if err != nil {
		t.Fatalf("parse an object: %v", err)
	}
	return o
}

// TestClaimsOfPodsCountOnce: a claim that was made because a pod requests an extended resource counts by that name only
// for what the pod does not.
func TestClaimsOfPodsCountOnce(t *testing.T) {
	pod := stored(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns, uid: u}\n"+
		"spec: {containers: [{name: c, resources: {requests: {example.com/gpu: 2}}}]}")
	classes := quota.NewDeviceClasses(func(kinds.GroupResource, wire.Key) *wire.Object { return pod })
	of, ofClaims := classes.Follows()[0], classes.Follows()[1]
	classes.Change(of, stored(t, "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: x}\n"+
		"spec: {extendedResourceName: example.com/gpu}"), false)
	k := kindOf(t, "resource.k8s.io", "resourceclaims", classes)
	for _, name := range []corev1.ResourceName{
		"requests.example.com/gpu", "requests.deviceclass.resource.kubernetes.io/x", "x.deviceclass.resource.k8s.io/devices",
	} {
		if !k.Matches(name) {
			t.Errorf("%s does not match", name)
		}
	}
	if k.Matches("requests.example.com/other") {
		t.Error("a resource without a class matches")
	}
	claim := func(name string) string {
		return "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: " + name + ", namespace: ns, " +
			"annotations: {resource.kubernetes.io/extended-resource-claim: 'true'}, creationTimestamp: '2026-01-01T00:00:00Z', " +
			"ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]}\n" +
			"spec: {devices: {requests: [{name: r, exactly: {deviceClassName: x, allocationMode: ExactCount, count: 3}}]}}"
	}
	classes.Replace(ofClaims, []*wire.Object{stored(t, claim("first")), stored(t, claim("second"))})
	const head = "count/resourceclaims.resource.k8s.io=1,requests.deviceclass.resource.kubernetes.io/x=3,"
	const tail = ",x.deviceclass.resource.k8s.io/devices=3"
	for name, n := range map[string]string{"first": "1", "second": "3"} {
		want := head + "requests.example.com/gpu=" + n + tail
		if got := quota.Text(item(t, k, claim(name)).Usage()); got != want {
			t.Errorf("the %s claim: %s, want %s", name, got, want)
		}
	}
	classes.Change(ofClaims, stored(t, claim("first")), true)
	if got := quota.Text(item(t, k, claim("second")).Usage()); got != head+"requests.example.com/gpu=1"+tail {
		t.Errorf("the second claim, when the first is gone: %s", got)
	}
	classes.Change(of, stored(t, "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: x}\nspec: {}"), false)
	if k.Matches("requests.example.com/gpu") {
		t.Error("a resource whose class has given it up matches")
	}
}

func TestChargesAreKnownUntilTheyAreSettled(t *testing.T) {
	l, key := quota.NewLedger(), wire.Key{Namespace: "n", Name: "q"}
	one := item(t, kindOf(t, "", "configmaps", nil), "{}").Usage()
	pending := func(want string) {
		t.Helper()
		if got := quota.Text(l.Pending(key)); got != want {
			t.Errorf("%q is pending, want %q", got, want)
		}
	}
	pending("")
	l.Charge(key, one)
	l.Charge(key, one)
	pending("configmaps=2,count/configmaps=2")
	l.Release(key, one)
	pending("configmaps=1,count/configmaps=1")
	l.Doubt(key, one)
	pending("configmaps=1,count/configmaps=1")
	epoch := l.Wrote(key, 1, 2)
	if l.Wrote(key, 2, 3) != epoch || !l.Seen(key, epoch, 3) {
		t.Error("two writes, one after the other, are not of one epoch")
	}
	if l.Seen(key, epoch, 4) || l.Wrote(key, 4, 5) == epoch || l.Seen(key, epoch, 5) {
		t.Error("what another has written is not noticed")
	}
	l.Forget(key)
	pending("")
}
