package nodes_test

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/nodes"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is what is stored, which an authorizer follows.
type cluster struct {
	*nodes.Authorizer

	t       testing.TB
	objects map[string]*wire.Object
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{t: t, objects: map[string]*wire.Object{}}
	c.Authorizer = nodes.New(c, []rbacv1.PolicyRule{
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"services", "secrets"}},
	})
	return c
}

// Find implements nodes.Cluster.
func (c *cluster) Find(gr schema.GroupResource, key wire.Key) *wire.Object {
	return c.objects[gr.String()+" "+key.String()]
}

// object parses YAML.
func object(t testing.TB, text string) *wire.Object {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("parse YAML: %v", err)
	}
	o, err := wire.ParseObject(json, []wire.FieldPath{{Label: "spec.nodeName", Path: []string{"spec", "nodeName"}}})
	if err != nil {
		t.Fatalf("parse an object: %v", err)
	}
	return o
}

// resource is one like "pods" or "leases.coordination.k8s.io".
func resource(name string) schema.GroupResource { return schema.ParseGroupResource(name) }

func (c *cluster) put(resourceName, text string) {
	c.t.Helper()
	gr, o := resource(resourceName), object(c.t, text)
	c.objects[gr.String()+" "+o.Key().String()] = o
	if gr.Resource == "pods" || gr.Resource == "persistentvolumes" {
		c.Change(gr, o, false)
	}
}

func (c *cluster) remove(resourceName string, key wire.Key) {
	c.t.Helper()
	gr := resource(resourceName)
	at := gr.String() + " " + key.String()
	c.Change(gr, c.objects[at], true)
	delete(c.objects, at)
}

// pod puts a pod of namespace n on a node.
func (c *cluster) pod(name, node, spec string) {
	c.t.Helper()
	c.put("pods", fmt.Sprintf("metadata: {name: %s, namespace: 'n'}\nspec: {nodeName: %q, %s}", name, node, spec))
}

