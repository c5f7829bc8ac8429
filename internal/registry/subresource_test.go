package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

func pod(name string) string {
	return `{"metadata":{"name":"` + name + `","labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
}

// post sends a body to a subresource.
func (s *server) post(t kinds.Target, body string) (wire.Written, error) {
	s.t.Helper()
	return s.Create(s.t.Context(), t, []byte(body), metav1.CreateOptions{})
}

func TestPodIsBoundToANodeOnce(t *testing.T) {
	s := serve(t)
	for _, name := range []string{"a", "b", "gated", "deleting"} {
		s.create(s.at("pods", "default"), pod(name))
	}
	s.create(s.at("pods", "default"), strings.Replace(pod("gates"), `"spec":{`, `"spec":{"schedulingGates":[{"name":"g"}],`, 1))
	s.merge(s.at("pods", "default", "deleting"), `{"metadata":{"finalizers":["example.org/f"]}}`)
	s.delete(s.at("pods", "default", "deleting"))
	binding := func(name string) string {
		return `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"` + name +
			`","annotations":{"by":"me"}},"target":{"kind":"Node","name":"n"}}`
	}
	before := s.get(s.at("pods", "default", "a")).Generation()
	out, err := s.post(s.at("pods", "default", "a", "binding"), binding("a"))
	if err != nil || out.Status == nil || out.Status.Status != "Success" || !out.Created {
		t.Fatalf("binding: %+v, %v", out, err)
	}
	// The collection binds too, by the name in the body.
	if _, err := s.post(s.at("bindings", "default"), binding("b")); err != nil {
		t.Fatalf("binding by the collection: %v", err)
	}
	for _, name := range []string{"a", "b"} {
		o := s.get(s.at("pods", "default", name))
		conditions := fmt.Sprint(field(t, o, "status", "conditions"))
		if field(t, o, "spec", "nodeName") != "n" || field(t, o, "metadata", "annotations", "by") != "me" ||
			o.Generation() != before || field(t, o, "metadata", "managedFields") == nil ||
			!strings.Contains(conditions, "status:True type:PodScheduled") {
			t.Errorf("bound as %s", o.JSON())
		}
	}
	for name, want := range map[string]string{
		"a": `409 Conflict Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"`,
		"gates": `409 Conflict Operation cannot be fulfilled on pods/binding "gates": pod gates has non-empty ` +
			`.spec.schedulingGates`,
		"deleting": `409 Conflict Operation cannot be fulfilled on pods/binding "deleting": pod deleting is being deleted, ` +
			`cannot be assigned to a host`,
		"none": `404 NotFound pods "none" not found`,
	} {
		if _, err := s.post(s.at("pods", "default", name, "binding"), binding(name)); status(err) != want {
			t.Errorf("%s: %s\nwant %s", name, status(err), want)
		}
	}
	if _, err := s.post(s.at("pods", "default", "gated", "binding"),
		binding("other")); status(err) != "400 BadRequest name in URL does not match name in Binding object" {
		t.Errorf("another name: %s", status(err))
	}
}

func TestPOSTSubresourcesRefuseOtherVerbs(t *testing.T) {
	s := serve(t)
	s.create(s.at("pods", "default"), pod("p"))
	for _, name := range []string{"binding", "eviction", "nothing"} {
		at := s.at("pods", "default", "p", name)
		_, got := s.Get(t.Context(), at, "")
		_, put := s.Update(t.Context(), at, []byte(pod("p")), metav1.UpdateOptions{})
		_, patched := s.Patch(t.Context(), at, wire.Patch{Type: "application/merge-patch+json", Body: []byte(`{}`)},
			metav1.PatchOptions{})
		for verb, err := range map[string]error{"get": got, "update": put, "patch": patched} {
			if wire.StatusOf(err).Code != 404 {
				t.Errorf("%s %s: %v, want 404", verb, name, err)
			}
		}
	}
	if _, err := s.post(s.at("pods", "default", "p", "ephemeralcontainers"), pod("p")); wire.StatusOf(err).Code != 404 {
		t.Errorf("POST of ephemeral containers: %v, want 404", err)
	}
}

func TestEphemeralContainersCanOnlyBeAdded(t *testing.T) {
	s := serve(t)
	s.create(s.at("pods", "default"), pod("p"))
	at := s.at("pods", "default", "p", "ephemeralcontainers")
	s.merge(at,
		`{"metadata":{"labels":{"not":"taken"}},"spec":{"hostNetwork":true,"ephemeralContainers":[{"name":"shell","image":"busybox"}]}}`)
	o := s.get(at)
	if len(o.Labels()) != 1 || field(t, o, "spec", "hostNetwork") != nil ||
		!strings.Contains(string(o.JSON()), `"image":"busybox"`) {
		t.Errorf("the pod is %s", o.JSON())
	}
	for patch, want := range map[string]string{
		`[]`:                                 `existing ephemeral containers "shell" may not be removed`,
		`[{"name":"shell","image":"other"}]`: `existing ephemeral containers "shell" may not be changed`,
		`[{"name":"c","image":"i"}]`:         `spec.ephemeralContainers[0].name: Duplicate value: "c"`,
		`[{"name":"x"}]`:                     `spec.ephemeralContainers[0].image: Required value`,
		`[{"name":"x","image":"i","ports":[{"containerPort":1}]}]`: `spec.ephemeralContainers[0].ports: Forbidden: cannot be ` +
			`set for an Ephemeral Container`,
		`[{"name":"x","image":"i","targetContainerName":"nothing"}]`: `spec.ephemeralContainers[0].targetContainerName: ` +
			`Not found: "nothing"`,
	} {
		_, err := s.Patch(t.Context(), at,
			wire.Patch{Type: "application/merge-patch+json", Body: []byte(`{"spec":{"ephemeralContainers":` + patch + `}}`)},
			metav1.PatchOptions{})
		if got := status(err); !strings.HasPrefix(got, "422") || !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", patch, got, want)
		}
	}
	if _, err := s.post(s.at("pods", "default"),
		strings.Replace(pod("new"), `"spec":{`, `"spec":{"ephemeralContainers":[{"name":"x","image":"i"}],`,
			1)); !strings.Contains(status(err), "spec.ephemeralContainers: Forbidden: cannot be set on create") {
		t.Errorf("a pod that begins with one: %s", status(err))
	}
}

