package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// heard gathers the warnings that a client gets.
type heard struct {
	mu    sync.Mutex
	texts []string
}

func (h *heard) HandleWarningHeader(_ int, _ string, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.texts = append(h.texts, text)
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	texts := h.texts
	h.texts = nil
	return texts
}

func clientOf(t *testing.T, cfg *rest.Config) (*kubernetes.Clientset, *heard) {
	t.Helper()
	warnings := &heard{}
	cfg.WarningHandler = warnings
	clientset, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return clientset, warnings
}

// rulesFor matches all operations on a resource of the core group.
func rulesFor(resource string) *admissionregistration.MatchResources {
	return &admissionregistration.MatchResources{ResourceRules: []admissionregistration.NamedRuleWithOperations{{
		RuleWithOperations: admissionregistration.RuleWithOperations{
			Operations: []admissionregistration.OperationType{admissionregistration.OperationAll},
			Rule: admissionregistration.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource},
			},
		},
	}}}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func newConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: named(name), Data: data}
}

// TestValidatingPoliciesHoldForTheNextRequest: nothing here waits for a write to have effect.
func TestValidatingPoliciesHoldForTheNextRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	dir := t.TempDir()
	l := launch(t, gapless.Config{DataDir: dir})
	client, warnings := clientOf(t, l.RESTConfig())
	ctx, v1 := t.Context(), client.AdmissionregistrationV1()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := v1.ValidatingAdmissionPolicies().Create(ctx, &admissionregistration.ValidatingAdmissionPolicy{
		ObjectMeta: named("sizes"),
		Spec: admissionregistration.ValidatingAdmissionPolicySpec{
			ParamKind:        &admissionregistration.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: rulesFor("configmaps"),
			MatchConditions: []admissionregistration.MatchCondition{
				{Name: "not-params", Expression: "object.metadata.name != params.metadata.name"},
			},
			Validations: []admissionregistration.Validation{{
				Expression: "size(object.data) <= int(params.data.max)", MessageExpression: "'at most ' + params.data.max",
			}},
		},
	}, metav1.CreateOptions{})
	must(err)
	maps := client.CoreV1().ConfigMaps("default")
	create := func(name string) error {
		_, err := maps.Create(ctx, newConfigMap(name, map[string]string{"a": "1", "b": "2"}), metav1.CreateOptions{})
		return err
	}
	must(create("unbound"))
	binding := &admissionregistration.ValidatingAdmissionPolicyBinding{
		ObjectMeta: named("sizes-here"),
		Spec: admissionregistration.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "sizes", ValidationActions: []admissionregistration.ValidationAction{admissionregistration.Deny},
			ParamRef: &admissionregistration.ParamRef{
				Name: "limit", Namespace: "default", ParameterNotFoundAction: new(admissionregistration.DenyAction),
			},
		},
	}
	binding, err = v1.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	must(err)
	expect := func(name, want string) {
		t.Helper()
		const prefix = " is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'sizes-here' denied request: "
		if err := create(name); !apierrors.IsInvalid(err) || err.Error() != `configmaps "`+name+`"`+prefix+want {
			t.Errorf("%v", err)
		}
	}
	expect("a", "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
	// The parameter itself could not be made by now.
	_, err = maps.Create(ctx, newConfigMap("limit", nil), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("%v", err)
	}
	binding.Spec.ValidationActions = []admissionregistration.ValidationAction{admissionregistration.Warn}
	must(v1.ValidatingAdmissionPolicyBindings().Delete(ctx, "sizes-here", metav1.DeleteOptions{}))
	limit, err := maps.Create(ctx, newConfigMap("limit", map[string]string{"max": "1"}), metav1.CreateOptions{})
	must(err)
	binding.ResourceVersion = ""
	binding, err = v1.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{})
	must(err)
	warnings.take()
	must(create("warned"))
	if got := warnings.take(); !slices.Equal(got, []string{
		"Validation failed for ValidatingAdmissionPolicy 'sizes' with binding 'sizes-here': at most 1",
	}) {
		t.Errorf("warnings %q", got)
	}
	binding.Spec.ValidationActions = []admissionregistration.ValidationAction{admissionregistration.Deny}
	_, err = v1.ValidatingAdmissionPolicyBindings().Update(ctx, binding, metav1.UpdateOptions{})
	must(err)
	expect("b", "at most 1")
	limit.Data["max"] = "2"
	_, err = maps.Update(ctx, limit, metav1.UpdateOptions{})
	must(err)
	must(create("b"))
	limit, err = maps.Get(ctx, "limit", metav1.GetOptions{})
	must(err)
	limit.Data["max"] = "0"
	_, err = maps.Update(ctx, limit, metav1.UpdateOptions{})
	must(err)
	expect("c", "at most 0")

	// It holds from the first request of the next life on.
	l.stop()
	l = launch(t, gapless.Config{DataDir: dir})
	client, _ = clientOf(t, l.RESTConfig())
	maps = client.CoreV1().ConfigMaps("default")
	expect("c", "at most 0")
	metrics := l.caller(t, http2).do(http.MethodGet, "/metrics", "")
	if !strings.Contains(string(metrics.body),
		`apiserver_validating_admission_policy_check_total{enforcement_action="deny",error_type="invalid_error",policy="sizes",`+
			`policy_binding="sizes-here"} 1`) {
		t.Errorf("metrics do not count the refusal")
	}
}

// TestMutatingPoliciesChangeObjects: also in patches, and of what kubectl applies.
func TestMutatingPoliciesChangeObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	l := launch(t, gapless.Config{})
	client, _ := clientOf(t, l.RESTConfig())
	ctx, v1 := t.Context(), client.AdmissionregistrationV1()
	_, err := v1.MutatingAdmissionPolicies().Create(ctx, &admissionregistration.MutatingAdmissionPolicy{
		ObjectMeta: named("team"),
		Spec: admissionregistration.MutatingAdmissionPolicySpec{
			MatchConstraints: rulesFor("configmaps"), ReinvocationPolicy: admissionregistration.NeverReinvocationPolicy,
			Mutations: []admissionregistration.Mutation{{
				PatchType: admissionregistration.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistration.ApplyConfiguration{
					Expression: `Object{metadata: Object.metadata{labels: {"team": namespaceObject.metadata.name, "by": ` +
						`request.operation}}}`,
				},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create mutating admission policies: %v", err)
	}
	_, err = v1.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistration.MutatingAdmissionPolicyBinding{
		ObjectMeta: named("team"), Spec: admissionregistration.MutatingAdmissionPolicyBindingSpec{PolicyName: "team"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create mutating admission policy bindings: %v", err)
	}
	labels := func(o *corev1.ConfigMap, err error, by string) {
		t.Helper()
		if err != nil || o.Labels["team"] != "default" || o.Labels["by"] != by {
			t.Errorf("%v, %v; want by %s", o.Labels, err, by)
		}
	}
	maps := client.CoreV1().ConfigMaps("default")
	o, err := maps.Create(ctx, newConfigMap("a", nil), metav1.CreateOptions{})
	labels(o, err, "CREATE")
	o, err = maps.Patch(ctx, "a", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"by":"me"}}}`),
		metav1.PatchOptions{})
	labels(o, err, "UPDATE")
	o, err = maps.Patch(ctx, "b", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"a":"b"}}`),
		metav1.PatchOptions{FieldManager: "me"})
	labels(o, err, "CREATE")
	if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete a config map: %v", err)
	}
}
