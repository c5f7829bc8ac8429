package controllers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpstreamsControllersRunUnmodified makes the claims in a cluster in which the server's
// own controllers run, and in one in which it leaves all their work to
// kube-controller-manager.
func TestUpstreamsControllersRunUnmodified(t *testing.T) {
	bin := build(t)
	for name, start := range map[string]func(*testing.T) *cluster{
		"own controllers": func(t *testing.T) *cluster {
			return startCluster(t, bin, "*,"+impossible+","+ownControllers, "--bootstrap=cluster")
		},
		"upstream's only": func(t *testing.T) *cluster {
			return startCluster(t, bin, "*,"+impossible, "--bootstrap=server",
				"--controllers=-garbage-collector-controller,-namespace-controller")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			c.kubectl(t, "apply --filename=testdata/nodes.yaml")
			c.kubectl(t, "wait node/a node/b --for=condition=Ready --timeout=5m")
			t.Run("claims", func(t *testing.T) { c.claims(t) })
			for _, p := range c.programs {
				p.stop(t)
			}
			c.checkLogs(t)
		})
	}
}

// For kube-controller-manager's --controllers; docs/operators.md gives the reasons.
const (
	// impossible turns off the controllers for which the server lacks something.
	impossible = "-legacy-serviceaccount-token-cleaner-controller"
	// ownControllers turns off those whose work the server does.
	ownControllers = "-garbage-collector-controller,-namespace-controller,-resourcequota-controller," +
		"-persistentvolumeclaim-protection-controller,-persistentvolume-protection-controller," +
		"-volumeattributesclass-protection-controller,-serviceaccount-controller," +
		"-root-ca-certificate-publisher-controller,-clusterrole-aggregation-controller"
)

// claims makes each claim in a namespace of its own.
func (c *cluster) claims(t *testing.T) {
	t.Helper()
	for namespace, claim := range map[string]func(*testing.T, func(string) string){
		"rollout": c.deploymentsRollOut, "budget": c.budgetsBlockEvictions, "jobs": c.jobsComplete, "sets": c.setsGetReady,
		"foreground": c.deletionInTheForegroundWaits, "gone": c.namespacesGoWithTheirContent, "types": c.policiesAreTypeChecked,
		"storage": c.storageStaysWhileItIsUsed,
	} {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			c.kubectl(t, "create namespace "+namespace)
			claim(t, func(line string) string {
				t.Helper()
				return c.kubectl(t, "--namespace="+namespace+" "+line)
			})
		})
	}
}

// printed fails the test if kubectl has not printed what it should.
func printed(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("kubectl prints %q, want %q", got, want)
	}
}

const (
	status = "rollout status deployment/web --timeout=5m"
	images = "get pods --selector=app=web --field-selector=status.phase=Running " +
		"--output=jsonpath={.items[*].spec.containers[0].image}"
)

func (c *cluster) deploymentsRollOut(t *testing.T, kubectl func(string) string) {
	kubectl("apply --filename=testdata/web.yaml")
	if out := kubectl(status); !strings.HasSuffix(out, `deployment "web" successfully rolled out`) {
		t.Errorf("rollout status ends with %s", out)
	}
	printed(t,
		kubectl(
			"get deployment web --no-headers "+
				"--output=custom-columns=R:.status.replicas,U:.status.updatedReplicas,A:.status.availableReplicas"),
		"3     3     3")
	kubectl("scale deployment/web --replicas=5")
	kubectl(status)
	printed(t, kubectl("get deployment web --output=jsonpath={.status.availableReplicas}"), "5")
	c.becomes(t,
		"--namespace=rollout get endpointslices --selector=kubernetes.io/service-name=web "+
			"--output=jsonpath={.items[*].endpoints[*].conditions.ready}",
		"true true true true true")
	kubectl("set image deployment/web web=example.org/web:2")
	kubectl(status)
	c.becomes(t, "--namespace=rollout "+images, strings.TrimSpace(strings.Repeat("example.org/web:2 ", 5)))
	printed(t,
		kubectl("get replicasets --selector=app=web --sort-by=.spec.replicas --output=jsonpath={.items[*].status.readyReplicas}"),
		"5")
	kubectl("rollout undo deployment/web")
	kubectl(status)
	c.becomes(t, "--namespace=rollout "+images, strings.TrimSpace(strings.Repeat("example.org/web:1 ", 5)))
	kubectl("rollout restart deployment/web")
	kubectl(status)
	kubectl("delete deployment/web") // in the background
	kubectl("wait pods,replicasets --selector=app=web --for=delete --timeout=5m")
}

