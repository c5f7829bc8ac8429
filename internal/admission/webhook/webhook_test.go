package webhook_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestAConfigurationHoldsForTheNextWrite(t *testing.T) {
	s, h := start(t), newHook(t)
	h.says(admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "no"}})
	if _, err := s.createMap("a"); err != nil {
		t.Fatalf("create map: %v", err)
	}
	s.configure("Validating", "c", h.webhook("v.example.com", onMaps))
	const want = `admission webhook "v.example.com" denied the request: no`
	if _, err := s.createMap("b"); err == nil || err.Error() != want || codeOf(err) != 400 {
		t.Errorf("%d %v, want 400 %s", codeOf(err), err, want)
	}
	configuration := s.at("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "", "c")
	if _, err := s.Delete(t.Context(), configuration, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if _, err := s.createMap("b"); err != nil {
		t.Errorf("create map: %v", err)
	}
}

func TestReviewsSayWhatIsWritten(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Validating", "c", h.webhook("v.example.com", onMaps))
	if _, err := s.createMap("a"); err != nil {
		t.Fatalf("create map: %v", err)
	}
	if _, err := s.merge(s.maps("a"), `{"data":{"a":"2"}}`); err != nil {
		t.Fatalf("merge: %v", err)
	}
	if _, err := s.Delete(t.Context(), s.maps("a"), metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
		t.Fatalf("delete: %v", err)
	}
	asked := h.heard()
	if len(asked) != 3 {
		t.Fatalf("asked %d times, want 3", len(asked))
	}
	kind, resource := metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, metav1.GroupVersionResource{
		Version: "v1", Resource: "configmaps",
	}
	for i, want := range []struct {
		operation admissionv1.Operation
		object    string // data.a; "" for none
		old       string
		dryRun    bool
		options   string
	}{
		{"CREATE", "1", "", false, "CreateOptions"},
		{"UPDATE", "2", "1", false, "UpdateOptions"},
		{"DELETE", "", "2", true, "DeleteOptions"},
	} {
		r := asked[i]
		if r.UID == "" || r.Kind != kind || r.Resource != resource || *r.RequestKind != kind || *r.RequestResource != resource {
			t.Errorf("%+v", r)
		}
		if r.Name != "a" || r.Namespace != "default" || r.Operation != want.operation || *r.DryRun != want.dryRun {
			t.Errorf("%+v", r)
		}
		u := r.UserInfo
		if u.Username != "jane" || u.UID != "42" || !slices.Equal(u.Groups, []string{"devs"}) ||
			!slices.Equal(u.Extra["scopes"], []string{"a", "b"}) {
			t.Errorf("user %+v", u)
		}
		if got := dataOf(t, r.Object.Raw) + " " + dataOf(t, r.OldObject.Raw); got != want.object+" "+want.old {
			t.Errorf("%s: data %q, want %q", r.Operation, got, want.object+" "+want.old)
		}
		if o := decoded(t, r.Options); o["kind"] != want.options || o["apiVersion"] != "meta.k8s.io/v1" {
			t.Errorf("options %v", o)
		}
	}
}

// dataOf is data.a of a ConfigMap; "" if there is none.
func dataOf(t *testing.T, raw []byte) string {
	t.Helper()
	var o struct{ Data map[string]string }
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
	}
	return o.Data["a"]
}

func TestMutatingWebhooksChangeInOrderOfNames(t *testing.T) {
	s, first, second := start(t), newHook(t), newHook(t)
	s.configure("Mutating", "b", second.webhook("m2.example.com", onMaps))
	s.configure("Mutating", "a", first.webhook("m1.example.com", onMaps))
	first.patches(`[{"op":"add","path":"/metadata/labels","value":{"first":"1"}}]`)
	second.patches(`[{"op":"test","path":"/metadata/labels/first","value":"1"},{"op":"add","path":"/data/b","value":"2"}]`)
	o, err := s.createMap("a")
	if err != nil {
		t.Fatalf("create map: %v", err)
	}
	if o.Labels()["first"] != "1" || !strings.Contains(string(o.JSON()), `"b":"2"`) {
		t.Errorf("%s", o.JSON())
	}
}