func kubelet(node string) user.Info {
	return &user.DefaultInfo{Name: "system:node:" + node, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
}

// wish parses "get secrets n/s", "create serviceaccounts/token n/a" or "list pods / spec.nodeName=a".
func wish(text string) auth.Attributes {
	words := strings.Fields(text)
	name, sub, _ := strings.Cut(words[1], "/")
	a := auth.Attributes{Verb: words[0], Resource: resource(name), Subresource: sub}
	if len(words) > 2 {
		a.Namespace, a.Name, _ = strings.Cut(words[2], "/")
	}
	if len(words) > 3 {
		a.FieldSelector = words[3]
	}
	return a
}

// expect compares the reason of a decision with want: "" is that it is allowed.
func (c *cluster) expect(node, asked, want string) {
	c.t.Helper()
	d := c.Decide(c.t.Context(), kubelet(node), wish(asked))
	if d.Denied || d.Allowed != (want == "") || !d.Allowed && d.Why() != want && want != "?" {
		c.t.Errorf("%s %s: allowed %v, denied %v, %q; want %q", node, asked, d.Allowed, d.Denied, d.Why(), want)
	}
}

const unrelated = "no relationship found between node 'a' and this object"

// everything is the spec of a pod that refers to all that a kubelet may read.
const everything = `serviceAccountName: robot, imagePullSecrets: [{name: pull}],
  initContainers: [{name: i, envFrom: [{secretRef: {name: initenv}}, {configMapRef: {name: initmap}}]}],
  containers: [{name: c, env: [{name: A, valueFrom: {secretKeyRef: {name: env, key: k}}},
    {name: B, valueFrom: {configMapKeyRef: {name: envmap, key: k}}}]}],
  ephemeralContainers: [{name: e, envFrom: [{secretRef: {name: debug}}]}],
  resourceClaims: [{name: d, resourceClaimName: device}],
  volumes: [{name: v1, secret: {secretName: mounted}}, {name: v2, configMap: {name: mountedmap}},
    {name: v3, projected: {sources: [{secret: {name: projected}}, {configMap: {name: projectedmap}}]}},
    {name: v4, csi: {driver: d, nodePublishSecretRef: {name: csi}}}, {name: v5, persistentVolumeClaim: {claimName: claim}},
    {name: v6, ephemeral: {}}, {name: v7, azureFile: {secretName: azure}}, {name: v8, cephfs: {secretRef: {name: ceph}}},
    {name: v9, iscsi: {secretRef: {name: iscsi}}}, {name: va, rbd: {secretRef: {name: rbd}}},
    {name: vb, flexVolume: {secretRef: {name: flex}}}, {name: vc, cinder: {secretRef: {name: cinder}}},
    {name: vd, scaleIO: {secretRef: {name: scaleio}}}, {name: ve, storageos: {secretRef: {name: storageos}}}]`

func TestANodeMayReadWhatItsPodsNeed(t *testing.T) {
	c := newCluster(t)
	c.pod("p", "a", everything)
	c.put("persistentvolumes", "metadata: {name: pv}\nspec: {claimRef: {namespace: 'n', name: claim}, csi: {driver: d, "+
		"nodeStageSecretRef: {namespace: storage, name: stage}, controllerPublishSecretRef: {namespace: "+
		"storage, name: control}}}")
	for name := range strings.FieldsSeq("pull initenv env debug mounted projected csi azure ceph iscsi rbd flex cinder scaleio " +
		"storageos") {
		c.expect("a", "get secrets n/"+name, "")
		c.expect("b", "get secrets n/"+name, "?")
		c.expect("a", "get secrets other/"+name, unrelated)
	}
	for name := range strings.FieldsSeq("initmap envmap mountedmap projectedmap") {
		c.expect("a", "watch configmaps n/"+name, "")
		c.expect("b", "watch configmaps n/"+name, "?")
	}
	for _, asked := range []string{
		"get pods n/p", "get serviceaccounts n/robot", "create serviceaccounts/token n/robot",
		"get persistentvolumeclaims n/claim", "get persistentvolumeclaims n/p-v6", "patch persistentvolumeclaims/status n/claim",
		"get persistentvolumes /pv", "get secrets storage/stage", "get resourceclaims.resource.k8s.io n/device",
	} {
		c.expect("a", asked, "")
		c.expect("b", asked, "?")
	}
	c.expect("a", "get secrets storage/control", unrelated)

	c.remove("pods", wire.Key{Namespace: "n", Name: "p"})
	for _, asked := range []string{
		"get pods n/p", "get secrets n/pull", "get secrets storage/stage", "get persistentvolumes /pv",
		"get serviceaccounts n/robot",
	} {
		c.expect("a", asked, unrelated)
	}
}

func TestRightsFollowEveryChangeOfPodsAndVolumes(t *testing.T) {
	c := newCluster(t)
	const one, both = `imagePullSecrets: [{name: s}]`, `imagePullSecrets: [{name: s}], serviceAccountName: x`
	c.pod("p", "", one)
	c.expect("a", "get secrets n/s", unrelated)
	c.pod("p", "a", one)
	c.expect("a", "get secrets n/s", "")
	c.pod("q", "a", both)
	c.expect("a", "get serviceaccounts n/x", "")
	c.remove("pods", wire.Key{Namespace: "n", Name: "p"})
	c.expect("a", "get secrets n/s", "") // q still needs it
	c.pod("q", "b", both)                // a pod of the same name, of which the end of the first was not seen
	c.expect("a", "get secrets n/s", unrelated)
	c.expect("b", "get secrets n/s", "")

	c.pod("r", "a", `volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]`)
	volume := func(claim, secret string) {
		c.put("persistentvolumes", "metadata: {name: pv}\nspec: {claimRef: {namespace: 'n', name: "+claim+
			"}, iscsi: {secretRef: {name: "+secret+"}}}")
	}
	c.expect("a", "get secrets n/disk", unrelated)
	volume("c", "disk")
	c.expect("a", "get secrets n/disk", "")
	volume("c", "other")
	c.expect("a", "get secrets n/disk", unrelated)
	volume("d", "other")
	c.expect("a", "get secrets n/other", unrelated)
	c.expect("a", "get persistentvolumes /pv", unrelated)
	volume("c", "disk")
	c.remove("persistentvolumes", wire.Key{Name: "pv"})
	c.expect("a", "get secrets n/disk", unrelated)
}

func TestAMirrorPodGivesNoRights(t *testing.T) {
	c := newCluster(t)
	c.put("pods", `{metadata: {name: m, namespace: 'n', annotations: {kubernetes.io/config.mirror: x}},
		spec: {nodeName: a, serviceAccountName: robot, imagePullSecrets: [{name: s}]}}`)
	c.expect("a", "get pods n/m", "")
	c.expect("a", "get secrets n/s", unrelated)
	c.expect("a", "create serviceaccounts/token n/robot", unrelated)
}

func TestADeviceOfATemplateIsThatOfTheStatus(t *testing.T) {
	c := newCluster(t)
	c.put("pods", `{metadata: {name: p, namespace: 'n'},
		spec: {nodeName: a, resourceClaims: [{name: one, resourceClaimTemplateName: t}, {name: two,`+
		` resourceClaimTemplateName: t}]},
		status: {resourceClaimStatuses: [{name: one, resourceClaimName: p-one}, {name: two}],
		extendedResourceClaimStatus: {resourceClaimName: extended}}}`)
	c.expect("a", "get resourceclaims.resource.k8s.io n/p-one", "")
	c.expect("a", "get resourceclaims.resource.k8s.io n/extended", "")
	c.expect("a", "get resourceclaims.resource.k8s.io n/t", unrelated)
}

func TestReasonsAreUpstreams(t *testing.T) {
	c := newCluster(t)
	c.put("resourceslices.resource.k8s.io", "metadata: {name: mine}\nspec: {nodeName: a}")
	c.put("volumeattachments.storage.k8s.io", "metadata: {name: mine}\nspec: {nodeName: a}")
	c.put("podcertificaterequests.certificates.k8s.io", "metadata: {name: mine, namespace: 'n'}\nspec: {nodeName: a}")
	for asked, want := range map[string]string{
		"get services n/s":              "",
		"get endpoints n/s":             "", // by no rule here
		"create secrets n/":             "can only read resources of this type",
		"get secrets/status n/s":        "cannot read subresource",
		"list secrets":                  "can only read namespaced object of this type",
		"list secrets n/":               "No Object name found",
		"get secrets n/s":               unrelated,
		"list persistentvolumes":        "can only get individual resources of this type",
		"get persistentvolumes/x /v":    "cannot get subresource",
		"get persistentvolumes /v":      unrelated,
		"get persistentvolumeclaims n/": "No Object name found",

		"get persistentvolumeclaims/status n/c": "can only get/update/patch this type",
		"list serviceaccounts n/":               "can only create tokens for individual service accounts",
		"create serviceaccounts n/x":            "can only create token subresource of serviceaccount",
		"create serviceaccounts/token n/x":      unrelated,

		"create leases.coordination.k8s.io kube-node-lease/":  "",
		"update leases.coordination.k8s.io kube-node-lease/a": "",
		"update leases.coordination.k8s.io kube-node-lease/b": "can only access node lease with the same name as " +
			"the requesting node",
		"get leases.coordination.k8s.io n/a":               `can only access leases in the "kube-node-lease" system namespace`,
		"list leases.coordination.k8s.io kube-node-lease/": "can only get, create, update, patch, or delete a node lease",

		"create csinodes.storage.k8s.io":          "",
		"patch csinodes.storage.k8s.io /a":        "",
		"patch csinodes.storage.k8s.io /b":        "can only access CSINode with the same name as the requesting node",
		"list csinodes.storage.k8s.io":            "can only get, create, update, patch, or delete a CSINode",
		"patch csinodes.storage.k8s.io/status /a": "CSINode status access requires CSIVolumeHealth feature",
		"patch csinodes.storage.k8s.io/x /a":      "cannot authorize CSINode subresources",

		"get volumeattachments.storage.k8s.io /mine":   "",
		"get volumeattachments.storage.k8s.io /theirs": unrelated,

		"create resourceslices.resource.k8s.io":                               "",
		"delete resourceslices.resource.k8s.io /mine":                         "",
		"get resourceslices.resource.k8s.io /theirs":                          unrelated,
		"deletecollection resourceslices.resource.k8s.io / spec.nodeName=a":   "",
		"list resourceslices.resource.k8s.io / spec.driver=x,spec.nodeName=a": "",
		"list resourceslices.resource.k8s.io / spec.nodeName=b": "can only list/watch/deletecollection resourceslices " +
			"with nodeName field selector",
		"get resourceslices.resource.k8s.io/status /mine": "cannot authorize ResourceSlice subresources",

		"create podcertificaterequests.certificates.k8s.io n/":                "",
		"get podcertificaterequests.certificates.k8s.io n/mine":               "",
		"get podcertificaterequests.certificates.k8s.io n/x":                  unrelated,
		"watch podcertificaterequests.certificates.k8s.io / spec.nodeName==a": "",
		"watch podcertificaterequests.certificates.k8s.io": "can only list/watch podcertificaterequests with nodeName " +
			"field selector",
		"delete podcertificaterequests.certificates.k8s.io n/mine": "nodes may not delete podcertificaterequests",
		"update podcertificaterequests.certificates.k8s.io/status n/mine": "nodes may not access the status subresource of " +
			"PodCertificateRequests",

		"create nodes":              "",
		"get nodes /a":              "",
		"get nodes /b":              "node 'a' cannot read 'b', only its own Node object",
		"list nodes":                "node 'a' cannot read all nodes, only its own Node object",
		"patch nodes/status /b":     "", // NodeRestriction refuses it
		"create nodes/proxy /a":     "",
		"create pods n/":            "",
		"delete pods n/p":           "",
		"update pods n/p":           "",
		"get pods n/p":              unrelated,
		"list pods":                 "can only list/watch pods with spec.nodeName field selector",
		"list pods / spec.nodeName": "can only list/watch pods with spec.nodeName field selector",
		"watch pods n/p":            unrelated,
		"create pods/eviction n/p":  "",
		"create pods/binding n/p":   "",

		"list pods / spec.nodeName=a,status.phase=Running": "",
		"list pods / spec.nodeName!=a":                     "can only list/watch pods with spec.nodeName field selector",
	} {
		switch asked {
		case "get endpoints n/s", "create nodes/proxy /a", "update pods n/p", "create pods/binding n/p": // no opinion, no reason
			if d := c.Decide(t.Context(), kubelet("a"), wish(asked)); d.Allowed || d.Why() != "" {
				t.Errorf("%s: %v %q", asked, d.Allowed, d.Why())
			}
		default:
			c.expect("a", asked, want)
		}
	}
	c.expect("", "get secrets n/s", `unknown node for user "system:node:"`)
}

func TestWhoIsNoKubeletGetsNoOpinion(t *testing.T) {
	c := newCluster(t)
	for _, u := range []user.Info{
		&user.DefaultInfo{Name: "system:node:a"},
		&user.DefaultInfo{Name: "a", Groups: []string{user.NodesGroup}},
	} {
		if d := c.Decide(t.Context(), u, wish("get services n/s")); d.Allowed || d.Denied || d.Why() != "" {
			t.Errorf("%v: %v", u, d)
		}
		if rules, err := c.Rules(t.Context(), u, "n"); err != nil || rules.Incomplete {
			t.Errorf("%v: %v %v", u, rules, err)
		}
	}
	if rules, err := c.Rules(t.Context(), kubelet("a"), "n"); err == nil || !rules.Incomplete {
		t.Errorf("the rules of a kubelet: %v %v", rules, err)
	}
}