func TestFinalizeRemovesANamespace(t *testing.T) {
	s := serve(t)
	s.create(s.at("namespaces"), `{"metadata":{"name":"stuck"}}`)
	s.create(s.at("configmaps", "stuck"), `{"metadata":{"name":"held","finalizers":["example.org/held"]}}`)
	// The namespace itself does not let its finalizers be changed.
	if o := s.merge(s.at("namespaces", "", "stuck"),
		`{"spec":{"finalizers":["a.example.org/b"]}}`); !strings.Contains(string(o.JSON()), `"finalizers":["kubernetes"]`) {
		t.Errorf("after an update: %s", o.JSON())
	}
	at := s.at("namespaces", "", "stuck", "finalize")
	o := s.update(at,
		`{"metadata":{"name":"stuck"},"spec":{"finalizers":["kubernetes","example.org/more"]},"status":{"phase":"Terminating"}}`)
	if !strings.Contains(string(o.JSON()), `"finalizers":["kubernetes","example.org/more"]`) ||
		field(t, o, "status", "phase") != "Active" {
		t.Errorf("after finalize: %s", o.JSON())
	}
	s.delete(s.at("namespaces", "", "stuck"))
	s.update(at, `{"metadata":{"name":"stuck"},"spec":{"finalizers":[]}}`)
	if _, err := s.Get(t.Context(), s.at("namespaces", "", "stuck"), ""); wire.StatusOf(err).Code != 404 {
		t.Errorf("the namespace is still there: %v", err)
	}
}

func budget(allowed int) string {
	return fmt.Sprintf(
		`{"status":{"observedGeneration":1,"disruptionsAllowed":%d,"currentHealthy":2,"desiredHealthy":2,"expectedPods":3}}`,
		allowed)
}