// policiesAreTypeChecked waits for the status of a policy, which is about no pods here: nothing
// binds it.
func (c *cluster) policiesAreTypeChecked(t *testing.T, kubectl func(string) string) {
	kubectl("apply --filename=testdata/policy.yaml")
	c.becomes(t, "get validatingadmissionpolicy replicas --output=jsonpath={.status.observedGeneration}", "1")
	printed(t,
		kubectl("get validatingadmissionpolicy replicas --output=jsonpath={.status.typeChecking.expressionWarnings[*].fieldRef}"),
		"spec.validations[0].expression")
}

func (c *cluster) budgetsBlockEvictions(t *testing.T, kubectl func(string) string) {
	kubectl("apply --filename=testdata/web.yaml --filename=testdata/budget.yaml")
	kubectl(status)
	c.becomes(t,
		"--namespace=budget get poddisruptionbudget web --output=jsonpath={.status.currentHealthy}/{.status.desiredHealthy}",
		"3/3")
	pod := kubectl("get pods --output=jsonpath={.items[0].metadata.name}")
	file := filepath.Join(t.TempDir(), "eviction.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, pod),
		0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	evict := "create --raw=/api/v1/namespaces/budget/pods/" + pod + "/eviction --filename=" + file
	if out := c.refused(t, evict); !strings.Contains(out, "Cannot evict pod as it would violate the pod's disruption budget.") {
		t.Errorf("an eviction is refused with %s", out)
	}
	kubectl("scale deployment/web --replicas=4")
	kubectl(status)
	c.becomes(t, "--namespace=budget get poddisruptionbudget web --output=jsonpath={.status.disruptionsAllowed}", "1")
	c.kubectl(t, evict)
	kubectl("wait pod/" + pod + " --for=delete --timeout=5m")
	kubectl(status) // there is another one
}

// storageStaysWhileItIsUsed has a claim that upstream's binder binds to a volume, and a pod that uses it. In one of the
// clusters the server protects them, in the other kube-controller-manager does.
func (c *cluster) storageStaysWhileItIsUsed(t *testing.T, kubectl func(string) string) {
	const finalizers = " --output=jsonpath={.metadata.finalizers}"
	const unused = ` --output=jsonpath={.status.conditions[?(@.type=="Unused")].reason}`
	kubectl("apply --filename=testdata/storage.yaml")
	kubectl("wait persistentvolumeclaim/data --for=jsonpath={.status.phase}=Bound --timeout=5m")
	kubectl("wait pod/user --for=condition=Ready --timeout=5m")
	c.becomes(t, "--namespace=storage get persistentvolumeclaim data"+finalizers, `["kubernetes.io/pvc-protection"]`)
	c.becomes(t, "get persistentvolume storage-data"+finalizers, `["kubernetes.io/pv-protection"]`)
	c.becomes(t, "get volumeattributesclass storage"+finalizers, `["kubernetes.io/vac-protection"]`)
	c.becomes(t, "--namespace=storage get persistentvolumeclaim data"+unused, "PodUsingPVC")
	kubectl("delete persistentvolumeclaim/data persistentvolume/storage-data --wait=false")
	kubectl("delete volumeattributesclass/storage --wait=false")
	kubectl("delete persistentvolumeclaim/free --timeout=5m") // no pod uses it
	kubectl("wait volumeattributesclass/storage --for=delete --timeout=5m")
	printed(t, kubectl("get persistentvolumeclaim data"+finalizers), `["kubernetes.io/pvc-protection"]`)
	printed(t, kubectl("get persistentvolume storage-data"+finalizers), `["kubernetes.io/pv-protection"]`)
	kubectl("delete pod/user --timeout=5m")
	kubectl("wait persistentvolumeclaim/data --for=delete --timeout=5m")
	kubectl("wait persistentvolume/storage-data --for=delete --timeout=5m")
}

func (c *cluster) jobsComplete(t *testing.T, kubectl func(string) string) {
	kubectl("apply --filename=testdata/job.yaml")
	kubectl("wait job/sum --for=condition=Complete --timeout=5m")
	printed(t, kubectl("get job sum --output=jsonpath={.status.succeeded}"), "3")
	kubectl("wait job/short --for=delete --timeout=5m") // its time to live is over
	kubectl("delete job sum")
	kubectl("wait pods --selector=batch.kubernetes.io/job-name=sum --for=delete --timeout=5m")
}

func (c *cluster) setsGetReady(t *testing.T, kubectl func(string) string) {
	kubectl("apply --filename=testdata/sets.yaml")
	kubectl("rollout status daemonset/agent --timeout=5m")
	kubectl("rollout status statefulset/db --timeout=5m")
	printed(t, kubectl("get pods --selector=app=agent --sort-by=.spec.nodeName --output=jsonpath={.items[*].spec.nodeName}"),
		"a b")
	printed(t, kubectl("get pods --selector=app=db --sort-by=.metadata.name --output=jsonpath={.items[*].metadata.name}"),
		"db-0 db-1")
	kubectl("set image statefulset/db db=example.org/db:2")
	kubectl("rollout status statefulset/db --timeout=5m")
	kubectl("rollout undo daemonset/agent --to-revision=1")
}

func (c *cluster) deletionInTheForegroundWaits(t *testing.T, kubectl func(string) string) {
	kubectl("apply --filename=testdata/web.yaml")
	kubectl(status)
	pod := kubectl("get pods --output=jsonpath={.items[0].metadata.name}")
	kubectl("patch pod " + pod + ` --patch={"metadata":{"finalizers":["example.org/hold"]}}`)
	kubectl("delete deployment/web --cascade=foreground --wait=false")
	kubectl("wait pod/" + pod + " --for=jsonpath={.metadata.deletionTimestamp} --timeout=5m")
	printed(t, kubectl("get deployment,replicaset --output=jsonpath={.items[*].metadata.finalizers[*]}"),
		"foregroundDeletion foregroundDeletion")
	kubectl("patch pod " + pod + ` --type=merge --patch={"metadata":{"finalizers":null}}`)
	kubectl("wait deployment/web pod/" + pod + " --for=delete --timeout=5m")
	printed(t, kubectl("get all --selector=app=web --output=name"), "")
	// Orphans stay.
	kubectl("apply --filename=testdata/web.yaml")
	kubectl(status)
	kubectl("delete deployment/web --cascade=orphan")
	printed(t, kubectl("get replicaset --output=jsonpath={.items[*].metadata.ownerReferences}{.items[*].status.replicas}"), "3")
}

func (c *cluster) namespacesGoWithTheirContent(t *testing.T, kubectl func(string) string) {
	kubectl(
		"apply --filename=testdata/web.yaml --filename=testdata/sets.yaml --filename=testdata/job.yaml " +
			"--filename=testdata/budget.yaml")
	kubectl(status)
	kubectl("delete namespace gone --timeout=5m")
	if out := kubectl("get all,poddisruptionbudgets,configmaps,endpointslices --output=name"); out != "" {
		t.Errorf("of the namespace these are left: %s", out)
	}
}
