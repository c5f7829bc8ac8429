package nodes_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission/plugins/nodes"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// allowing allows one verb.
type allowing struct {
	auth.AlwaysDeny
	verb string
}

func (a allowing) Decide(_ context.Context, _ user.Info, wanted auth.Attributes) auth.Decision {
	return auth.Decision{Allowed: wanted.Verb == a.verb}
}

// gr is a resource like "pods" or "leases.coordination.k8s.io".
func gr(name string) kinds.GroupResource {
	plural, group, _ := strings.Cut(name, ".")
	return kinds.GroupResource{Group: group, Resource: plural}
}

// stored is a cluster with nodes a and b, and a pod on each of them.
func stored(t *testing.T) *pluginstest.Cluster {
	t.Helper()
	c := &pluginstest.Cluster{}
	c.Put(t, gr("nodes"), "{apiVersion: v1, kind: Node, metadata: {name: a, uid: ua}}",
		"{apiVersion: v1, kind: Node, metadata: {name: b}}")
	c.Put(t, gr("pods"),
		`{apiVersion: v1, kind: Pod, metadata: {name: mine, namespace: ns, uid: u1}, spec: {nodeName: a, serviceAccountName: sa,
			volumes: [{name: t, projected: {sources: [{serviceAccountToken: {audience: vault}},`+
			` {podCertificate: {signerName: s/x}}]}},
			{name: c, persistentVolumeClaim: {claimName: claim}}, {name: d, csi: {driver: inline}}, {name: e,`+
			` awsElasticBlockStore: {}}]}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: theirs, namespace: ns, uid: u2}, spec: {nodeName: b}}`)
	c.Put(t, gr("persistentvolumeclaims"),
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: claim, namespace: ns}, spec: {volumeName: pv}}")
	c.Put(t, gr("persistentvolumes"),
		"{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv}, spec: {csi: {driver: bound}}}")
	for driver, audience := range map[string]string{"inline": "one", "bound": "two", "ebs.csi.aws.com": "three"} {
		c.Put(t, gr("csidrivers.storage.k8s.io"), "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: "+driver+
			"}, spec: {tokenRequests: [{audience: "+audience+"}]}}")
	}
	c.Put(t, gr("serviceaccounts"), "{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa, namespace: ns, uid: us}}")
	return c
}

// write is one of the kubelet of node a, and the error that it gets; "" is none.
type write struct {
	resource, now, old, want string
}

func (w write) check(t *testing.T, c *pluginstest.Cluster, authorizer auth.Authorizer) {
	t.Helper()
	resource, subresource, _ := strings.Cut(w.resource, "/")
	p := nodes.NodeRestriction(nodes.Restriction{Cluster: c, Authorizer: authorizer})
	q := pluginstest.Of(p, gr(resource)).Subresource(subresource).By("system:node:a", user.NodesGroup)
	var err error
	switch {
	case w.now == "":
		err = q.AboutDeletion(t, pluginstest.Tree(t, w.old))
	case w.old == "":
		err = q.About(t, pluginstest.Tree(t, w.now), nil)
	default:
		err = q.About(t, pluginstest.Tree(t, w.now), pluginstest.Tree(t, w.old))
	}
	if w.want == "" && err != nil || w.want != "" && (err == nil || !strings.HasSuffix(err.Error(), w.want)) {
		t.Errorf("%s %s (was %s): %v, want %q", w.resource, w.now, w.old, err, w.want)
	}
}

// node, pod and the like are objects in YAML.
func node(name, rest string) string {
	return "{apiVersion: v1, kind: Node, metadata: {name: " + name + "}" + rest + "}"
}

func labelled(labels string) string {
	return "{apiVersion: v1, kind: Node, metadata: {name: a, labels: {" + labels + "}}}"
}

