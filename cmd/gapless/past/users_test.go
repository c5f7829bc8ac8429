package past_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
)

// audited is a server with an audit log.
func audited(t *testing.T, level string) (s *gaplesstest.Server, log string) {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy,
		[]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: "+level+"}]"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	return gaplesstest.New(t, gaplesstest.Config(func(c *gapless.Config) {
		c.Audit = gapless.Audit{PolicyFile: policy, LogPath: log}
	})), log
}

func TestTheAuditLogSaysWhichUserItWas(t *testing.T) {
	s, log := audited(t, "Metadata")
	jane := newRig(t, s.User(t, "jane", "system:masters"))
	as := rest.CopyConfig(jane.cfg)
	as.Impersonate = rest.ImpersonationConfig{UserName: "robot", Groups: []string{"system:masters"}}
	robot, joe := newRig(t, as), newRig(t, s.User(t, "joe", "system:masters"))
	jane.apply("kubectl", deployments+"/web", web)
	joe.merge("kubectl", deployments+"/web/scale", `{"spec":{"replicas":5}}`)
	jane.merge("x", deployments+"/web/status", `{"status":{"replicas":4}}`)
	joe.merge("x", deployments+"/web/status", `{"status":{"replicas":5}}`)
	if _, err := joe.client.AppsV1().Deployments("default").Patch(t.Context(), "web", "application/merge-patch+json",
		[]byte(`{"spec":{"replicas":9}}`), metav1.PatchOptions{DryRun: []string{"All"}}); err != nil {
		t.Fatalf("a dry run: %v", err)
	}
	joe.merge("kubectl", deployments+"/web", `{"spec":{"replicas":5}}`) // which it has already
	robot.merge("r", deployments+"/web", `{"spec":{"replicas":6}}`)
	if err := jane.client.AppsV1().Deployments("default").Delete(t.Context(), "web", metav1.DeleteOptions{
		DryRun: []string{"All"},
	}); err != nil {
		t.Fatalf("a dry run: %v", err)
	}
	joe.remove(deployments + "/web")
	const want = `TIME RESOURCEVERSION BY CHANGE
# # joe deleted
# # robot (jane): r (Update) spec.replicas 5→6
# # joe, jane: x (Update status) 2 status changes, the first at #
# # joe: kubectl (Update scale) spec.replicas 3→5
# # jane: kubectl (Apply) created
`
	if diff := cmp.Diff(want, general(jane.shows("history", "deploy/web", "--audit-log", log))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	all := documents(t, jane.shows("history", "deploy/web", "--audit-log", log, "-o", "json"))
	if diff := cmp.Diff([]any{"joe"}, all[0]["users"]); diff != "" {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
	jane.apply("kubectl", deployments+"/web", web)
	joe.merge("kubectl", deployments+"/web/scale", `{"spec":{"replicas":5}}`)
	lines := general(jane.shows("blame", "deploy/web", "--audit-log", log))
	if !strings.Contains(lines, "# joe: kubectl (Update scale) | replicas: 5") ||
		!strings.Contains(lines, "# jane: kubectl (Apply) | - image: web:1") {
		t.Errorf("the users of lines:\n%s", lines)
	}
	for _, d := range documents(t, jane.shows("blame", "deploy/web", "--audit-log", log, "-o", "json")) {
		if users, _ := d["users"].([]any); strings.Contains(d["line"].(string), "replicas: 5") &&
			(len(users) != 1 || users[0] != "joe") {
			t.Errorf("the user of a line as JSON: %v", d)
		}
	}
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	if n := strings.Count(string(raw), `"gapless.io/resource-version":"1000`); n < 6 ||
		strings.Contains(string(raw), `version":"0"`) {
		t.Errorf("%d events have the annotation", n)
	}

	other := filepath.Join(t.TempDir(), "other.log")
	if err := os.WriteFile(other, []byte("\n2026-11-27T14:00:00Z AUDIT: id=…\n"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	jane.fails("line 2 is no audit event in JSON", "history", "deploy/web", "--audit-log", other)
	jane.fails("no such file", "history", "deploy/web", "--audit-log", other+"er")
	jane.fails("line 2 is no audit event in JSON", "blame", "deploy/web", "--audit-log", other)
}

// TestTheUpstreamsAuditLogServesARelay: kube-apiserver does not write our annotation, but may record the answers.
func TestTheUpstreamsAuditLogServesARelay(t *testing.T) {
	upstream, log := audited(t, "RequestResponse")
	jane := newRig(t, upstream.User(t, "jane", "system:masters"))
	relayed := newRig(t, relay(t, upstream))
	relayed.shows("history", "cm")
	jane.apply("a", configMaps+"/x", configMap("x", "1"))
	jane.merge("b", configMaps+"/x", `{"data":{"a":"2"}}`)
	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatalf("read the log: %v", err)
	}
	foreign := strings.ReplaceAll(string(raw), `"gapless.io/`, `"example.com/`) + `{"kind":"Event","being":"wri`
	log = filepath.Join(t.TempDir(), "foreign.log")
	if err := os.WriteFile(log, []byte(foreign), 0o600); err != nil {
		t.Fatalf("write the log: %v", err)
	}
	if out := relayed.shows("history", "cm/x", "--audit-log", log); strings.Count(out, " jane: ") != 2 {
		t.Errorf("got\n%s", out)
	}
}

// TestTheAuditLogNamesTheUserOfEachChangeOfARequest has requests that make several changes, or changes of another resource
// than their path names: deletions of collections and in two steps, evictions and bindings.
func TestTheAuditLogNamesTheUserOfEachChangeOfARequest(t *testing.T) {
	s, log := audited(t, "Metadata")
	jane, joe := newRig(t, s.User(t, "jane", "system:masters")), newRig(t, s.User(t, "joe", "system:masters"))
	jane.create(t.Context(), 40, "1")
	jane.merge("x", configMaps+"/c007", `{"metadata":{"finalizers":["example.com/held"]}}`)
	jane.apply("x", configMaps+"/kept", strings.Replace(configMap("kept", "1"), `"name"`, `"labels":{"kept":"yes"},"name"`, 1))
	if err := joe.client.CoreV1().ConfigMaps("default").DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "!kept"}); err != nil {
		t.Fatalf("delete the collection: %v", err)
	}
	out := jane.shows("history", "configmaps", "--audit-log", log)
	if n := strings.Count(general(out), " joe deleted\n"); n != 39 {
		t.Errorf("%d deletions name their user, want 39:\n%s", n, out)
	}
	if !strings.Contains(general(out), " c007 joe +metadata.deletionGracePeriodSeconds") {
		t.Errorf("who marked the held object is not named:\n%s", out)
	}

	pods := jane.client.CoreV1().Pods("default")
	for _, name := range []string{"evicted", "bound", "bound-otherwise"} {
		jane.apply("x", "/api/v1/namespaces/default/pods/"+name, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+
			`"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	}
	if err := joe.client.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: "default"},
	}); err != nil {
		t.Fatalf("evict a pod: %v", err)
	}
	binding := func(name string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	}
	if err := joe.client.CoreV1().Pods("default").Bind(t.Context(), binding("bound"), metav1.CreateOptions{}); err != nil {
		t.Fatalf("bind a pod: %v", err)
	}
	if err := joe.client.CoreV1().RESTClient().Post().Namespace("default").Resource("bindings").
		Body(binding("bound-otherwise")).Do(t.Context()).Error(); err != nil {
		t.Fatalf("bind a pod: %v", err)
	}
	if err := pods.Delete(t.Context(), "bound", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatalf("delete a pod: %v", err)
	}
	const want = `TIME RESOURCEVERSION NAME BY CHANGE
# # bound jane deleted
# # bound jane +metadata.deletionGracePeriodSeconds 0, +metadata.deletionTimestamp #
# # bound-otherwise joe +spec.nodeName n, +status.conditions
# # bound joe +spec.nodeName n, +status.conditions
# # evicted joe deleted
# # evicted joe +metadata.deletionGracePeriodSeconds 0, +metadata.deletionTimestamp #
# # evicted joe +status.conditions
# # bound-otherwise jane: x (Apply) created
# # bound jane: x (Apply) created
# # evicted jane: x (Apply) created
`
	all := general(jane.shows("history", "pods", "--audit-log", log, "--status"))
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestUsersOfDeletionsAreNotGuessed has a log of kube-apiserver, whose answers name the resourceVersion, and one of a server
// that has not named all changes of a collection.
func TestUsersOfDeletionsAreNotGuessed(t *testing.T) {
	_, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.remove(configMaps + "/x")
	gone := documents(t, r.shows("history", "cm/x", "-o", "json", "--limit", "1"))[0]
	rv, _ := gone["resourceVersion"].(string)
	at, err := time.Parse(time.RFC3339, gone["time"].(string))
	if err != nil || rv == "" || gone["type"] != "DELETED" {
		t.Fatalf("the newest change is %v, %v", gone, err)
	}
	log := filepath.Join(t.TempDir(), "audit.log")
	for want, event := range map[string]string{
		"joe  deleted": `"verb":"delete","responseObject":{"metadata":{"resourceVersion":"` + rv + `"}},` +
			`"requestReceivedTimestamp":"` + at.Add(-time.Minute).Format(time.RFC3339) + `"`,
		// A request that changed nothing is answered with the version of an earlier change.
		"-  deleted": `"verb":"delete","responseObject":{"metadata":{"resourceVersion":"` + rv + `"}},` +
			`"requestReceivedTimestamp":"` + at.Add(time.Minute).Format(time.RFC3339) + `"`,
		"has 3 changes of configmaps without saying which": `"verb":"deletecollection",` +
			`"annotations":{"gapless.io/resource-version":"7,+3"}`,
	} {
		line := `{"kind":"Event","stage":"ResponseComplete","user":{"username":"joe"},"objectRef":{"resource":"configmaps"},` +
			event + "}\n"
		if err := os.WriteFile(log, []byte(line), 0o600); err != nil {
			t.Fatalf("write the log: %v", err)
		}
		out, stderr, err := r.run("history", "cm/x", "--audit-log", log)
		if err != nil || !strings.Contains(regexp.MustCompile(" +deleted").ReplaceAllString(out, "  deleted")+stderr, want) {
			t.Errorf("%s: %v, %q is not in\n%s%s", event, err, want, out, stderr)
		}
	}
}