func TestDefaultsAreFilledInAfterAPatch(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Mutating", "a", h.webhook("m.example.com",
		`"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["CREATE"]}]`))
	h.patches(`[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"i","unknown":1}}]`)
	o, err := s.create(s.at("", "v1", "pods", "default"),
		`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	var pod struct {
		Spec struct {
			Containers []map[string]any
		}
	}
	if err := json.Unmarshal(o.JSON(), &pod); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	c := pod.Spec.Containers[1]
	if c["name"] != "sidecar" || c["terminationMessagePath"] != "/dev/termination-log" || c["unknown"] != nil {
		t.Errorf("%v", c)
	}
}

func TestWebhooksAreAskedAgainIfTheyWant(t *testing.T) {
	for _, tt := range []struct {
		policy string
		change bool
		want   int
	}{{"IfNeeded", true, 2}, {"IfNeeded", false, 1}, {"Never", true, 1}} {
		s, first, second := start(t), newHook(t), newHook(t)
		s.configure("Mutating", "a", first.webhook("m1.example.com", onMaps+`,"reinvocationPolicy":"`+tt.policy+`"`))
		s.configure("Mutating", "b", second.webhook("m2.example.com", onMaps))
		if tt.change {
			second.patches(`[{"op":"add","path":"/data/b","value":"2"}]`)
		}
		if _, err := s.createMap("a"); err != nil {
			t.Fatalf("create map: %v", err)
		}
		if a, b := len(first.heard()), len(second.heard()); a != tt.want || b != 1 {
			t.Errorf("%+v: asked %d and %d times", tt, a, b)
		}
	}
}

func TestWritesThatWebhooksAreAskedAbout(t *testing.T) {
	s, h := start(t), newHook(t)
	rule := func(group, version, resource, scope string) string {
		return `"rules":[{"apiGroups":["` + group + `"],"apiVersions":["` + version + `"],"resources":["` + resource +
			`"],"operations":["CREATE","UPDATE"],"scope":"` + scope + `"}]`
	}
	if _, err := s.create(s.at("", "v1", "namespaces"), `{"metadata":{"name":"team","labels":{"team":"x"}}}`); err != nil {
		t.Fatalf("create: %v", err)
	}
	const space = `,"namespaceSelector":{"matchLabels":{"team":"x"}}`
	const labelled = `,"objectSelector":{"matchLabels":{"ask":"me"}}`
	make1 := func(at kinds.Target, name, labels string) func() error {
		return func() error {
			_, err := s.create(at, `{"metadata":{"name":"`+name+`","labels":{`+labels+`}}}`)
			return err
		}
	}
	there, here := s.at("", "v1", "configmaps", "team"), s.maps("")
	configuration := func() error {
		_, err := s.create(s.at("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings"),
			`{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)
		return err
	}
	who := func() error {
		_, err := s.create(s.at("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
			`{"spec":{"nonResourceAttributes":{"path":"/x","verb":"get"}}}`)
		if codeOf(err) == 405 || codeOf(err) == 404 {
			return nil // they are not the registry's
		}
		return err
	}
	for _, tt := range []struct {
		name, more string
		write      func() error
		want       int
	}{
		{"exactly", rule("", "v1", "configmaps", "*"), make1(here, "a1", ""), 1},
		{"everything", rule("*", "*", "*/*", "*"), make1(here, "a2", ""), 1},
		{"only subresources", rule("", "v1", "configmaps/status", "*"), make1(here, "a3", ""), 0},
		{"of the cluster", rule("", "v1", "*", "Cluster"), make1(here, "a4", ""), 0},
		{"a namespace is of the cluster", rule("", "v1", "*", "Cluster"), make1(s.at("", "v1", "namespaces"), "n1", ""), 1},
		{"a namespace is not in one", rule("", "v1", "*", "Namespaced"), make1(s.at("", "v1", "namespaces"), "n2", ""), 0},
		{"another version", rule("", "v2", "configmaps", "*"), make1(here, "a5", ""), 0},
		{"in the namespaces", rule("", "v1", "configmaps", "*") + space, make1(there, "a6", ""), 1},
		{"in another one", rule("", "v1", "configmaps", "*") + space, make1(here, "a7", ""), 0},
		{
			"a namespace by its own labels", rule("", "v1", "namespaces", "*") + space,
			make1(s.at("", "v1", "namespaces"), "n3", `"team":"x"`), 1,
		},
		{"a namespace without", rule("", "v1", "namespaces", "*") + space, make1(s.at("", "v1", "namespaces"), "n4", ``), 0},
		{"by labels", rule("", "v1", "configmaps", "*") + labelled, make1(here, "a8", `"ask":"me"`), 1},
		{"without the labels", rule("", "v1", "configmaps", "*") + labelled, make1(here, "a9", ""), 0},
		{"by the old labels", rule("", "v1", "configmaps", "*") + labelled, func() error {
			_, err := s.merge(s.maps("a8"), `{"metadata":{"labels":{"ask":null}}}`)
			return err
		}, 1},
		{
			"by a condition",
			rule("",
				"v1", "configmaps", "*") +
				`,"matchConditions":[{"name":"c","expression":"object.metadata.name == 'c1' && ` +
				`request.userInfo.username == 'jane'"}]`, make1(here, "c1", ""), 1,
		},
		{
			"not by a condition",
			rule("", "v1", "configmaps", "*") + `,"matchConditions":[{"name":"c","expression":"object.metadata.name == 'c1'"}]`,
			make1(here, "c2", ""), 0,
		},
		{
			"by what the caller may do",
			rule("",
				"v1", "configmaps", "*") +
				`,"matchConditions":[{"name":"c",` +
				`"expression":"!authorizer.group('').resource('secrets').check('get').allowed()"}]`, make1(here, "c3", ""), 1,
		},
		{
			"a condition that fails, ignored",
			rule("",
				"v1", "configmaps", "*") +
				`,"failurePolicy":"Ignore","matchConditions":[{"name":"c","expression":"object.data.x == 'y'"}]`,
			make1(here, "c4", ""), 0,
		},
		{"configurations of admission", rule("*", "*", "*/*", "*"), configuration, 0},
		{"questions about callers", rule("*", "*", "*/*", "*"), who, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := strings.ReplaceAll(strings.ReplaceAll(tt.name, " ", "-"), ",", "")
			s.configure("Validating", name, h.webhook("v.example.com", tt.more))
			h.heard()
			if err := tt.write(); err != nil {
				t.Errorf("write: %v", err)
			}
			if got := len(h.heard()); got != tt.want {
				t.Errorf("asked %d times, want %d", got, tt.want)
			}
			at := s.at("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "", name)
			if _, err := s.Delete(t.Context(), at, metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
	}
}

func TestAConditionThatFailsRefusesTheWrite(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Validating",
		"c", h.webhook("v.example.com", onMaps+`,"matchConditions":[{"name":"c","expression":"object.data.x == 'y'"}]`))
	_, err := s.createMap("a")
	if codeOf(err) != 403 ||
		!strings.HasPrefix(err.Error(),
			`configmaps "a" is forbidden: expression 'object.data.x == 'y'' resulted in error: no such key: x`) {
		t.Errorf("%d %v", codeOf(err), err)
	}
	if n := len(h.heard()); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

func TestEquivalentResourcesAreConverted(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Mutating", "c", h.webhook("m.example.com",
		`"rules":[{"apiGroups":["autoscaling"],"apiVersions":["v1"],"resources":["horizontalpodautoscalers"],"operations":["CREATE"]}]`))
	h.patches(`[{"op":"replace","path":"/spec/targetCPUUtilizationPercentage","value":70}]`)
	o, err := s.create(s.at("autoscaling", "v2", "horizontalpodautoscalers", "default"),
		`{"metadata":{"name":"h"},"spec":{"maxReplicas":3,
"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},
"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if !strings.Contains(string(o.JSON()), `"averageUtilization":70`) || o.APIVersion() != "autoscaling/v2" {
		t.Errorf("%s", o.JSON())
	}
	r := h.heard()[0]
	if r.Kind.Version != "v1" || r.Resource.Version != "v1" || r.RequestKind.Version != "v2" ||
		r.RequestResource.Version != "v2" || decoded(t, r.Object)["apiVersion"] != "autoscaling/v1" {
		t.Errorf("%+v", r)
	}
}

func TestExactMatchesDoNotConvert(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Validating", "c", h.webhook("m.example.com",
		`"matchPolicy":"Exact","rules":[{"apiGroups":["events.k8s.io"],"apiVersions":["v1"],"resources":["events"],"operations":["CREATE"]}]`))
	if _, err := s.create(s.at("", "v1", "events", "default"),
		`{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"}}`); err != nil {
		t.Fatalf("create: %v", err)
	}
	if n := len(h.heard()); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

func TestSubresourcesAreAskedAboutInTheirKind(t *testing.T) {
	s, h := start(t), newHook(t)
	body := `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},` +
		`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	if _, err := s.create(s.at("apps", "v1", "deployments", "default"), body); err != nil {
		t.Fatalf("create: %v", err)
	}
	s.configure("Mutating", "c",
		h.webhook("m.example.com",
			`"rules":[{"apiGroups":["apps"],"apiVersions":["*"],"resources":["deployments/*"],"operations":["*"]}]`))
	h.patches(`[{"op":"replace","path":"/spec/replicas","value":5}]`)
	if _, err := s.merge(s.at("apps", "v1", "deployments", "default", "d", "scale"), `{"spec":{"replicas":2}}`); err != nil {
		t.Fatalf("merge: %v", err)
	}
	if _, err := s.merge(s.at("apps", "v1", "deployments", "default", "d", "status"), `{"status":{"replicas":2}}`); err != nil {
		t.Fatalf("merge: %v", err)
	}
	asked := h.heard()
	if len(asked) != 2 || asked[0].Kind.Kind != "Scale" || asked[0].SubResource != "scale" ||
		asked[1].Kind.Kind != "Deployment" || asked[1].SubResource != "status" {
		t.Errorf("%+v", asked)
	}
	o := s.Find(kinds.GroupResource{Group: "apps", Resource: "deployments"}, wire.Key{Namespace: "default", Name: "d"})
	if !strings.Contains(string(o.JSON()), `"replicas":5`) {
		t.Errorf("%s", o.JSON()) // the scale: a write of the status changes no spec
	}
}

func TestDeletionsOfACollectionAreAskedAboutEach(t *testing.T) {
	s, h := start(t), newHook(t)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.createMap(name); err != nil {
			t.Fatalf("create map: %v", err)
		}
	}
	s.configure("Validating", "c", h.webhook("v.example.com", onMaps))
	h.instead(func(w http.ResponseWriter, r *http.Request) {
		review := reviewOf(r)
		reply(w, review, admissionv1.AdmissionResponse{
			Allowed: !strings.Contains(string(review.Request.OldObject.Raw), `"name":"b"`),
		})
	})
	_, err := s.DeleteCollection(t.Context(), s.maps(""), metav1.DeleteOptions{}, wire.ListOptions{
		Labels: labels.Everything(), Fields: fields.Everything(),
	})
	if codeOf(err) != 400 || err.Error() != `admission webhook "v.example.com" denied the request without explanation` {
		t.Errorf("%d %v", codeOf(err), err)
	}
	if s.Find(kinds.GroupResource{Resource: "configmaps"}, wire.Key{Namespace: "default", Name: "b"}) == nil {
		t.Error("b is gone")
	}
}

func TestDryRunsAskOnlyWebhooksWithoutSideEffects(t *testing.T) {
	s, h := start(t), newHook(t)
	client := `{"url":"` + h.URL + `","caBundle":` + h.ca() + `}`
	dry := func(name string) error {
		_, err := s.Create(t.Context(), s.maps(""), []byte(`{"metadata":{"name":"`+name+`"}}`), metav1.CreateOptions{
			DryRun: []string{"All"},
		})
		return err
	}
	s.configure("Validating", "a",
		`{"name":"a.example.com","clientConfig":`+client+`,"sideEffects":"NoneOnDryRun","admissionReviewVersions":["v1beta1"],`+onMaps+`}`)
	if err := dry("a"); err != nil {
		t.Errorf("dry: %v", err)
	}
	if asked := h.heard(); len(asked) != 1 || !*asked[0].DryRun {
		t.Errorf("%+v", asked)
	}
	// No other side effects are valid in v1, so that a stored one of an older version is given.
	gr := kinds.GroupResource{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}
	for effects, want := range map[string]string{
		`"sideEffects":"Some",`: `400 admission webhook "s.example.com" does not support dry run`,
		``: `500 Internal error occurred: failed calling webhook "s.example.com": ` +
			`Webhook SideEffects is nil`,
	} {
		o, err := wire.ParseObject(
			[]byte(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"s","resourceVersion":"9"},
"webhooks":[{"name":"s.example.com","clientConfig":`+client+`,`+effects+
				`"namespaceSelector":{},"objectSelector":{},"admissionReviewVersions":["v1"],`+onMaps+`}]}`), nil)
		if err != nil {
			t.Fatalf("parse the object: %v", err)
		}
		s.plugin.Change(gr, o, false)
		if err := dry("b"); err == nil || cmp.Diff(want, text(err)) != "" {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestWarningsReachTheClient(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Validating", "c", h.webhook("v.example.com", onMaps))
	h.says(admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"old", "odd"}})
	got, err := s.Create(t.Context(), s.maps(""), []byte(`{"metadata":{"name":"a"}}`), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if diff := cmp.Diff([]string{"old", "odd"}, got.Warnings); diff != "" {
		t.Error(diff)
	}
}