func TestKubeletsWriteOnlyTheirOwnNode(t *testing.T) {
	for _, w := range []write{
		{resource: "nodes", now: node("a", "")},
		{resource: "nodes", now: node("b", ""), want: `node "a" is not allowed to modify node "b"`},
		{resource: "nodes", now: node("b", ""), old: node("b", ""), want: `node "a" is not allowed to modify node "b"`},
		{resource: "nodes/status", now: node("b", ""), old: node("b", ""), want: `is not allowed to modify node "b"`},
		{resource: "nodes", old: node("b", ""), want: `is not allowed to modify node "b"`},
		{resource: "nodes", old: node("a", "")},
		{
			resource: "nodes", now: node("a", ", spec: {configSource: {}}"),
			want: `node "a" is not allowed to create pods with a non-nil configSource`,
		},
		{
			resource: "nodes",
			now: labelled("node-restriction.kubernetes.io/x: v, z.k8s.io/x: v, kubernetes.io/hostname: h, x: v, " +
				"a.node.kubernetes.io/x: v, kubelet.kubernetes.io/x: v, kubernetes.io/role: master"),
			want: `node "a" is not allowed to set the following labels: kubernetes.io/role, ` +
				`node-restriction.kubernetes.io/x, z.k8s.io/x`,
		},
		{
			resource: "nodes/status", now: labelled(""), old: labelled("x.node-restriction.kubernetes.io/x: v"),
			want: `is not allowed to modify labels: x.node-restriction.kubernetes.io/x`,
		},
		{resource: "nodes", now: labelled("a: c, k8s.io/same: s"), old: labelled("a: b, k8s.io/same: s")},
		{
			resource: "nodes", now: node("a", ", spec: {taints: [{key: t, effect: NoSchedule}]}"), old: node("a", ""),
			want: `node "a" is not allowed to modify taints`,
		},
		{
			resource: "nodes",
			now:      "{apiVersion: v1, kind: Node, metadata: {name: a, ownerReferences: [{name: x, kind: K, uid: u}]}}",
			old:      node("a", ""), want: `node "a" is not allowed to modify ownerReferences`,
		},
		{
			resource: "nodes", now: node("a", ", spec: {configSource: {configMap: {name: x}}}"), old: node("a", ""),
			want: `node "a" is not allowed to update configSource to a new non-nil configSource`,
		},
	} {
		w.check(t, stored(t), allowing{})
	}
}

func TestKubeletsWriteOnlyWhatIsNamedAfterTheirNode(t *testing.T) {
	lease := func(name, namespace string) string {
		return "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: " + name + ", namespace: " + namespace + "}}"
	}
	const slice = "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: "
	const driver = "{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: "
	const leases, slices, drivers = "leases.coordination.k8s.io", "resourceslices.resource.k8s.io", "csinodes.storage.k8s.io"
	for _, w := range []write{
		{resource: leases, now: lease("a", "kube-node-lease")},
		{
			resource: leases, now: lease("b", "kube-node-lease"),
			want: "can only access node lease with the same name as the requesting node",
		},
		{resource: leases, now: lease("a", "ns"), want: `can only access leases in the "kube-node-lease" system namespace`},
		{resource: drivers, now: driver + "a}}", old: driver + "a}}"},
		{resource: drivers, now: driver + "b}}", want: "can only access CSINode with the same name as the requesting node"},
		{
			resource: drivers + "/status", now: driver + "a}}", old: driver + "a}}",
			want: "CSIVolumeHealth feature gate is disabled",
		},
		{resource: slices, now: slice + "{nodeName: a}}"},
		{
			resource: slices, now: slice + "{nodeName: b}}",
			want: "can only create ResourceSlice with the same NodeName as the requesting node",
		},
		{
			resource: slices, old: slice + "{allNodes: true}}",
			want: "can only delete ResourceSlice with the same NodeName as the requesting node",
		},
		{resource: slices, now: slice + "{nodeName: b}}", old: slice + "{nodeName: b}}"}, // the authorizer looks at it
	} {
		w.check(t, stored(t), allowing{})
	}
}