// running is a pod that counts for its budget.
const running = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`

func eviction(name string) string {
	return `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"` + name + `"}}`
}

// TestABudgetMayAllowToEvictWhatIsNotReady although the application has too few healthy pods.
func TestABudgetMayAllowToEvictWhatIsNotReady(t *testing.T) {
	s := serve(t)
	s.create(s.at("policy/v1/poddisruptionbudgets", "default"), `{"metadata":{"name":"web"},
		"spec":{"minAvailable":2,"unhealthyPodEvictionPolicy":"AlwaysAllow","selector":{"matchLabels":{"app":"web"}}}}`)
	for _, name := range []string{"ready", "unready"} {
		s.create(s.at("pods", "default"), pod(name))
	}
	s.merge(s.at("pods", "default", "ready", "status"), running)
	s.merge(s.at("pods", "default", "unready", "status"), `{"status":{"phase":"Running"}}`)
	for name, want := range map[string]int32{"ready": 429, "unready": 0} {
		_, err := s.post(s.at("pods", "default", name, "eviction"), eviction(name))
		if code := int32(0); err != nil || want != 0 {
			if err != nil {
				code = wire.StatusOf(err).Code
			}
			if code != want {
				t.Errorf("%s: %v, want %d", name, err, want)
			}
		}
	}
}

// TestClaimsOfAPodStayUntilTheyAreEmptied: an old client leaves out what it does not know.
func TestClaimsOfAPodStayUntilTheyAreEmptied(t *testing.T) {
	s := serve(t)
	s.create(s.at("pods", "default"), `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}],
		"resourceClaims":[{"name":"gpu","resourceClaimName":"a"}]},"status":{"resourceClaimStatuses":[]}}`)
	at := s.at("pods", "default", "p", "status")
	s.merge(at, `{"status":{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"a"}]}}`)
	o := s.merge(at, `{"status":{"resourceClaimStatuses":null}}`)
	if !strings.Contains(string(o.JSON()), `"resourceClaimStatuses":[{`) {
		t.Errorf("without the list: %s", o.JSON())
	}
	if o := s.merge(at, `{"status":{"resourceClaimStatuses":[]}}`); strings.Contains(string(o.JSON()), "resourceClaimStatuses") {
		t.Errorf("with an empty list: %s", o.JSON())
	}
}

func TestEvictionRespectsTheDisruptionBudget(t *testing.T) {
	s := serve(t)
	s.create(s.at("policy/v1/poddisruptionbudgets", "default"),
		`{"metadata":{"name":"web"},"spec":{"minAvailable":2,"selector":{"matchLabels":{"app":"web"}}}}`)
	status1 := s.at("policy/v1/poddisruptionbudgets", "default", "web", "status")
	for _, name := range []string{"a", "pending", "done", "unready"} {
		s.create(s.at("pods", "default"), pod(name))
	}
	s.merge(s.at("pods", "default", "a", "status"), running)
	s.merge(s.at("pods", "default", "done", "status"), `{"status":{"phase":"Succeeded"}}`)
	s.merge(s.at("pods", "default", "unready", "status"), `{"status":{"phase":"Running"}}`)
	evict := func(name string) (wire.Written, error) {
		return s.post(s.at("pods", "default", name, "eviction"), eviction(name))
	}

	// Until the controller has set its status, a budget allows no eviction.
	_, err := evict("a")
	if e := wire.StatusOf(err); e.Code != 429 || e.Details.RetryAfterSeconds != 10 ||
		!strings.Contains(e.Details.Causes[0].Message, "still being processed") {
		t.Errorf("a new budget: %+v", e)
	}
	s.merge(status1, budget(0))
	_, err = evict("a")
	e := wire.StatusOf(err)
	if e.Code != 429 || e.Message != "Cannot evict pod as it would violate the pod's disruption budget." ||
		len(e.Details.Causes) != 1 ||
		e.Details.Causes[0].Type != "DisruptionBudget" ||
		e.Details.Causes[0].Message != "The disruption budget web needs 2 healthy pods and has 2 currently" {
		t.Errorf("an empty budget: %+v %+v", e, e.Details)
	}
	for _, name := range []string{"pending", "done", "unready"} { // they disrupt nothing
		if out, err := evict(name); err != nil || out.Status == nil || !out.Created {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
		if _, err := s.Get(t.Context(), s.at("pods", "default", name), ""); wire.StatusOf(err).Code != 404 {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	s.merge(status1, budget(1))
	if _, err := s.Create(t.Context(), s.at("pods", "default", "a", "eviction"), []byte(eviction("a")), metav1.CreateOptions{
		DryRun: []string{"All"},
	}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if field(t, s.get(status1), "status", "disruptionsAllowed") != 1.0 {
		t.Error("a dry run has spent a disruption")
	}
	if _, err := evict("a"); err != nil {
		t.Errorf("with a disruption left: %v", err)
	}
	after := s.get(status1)
	if field(t, after, "status", "disruptionsAllowed") != 0.0 || field(t, after, "status", "disruptedPods", "a") == nil ||
		after.Generation() != 1 ||
		!strings.Contains(string(after.JSON()), `"reason":"InsufficientPods"`) {
		t.Errorf("the budget is now %s", after.JSON())
	}
	if _, err := evict("a"); wire.StatusOf(err).Code != 404 {
		t.Errorf("a pod that has gone: %v", err)
	}
	s.create(s.at("pods", "default"), pod("b"))
	s.merge(s.at("pods", "default", "b", "status"), running)
	s.create(s.at("policy/v1/poddisruptionbudgets", "default"),
		`{"metadata":{"name":"other"},"spec":{"selector":{"matchLabels":{"app":"web"}}}}`)
	if _, err := evict("b"); wire.StatusOf(err).Code != 500 ||
		!strings.Contains(status(err), "more than one PodDisruptionBudget") {
		t.Errorf("two budgets: %v", err)
	}
}

func TestEvictionsOfOldClientsAreAccepted(t *testing.T) {
	s := serve(t)
	s.create(s.at("pods", "default"), pod("a"))
	target := s.at("pods", "default", "a", "eviction")
	if _, err := s.post(target, strings.Replace(eviction("a"), "policy/v1", "policy/v2", 1)); wire.StatusOf(err).Code != 400 ||
		status(
			err) != "400 BadRequest the API version in the data (policy/v2) does not match the expected API version (policy/v1)" {
		t.Errorf("policy/v2: %v", err)
	}
	if out, err := s.post(target, strings.Replace(eviction("a"), "policy/v1", "policy/v1beta1", 1)); err != nil || !out.Created {
		t.Errorf("policy/v1beta1: %v", err)
	}
}

func TestConcurrentEvictionsStayWithinTheDisruptionBudget(t *testing.T) {
	s := serve(t)
	const pods, allowed = 12, 5
	s.create(s.at("policy/v1/poddisruptionbudgets", "default"),
		`{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}}}}`)
	s.merge(s.at("policy/v1/poddisruptionbudgets", "default", "web", "status"), budget(allowed))
	for i := range pods {
		s.create(s.at("pods", "default"), pod(fmt.Sprint("p", i)))
		s.merge(s.at("pods", "default", fmt.Sprint("p", i), "status"), running)
	}
	codes := make([]int32, pods)
	var wg sync.WaitGroup
	for i := range pods {
		wg.Go(func() {
			name := fmt.Sprint("p", i)
			if _, err := s.Create(t.Context(), s.at("pods", "default", name, "eviction"), []byte(eviction(name)),
				metav1.CreateOptions{}); err != nil {
				codes[i] = wire.StatusOf(err).Code
			}
		})
	}
	wg.Wait()
	counts := map[int32]int{}
	for _, code := range codes {
		counts[code]++
	}
	if left := len(names(s.list(s.at("pods", "default"), nil))); counts[0] != allowed || counts[429] != pods-allowed ||
		left != pods-allowed {
		t.Errorf("answers %v, %d pods left; want %d evicted and the others refused with 429", counts, left, allowed)
	}
}

func TestSigningRequestIsSignedApprovedAndIssued(t *testing.T) {
	s := serve(t)
	const requests = "certificates.k8s.io/v1/certificatesigningrequests"
	at := s.at(requests)
	at.Caller = &user.DefaultInfo{Name: "jane", Groups: []string{"editors"}}
	o := s.create(at,
		`{"metadata":{"name":"r"},"spec":{"request":"`+signingRequest(t)+
			`","signerName":"example.org/s","usages":["client auth"],"username":"root","groups":["system:masters"]},`+
			`"status":{"certificate":"eA=="}}`)
	if field(t, o, "spec", "username") != "jane" || fmt.Sprint(field(t, o, "spec", "groups")) != "[editors]" ||
		field(t, o, "status", "certificate") != nil {
		t.Errorf("created %s", o.JSON())
	}
	s.merge(s.at(requests, "", "r"), `{"spec":{"username":"root"},"status":{"conditions":[{"type":"Approved","status":"True"}]}}`)
	refuse := func(part, patch, want string) {
		t.Helper()
		_, err := s.Patch(t.Context(), s.at(requests, "", "r", part),
			wire.Patch{Type: "application/merge-patch+json", Body: []byte(patch)}, metav1.PatchOptions{})
		if got := status(err); !strings.HasPrefix(got, "422") || !strings.Contains(got, want) {
			t.Errorf("%s %s: %s\nwant %s", part, patch, got, want)
		}
	}
	refuse("status", `{"status":{"conditions":[{"type":"Approved","status":"True"}]}}`,
		`status.conditions: Forbidden: updates may not add a condition of type "Approved"`)
	s.merge(s.at(requests, "", "r", "approval"),
		`{"spec":{"username":"root"},"status":{"certificate":"eA==","conditions":[{"type":"Approved","status":"True","reason":"x"}]}}`)
	o = s.get(s.at(requests, "", "r"))
	if field(t, o, "spec", "username") != "jane" || field(t, o, "status", "certificate") != nil ||
		!strings.Contains(string(o.JSON()), `"lastTransitionTime":"20`) {
		t.Errorf("approved %s", o.JSON())
	}
	refuse("approval", `{"status":{"conditions":[]}}`, `updates may not remove a condition of type "Approved"`)
	refuse("approval", `{"status":{"conditions":[{"type":"Approved","status":"True"},{"type":"Denied","status":"True"}]}}`,
		"mutually exclusive")
	refuse("status", `{"status":{"conditions":[]}}`, `updates may not remove a condition of type "Approved"`)
	if o := s.merge(s.at(requests, "", "r", "status"),
		`{"status":{"certificate":"eA=="}}`); field(t, o, "status", "certificate") != "eA==" {
		t.Errorf("issued %s", o.JSON())
	}
	refuse("status", `{"status":{"certificate":"eQ=="}}`, "updates may not modify existing certificate content")
}

// signingRequest is a new request in PEM, in base64.
func signingRequest(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatalf("create certificate request: %v", err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}
