package seed_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// patch changes an object as another client does.
func (s *server) patch(namespace, resource, name, body string) {
	s.t.Helper()
	group, plural := "", resource
	if plural == "deployments" {
		group = "apps"
	}
	r, _ := s.live.Load().Storage(kinds.GroupResource{Group: group, Resource: plural})
	_, err := s.Patch(context.WithoutCancel(s.t.Context()), kinds.Target{Resource: r, Namespace: namespace, Name: name},
		wire.Patch{
			Type: types.MergePatchType, Body: []byte(body),
		}, metav1.PatchOptions{FieldManager: "other"})
	if err != nil {
		s.t.Fatalf("patch: %v", err)
	}
}

// has claims what the text of an object contains, and what it does not, which begins with "!".
func (s *server) has(o *wire.Object, wants ...string) {
	s.t.Helper()
	if o == nil {
		s.t.Fatal("the object is not there")
	}
	for _, want := range wants {
		text, unwanted := strings.CutPrefix(want, "!")
		if strings.Contains(string(o.JSON()), text) == unwanted {
			s.t.Errorf("want %s in %s", want, o.JSON())
		}
	}
}

func TestManifestTakesItsFieldsAndLeavesThoseOfOthers(t *testing.T) {
	s := start(t)
	dir := write(t, "a.yaml", configMap("default", "settings", "old"))
	s.must(dir, 1, 0, 0)
	s.patch("default",
		"configmaps", "settings", `{"metadata":{"labels":{"by":"controller"}},"data":{"more":"kept","key":"theirs"}}`)
	s.must(dir, 0, 1, 0) // although the directory is the same: the manifest counts
	s.has(s.find("", "configmaps", "default", "settings"), `"key":"old"`, `"more":"kept"`, `"by":"controller"`,
		`"manager":"gapless","operation":"Apply"`)
	s.must(dir, 0, 0, 1)
}

func TestWhatAManifestNoLongerHasGoesAway(t *testing.T) {
	s := start(t)
	two := strings.Replace(configMap("default", "settings", "x"), "\ndata:", "\ndata:\n  second: v\n  third: w", 1)
	s.must(write(t, "a.yaml", two), 1, 0, 0)
	s.patch("default", "configmaps", "settings", `{"data":{"third":"theirs","fourth":"theirs"}}`)
	s.must(write(t, "a.yaml", configMap("default", "settings", "x")), 0, 1, 0)
	s.has(s.find("", "configmaps", "default", "settings"), `"key":"x"`, `!"second"`, `"third":"theirs"`, `"fourth":"theirs"`)
	// An object stays, as kubectl apply leaves it.
	s.must(write(t, "a.yaml", configMap("default", "else", "x")), 1, 0, 0)
	s.has(s.find("", "configmaps", "default", "settings"), `"key":"x"`)
}

// TestItemsOfListsMergeByTheirKey: a container that another client adds stays.
func TestItemsOfListsMergeByTheirKey(t *testing.T) {
	s := start(t)
	s.must(write(t, "a.yaml", shop+"---\n"+deployment), 2, 0, 0)
	s.patch("shop", "deployments", "web", `{"spec":{"replicas":5,"template":{"spec":{"containers":[
		{"name":"web","image":"nginx","ports":[{"containerPort":80}]},{"name":"sidecar","image":"theirs"}]}}}}`)
	s.must(write(t, "a.yaml", shop+"---\n"+strings.Replace(deployment, "image: nginx", "image: nginx:2", 1)), 0, 1, 1)
	s.has(s.find("apps", "deployments", "shop", "web"), `"image":"nginx:2"`, `"name":"sidecar"`, `"replicas":5`)
	s.must(write(t, "a.yaml", shop+"---\n"+strings.Replace(deployment, "spec:\n", "spec:\n  replicas: 2\n", 1)), 0, 1, 1)
	s.has(s.find("apps", "deployments", "shop", "web"), `"replicas":2`, `"name":"sidecar"`)
}

// TestSecondStartLeavesUnusualManifestsAlone: those that set nothing, have nulls and empty
// objects, numbers in other forms, fields that the server converts, and the default of a
// field.
func TestSecondStartLeavesUnusualManifestsAlone(t *testing.T) {
	s := start(t)
	dir := write(t, "a.yaml", strings.Join([]string{
		shop, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nothing}\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nulls, labels: null, annotations: {}, creationTimestamp: " +
			"null}\ndata: null\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: text}\nstringData: {a: b}\ndata: {c: ZA==}\n",
		"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: None, ports: [{name: a, port: 80, targetPort: " +
			"80, protocol: TCP}, {name: b, port: 80, protocol: UDP}]}\nstatus: {loadBalancer: {}}\n",
		`apiVersion: apps/v1
kind: Deployment
metadata: {name: web, creationTimestamp: null}
spec:
  strategy: {}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {creationTimestamp: null, labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx, resources: {limits: {cpu: 1000m, memory: 1024Mi}}, env: [{name: A, value: ""},` +
			` {name: B}]}]
      volumes: [{name: x, emptyDir: {}}]
status: {}
`,
		"apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: {cpu: 4000m}}\n",
		definition, strings.Replace(cronTab, "spec: {", "spec: {replicas: null, ", 1),
	}, "---\n"))
	s.must(dir, 9, 0, 0)
	before := s.revision()
	s.must(dir, 0, 0, 9)
	if after := s.revision(); after != before {
		t.Errorf("the second start wrote revisions %d to %d", before+1, after)
	}
	s.has(s.find("", "nodes", "", "n1"), `"cpu":"4"`)
}

// TestObjectsThatCannotBeTrackedAreMerged: of more fields than server-side apply takes.
func TestObjectsThatCannotBeTrackedAreMerged(t *testing.T) {
	var many strings.Builder
	many.WriteString(configMap("default", "large", "x"))
	for i := range 15_000 {
		fmt.Fprintf(&many, "  k%d: v\n", i)
	}
	s := start(t)
	dir := write(t, "a.yaml", many.String())
	s.must(dir, 1, 0, 0)
	s.must(dir, 0, 0, 1)
	s.must(write(t, "a.yaml", strings.Replace(many.String(), "key: x", "key: z", 1)), 0, 1, 0)
	s.has(s.find("", "configmaps", "default", "large"), `"key":"z"`, `"k14999":"v"`, "!managedFields")
}

// TestDuplicatesInCustomObjectsAreFoundBeforeTheirDefinitionIsThere: nothing is written.
func TestDuplicatesInCustomObjectsAreFoundBeforeTheirDefinitionIsThere(t *testing.T) {
	listed := strings.Replace(definition, "cron: {type: string}", `cron: {type: string}
              hosts:
                type: array
                x-kubernetes-list-type: set
                items: {type: string}`, 1)
	s := start(t)
	before := s.revision()
	_, problem := s.apply(write(t, "a.yaml",
		shop+"---\n"+listed+"---\n"+strings.Replace(cronTab, "spec: {", "spec: {hosts: [a, a], ", 1)))
	if !strings.Contains(problem, "CronTab shop/nightly: ") || !strings.Contains(problem, "uplicate") || s.revision() != before {
		t.Errorf("revision %d after %d: %s", s.revision(), before, problem)
	}
}