func TestKubeletsCreateOnlyMirrorPods(t *testing.T) {
	pod := func(annotations, owners, spec string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: m, namespace: ns, annotations: {" + annotations +
			"}, ownerReferences: [" +
			owners + "]}, spec: " + spec + "}"
	}
	const mirror = "kubernetes.io/config.mirror: x"
	const owner = "{apiVersion: v1, kind: Node, name: a, uid: ua, controller: true}"
	for _, w := range []write{
		{
			now: pod(mirror, owner,
				`{nodeName: a, volumes: [{name: v, emptyDir: {}}, {name: w, projected: {sources: [{downwardAPI: {}}]}}]}`),
		},
		{
			now:  pod("", owner, `{nodeName: a}`),
			want: `pod does not have "kubernetes.io/config.mirror" annotation, node "a" can only create mirror pods`,
		},
		{now: pod(mirror, owner, `{nodeName: b}`), want: `node "a" can only create pods with spec.nodeName set to itself`},
		{now: pod(mirror, "", `{nodeName: a}`), want: `node "a" can only create pods with an owner reference set to itself`},
		{
			now:  pod(mirror, owner+", "+owner, `{nodeName: a}`),
			want: `node "a" can only create pods with a single owner reference set to itself`,
		},
		{
			now:  pod(mirror, "{apiVersion: v1, kind: Node, name: b, uid: ua, controller: true}", `{nodeName: a}`),
			want: `node "a" can only create pods with an owner reference set to itself`,
		},
		{
			now:  pod(mirror, "{apiVersion: v1, kind: Node, name: a, uid: ua}", `{nodeName: a}`),
			want: `node "a" can only create pods with a controller owner reference set to itself`,
		},
		{
			now: pod(mirror, "{apiVersion: v1, kind: Node, name: a, uid: ua, controller: true, blockOwnerDeletion: true}",
				`{nodeName: a}`),
			want: `node "a" must not set blockOwnerDeletion on an owner reference`,
		},
		{
			now:  pod(mirror, "{apiVersion: v1, kind: Node, name: a, uid: other, controller: true}", `{nodeName: a}`),
			want: `node a UID mismatch: expected other got ua`,
		},
		{now: pod(mirror, owner, `{nodeName: a, volumes: [{name: v}]}`), want: `unknown volume type for volume  "v"`},
		{
			now: pod(mirror, owner, `{nodeName: a}`), old: pod(mirror, owner, `{nodeName: a}`),
			want: `can only create and delete mirror pods`,
		},
	} {
		w.resource = "pods"
		w.check(t, stored(t), allowing{})
	}
	for spec, want := range map[string]string{
		`serviceAccountName: sa`:                     "serviceaccounts",
		`imagePullSecrets: [{name: s}]`:              "secrets",
		`resourceClaims: [{name: c}]`:                "resourceclaims",
		`volumes: [{name: v, configMap: {name: c}}]`: "configmaps",
		`volumes: [{name: v, configMap: {}}]`:        "configmaps (via configmap volumes)",
		`volumes: [{name: v, secret: {}}]`:           "secrets (via secret volumes)",
		`volumes: [{name: v, csi: {driver: d}}]`:     "csidrivers (via CSI volumes)",
		`volumes: [{name: v, glusterfs: {}}]`:        "endpoints (via glusterFS volumes)",
		`volumes: [{name: v, ephemeral: {}}]`: "persistentvolumeclaims " +
			"(via ephemeral volumes)",
		`volumes: [{name: v, azureFile: {}}]`:                                     "secrets (via azureFile volumes)",
		`volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]`:             "persistentvolumeclaims",
		`volumes: [{name: v, projected: {sources: [{serviceAccountToken: {}}]}}]`: "serviceaccounts (via projected volumes)",
		`volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {}}]}}]`:  "clustertrustbundles",
		`volumes: [{name: v, projected: {sources: [{podCertificate: {}}]}}]`:      "podcertificates",
		`volumes: [{name: v, projected: {sources: [{secret: {}}]}}]`:              "secrets (via projected volumes)",
	} {
		write{
			resource: "pods", now: pod(mirror, owner, "{nodeName: a, "+spec+"}"),
			want: `node "a" can not create pods that reference ` + want,
		}.check(t, stored(t), allowing{})
	}
}

func TestKubeletsWriteOnlyWhatTheirPodsNeed(t *testing.T) {
	pod := func(name, rest string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", namespace: ns}" + rest + "}"
	}
	evict := func(name string) string {
		return "{apiVersion: policy/v1, kind: Eviction, metadata: {name: " + name + ", namespace: ns}}"
	}
	const mine, theirs = ", spec: {nodeName: a}", ", spec: {nodeName: b}"
	claim := func(rest string) string {
		return "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: ns" + rest + "}"
	}
	for _, w := range []write{
		{resource: "pods", old: pod("mine", mine)},
		{resource: "pods", old: pod("theirs", theirs), want: `node "a" can only delete pods with spec.nodeName set to itself`},
		{resource: "pods", old: pod("none", mine), want: `pod "none" not found`},
		{resource: "pods/status", now: pod("mine", mine+", status: {phase: Running}"), old: pod("mine", mine)},
		{
			resource: "pods/status", now: pod("theirs", theirs), old: pod("theirs", theirs),
			want: `node "a" can only update pod status for pods with spec.nodeName set to itself`,
		},
		{
			resource: "pods/status", now: "{apiVersion: v1, kind: Pod, metadata: {name: p, labels: {a: b}}, spec: {nodeName: a}}",
			old: pod("mine", mine), want: `node "a" cannot update labels through pod status`,
		},
		{
			resource: "pods/status", now: pod("mine", mine+", status: {resourceClaimStatuses: [{name: x}]}"),
			old:  pod("mine", mine),
			want: `node "a" cannot update resource claim statues`,
		},
		{
			resource: "pods/status", now: pod("mine", mine+", status: {extendedResourceClaimStatus: {resourceClaimName: x}}"),
			old: pod("mine", mine), want: `node "a" cannot update extended resource claim status`,
		},
		{
			resource: "pods/status",
			now:      pod("mine", mine+", status: {nodeAllocatableResourceClaimStatuses: [{resourceClaimName: x}]}"),
			old:      pod("mine", mine), want: `node "a" cannot update node allocatable resource claim statuses`,
		},
		{resource: "pods/eviction", now: evict("mine")},
		{resource: "pods/eviction", now: evict("theirs"), want: `node a can only evict pods with spec.nodeName set to itself`},
		{resource: "pods/eviction", now: evict("none"), want: `pod "none" not found`},
		{
			resource: "pods/binding", now: "{apiVersion: v1, kind: Binding, metadata: {name: mine}}",
			want: `unexpected pod subresource "binding", only 'status' and 'eviction' are allowed`,
		},
		{resource: "persistentvolumeclaims", now: claim("}"), want: "may only update PVC status"},
		{resource: "persistentvolumeclaims/status", now: claim("}, status: {capacity: {storage: 2Gi}}"), old: claim("}")},
		{
			resource: "persistentvolumeclaims/status", now: claim(", labels: {a: b}}"), old: claim("}"),
			want: "}\n",
		},
	} {
		w.check(t, stored(t), allowing{})
	}
}

func TestKubeletsGetTokensOfTheirPodsOnly(t *testing.T) {
	request := func(spec string) string {
		return "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, metadata: {name: sa, namespace: ns}, spec: {" + spec +
			"}}"
	}
	bound := func(name, uid string) string {
		return "boundObjectRef: {apiVersion: v1, kind: Pod, name: " + name + ", uid: " + uid + "}"
	}
	for _, w := range []write{
		{now: request("audiences: [vault], " + bound("mine", "u1"))},
		{now: request("audiences: [one], " + bound("mine", "u1"))},   // an inline volume's driver
		{now: request("audiences: [two], " + bound("mine", "u1"))},   // a claim's volume's driver
		{now: request("audiences: [three], " + bound("mine", "u1"))}, // that of a volume of the old kind
		{now: request(""), want: "node requested token not bound to a pod"},
		{
			now:  request("boundObjectRef: {apiVersion: v1, kind: Secret, name: s}"),
			want: "node requested token not bound to a pod",
		},
		{
			now:  request("boundObjectRef: {apiVersion: v1, kind: Pod, name: mine}"),
			want: "node requested token with a pod binding without a uid",
		},
		{now: request(bound("none", "u1")), want: `pod "none" not found`},
		{
			now: request(bound("mine", "u2")),
			want: "the UID in the bound object reference (u2) does not match the UID in record. The object " +
				"might have been deleted " +
				"and then recreated",
		},
		{now: request(bound("theirs", "u2")), want: "node requested token bound to a pod scheduled on a different node"},
		{now: request("audiences: [a, b], " + bound("mine", "u1")), want: "node may only request 0 or 1 audiences"},
		{
			now:  request("audiences: [other], " + bound("mine", "u1")),
			want: `system:node:a is not authorized to request tokens for audience "other"`,
		},
	} {
		w.resource = "serviceaccounts/token"
		w.check(t, stored(t), allowing{})
	}
	write{resource: "serviceaccounts/token", now: request("audiences: [other], " + bound("mine", "u1"))}.
		check(t, stored(t), allowing{verb: "request-serviceaccounts-token-audience"})
}

func TestKubeletsRequestCertificatesOfTheirPodsOnly(t *testing.T) {
	right := map[string]any{
		"nodeName": "a", "nodeUID": "ua", "podName": "mine", "podUID": "u1", "serviceAccountName": "sa",
		"serviceAccountUID": "us",
		"signerName":        "s/x",
	}
	for member, c := range map[string]struct{ value, want string }{
		"":                   {},
		"nodeName":           {"b", `PodCertificateRequest.Spec.NodeName="b", which is not the requesting node "a"`},
		"nodeUID":            {"x", `names node UID "x", inconsistent with the running node ("ua")`},
		"podName":            {"none", `while retrieving pod "ns/none" named in the PodCertificateRequest: pod "none" not found`},
		"podUID":             {"x", `contains pod UID ("x") which differs from running pod "u1"`},
		"serviceAccountName": {"x", `contains serviceAccountName ("x") that differs from running pod ("sa")`},
		"serviceAccountUID":  {"x", `names service account UID "x", which differs from the running service account ("us")`},
		"signerName":         {"s/y", `pod "ns/mine" does not mount a podCertificate projected volume for signer "s/y"`},
	} {
		spec := maps.Clone(right)
		if member != "" {
			spec[member] = c.value
		}
		text, err := json.Marshal(map[string]any{
			"apiVersion": "certificates.k8s.io/v1", "kind": "PodCertificateRequest",
			"metadata": map[string]any{"name": "r", "namespace": "ns"}, "spec": spec,
		})
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		write{resource: "podcertificaterequests.certificates.k8s.io", now: string(text), want: c.want}.check(t, stored(t),
			allowing{})
		if member == "signerName" {
			write{resource: "podcertificaterequests.certificates.k8s.io", now: string(text)}.check(t, stored(t),
				allowing{verb: "request-serviceaccounts-podcertificate-signer"})
		}
	}
}

func TestWhoIsNoKubeletIsNotRestricted(t *testing.T) {
	p := nodes.NodeRestriction(nodes.Restriction{Cluster: stored(t), Authorizer: allowing{}})
	q := pluginstest.Of(p, gr("nodes"))
	for _, by := range []pluginstest.Asked{q, q.By("system:node:a"), q.By("jane", user.NodesGroup)} {
		if err := by.About(t, pluginstest.Tree(t, node("b", "")), nil); err != nil {
			t.Errorf("%v", err)
		}
	}
	err := q.By("system:node:", user.NodesGroup).About(t, pluginstest.Tree(t, node("b", "")), nil)
	if err == nil || !strings.HasSuffix(err.Error(), `could not determine node from user "system:node:"`) {
		t.Errorf("a kubelet of no node: %v", err)
	}
}

// TestWritesThatTheAuthorizerIsAskedAboutTakeNoTurn: it may ask a webhook.
func TestWritesThatTheAuthorizerIsAskedAboutTakeNoTurn(t *testing.T) {
	for _, mayWait := range []bool{false, true} {
		p := nodes.NodeRestriction(nodes.Restriction{MayWait: func() bool { return mayWait }})
		for _, c := range p.Concerns {
			asks := c.Resource.Resource == "serviceaccounts" || c.Resource.Resource == "podcertificaterequests"
			if waits := c.Waits != nil && c.Waits(); waits != (asks && mayWait) {
				t.Errorf("%s/%s waits: %t, and the authorizer: %t", c.Resource, c.Subresource, waits, mayWait)
			}
		}
	}
}
