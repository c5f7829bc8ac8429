// Package policies_test compares what admission policies say about typed objects, in upstream's
// plugin, with what this server says about the same ones.
package policies_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/restmapper"

	"github.com/gapless-io/gapless"
)

// allow allows everything, as the administrator of a server may do everything.
func allow(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionAllow, "", nil
}

func launch(t *testing.T) *gapless.Server {
	t.Helper()
	s, err := gapless.New(gapless.Config{Memory: true, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatalf("wait for the end: %v", err)
	}
	return s
}

// pod has a value of each sort that expressions treat in their own way: quantities, ports that
// are numbers or names, times, large numbers, empty structs, absent and empty members.
const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"}},` +
	`"spec":{"activeDeadlineSeconds":2147483647,"containers":[{"name":"main","image":"i",
	"resources":{"limits":{"cpu":"1500m","memory":"1Gi"}},"ports":[{"containerPort":80,"name":"http"}],"env":[{"name":"E","value":""}],
	"livenessProbe":{"httpGet":{"port":"http"}},"readinessProbe":{"httpGet":{"port":80}},"securityContext":{"runAsUser":0,"privileged":false}}],
	"tolerations":[{"key":"k","operator":"Exists"}],"volumes":[{"name":"v","emptyDir":{}},{"name":"w","emptyDir":{"sizeLimit":"0.5Gi"}}]}}`

// questions are validations that fail, with a message that shows what was read.
var questions = []string{
	`string(object.spec.containers[0].resources.limits.cpu) + object.spec.containers[0].resources.limits['memory']`,
	`string(quantity(object.spec.containers[0].resources.limits.cpu).asApproximateFloat())`,
	`string(type(object.spec.containers[0].livenessProbe.httpGet.port) == string) + ` +
		`string(type(object.spec.containers[0].readinessProbe.httpGet.port) == int)`,
	`string(object.spec.containers[0].readinessProbe.httpGet.port + 1)`,
	`string(type(object.spec.activeDeadlineSeconds) == int) + string(object.spec.activeDeadlineSeconds + 1)`,
	`string(has(object.status)) + string(has(object.status.phase)) + string(has(object.metadata.uid)) + ` +
		`string(has(object.spec.nodeName))`,
	`string(has(object.spec.securityContext)) + string(has(object.spec.containers[0].env[0].value)) + ` +
		`string(has(object.spec.containers[0].securityContext.runAsUser))`,
	`string(has(object.spec.containers[0].securityContext.privileged)) + string(has(object.spec.hostNetwork)) + ` +
		`string(has(object.spec.initContainers))`,
	`string(has(object.spec.volumes[0].emptyDir.sizeLimit)) + object.spec.volumes[1].emptyDir.sizeLimit + ` +
		`string(size(object.spec.volumes[0].emptyDir))`,
	`object.spec.tolerations.map(t, t.key + t.operator).join(',') + string(size(object.metadata.labels))`,
	`object.kind + object.apiVersion + request.kind.kind + request.operation + request.resource.resource + ` +
		`request.namespace + request.name`,
	`request.userInfo.groups.join(',') + string(request.dryRun) + namespaceObject.metadata.name + string(oldObject == null)`,
	`string(has(namespaceObject.metadata.labels)) + string(has(namespaceObject.spec)) + namespaceObject.status.phase`,
	`params.data.a + params.kind + params.apiVersion + string(has(params.metadata.labels)) + string(has(params.binaryData))`,
	`string(object.nothing)`,
	`string(object.spec.nodeName)`,
	`string(object.spec.containers[1].name)`,
	`string(object.metadata.labels.none)`,
	`variables.images.join(' ')`,
}

// policyOf is a policy that asks one question: once as a message, and once as the validation
// itself, whose error is the text.
func policyOf(name, question string, direct bool) *admissionregistration.ValidatingAdmissionPolicy {
	v := admissionregistration.Validation{
		Expression: "false", MessageExpression: question, Reason: new(metav1.StatusReasonForbidden),
	}
	if direct {
		v = admissionregistration.Validation{Expression: question + " == 'nothing'"}
	}
	return &admissionregistration.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistration.ValidatingAdmissionPolicySpec{
			ParamKind: &admissionregistration.ParamKind{APIVersion: "v1", Kind: "ConfigMap"},
			MatchConstraints: &admissionregistration.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ask": name}},
				ResourceRules: []admissionregistration.NamedRuleWithOperations{
					{RuleWithOperations: admissionregistration.RuleWithOperations{
						Operations: []admissionregistration.OperationType{admissionregistration.Create},
						Rule: admissionregistration.Rule{
							APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
						},
					}},
				},
			},
			Variables:   []admissionregistration.Variable{{Name: "images", Expression: "object.spec.containers.map(c, c.image)"}},
			Validations: []admissionregistration.Validation{v},
		},
	}
}

// newPlugin returns upstream's plugin, which reads policies from a server as kube-apiserver's
// does.
func newPlugin(t *testing.T, s *gapless.Server, client kubernetes.Interface) *validating.Plugin {
	t.Helper()
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		t.Fatalf("make a plugin: %v", err)
	}
	dynamicClient, err := dynamic.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	initializer.New(client, dynamicClient, factory, authorizer.AuthorizerFunc(allow), utilfeature.DefaultFeatureGate,
		compatibility.DefaultBuildEffectiveVersion(), t.Context().Done(), mapper).Initialize(plugin)
	plugin.SetRESTMapper(mapper)
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatalf("validate initialization: %v", err)
	}
	factory.Start(t.Context().Done())
	return plugin
}

func TestExpressionsReadTypedObjectsAsUpstream(t *testing.T) {
	s := launch(t)
	client, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	ctx := t.Context()
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: map[string]string{"a": "b"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatalf("create config maps: %v", err)
	}
	var names []string
	for i, question := range questions {
		for _, direct := range []bool{false, true} {
			name := fmt.Sprintf("q%d-%v", i, direct)
			names = append(names, name)
			if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx,
				policyOf(name, question, direct), metav1.CreateOptions{}); err != nil {
				t.Fatalf("%s: %v", question, err)
			}
			binding := &admissionregistration.ValidatingAdmissionPolicyBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistration.ValidatingAdmissionPolicyBindingSpec{
					PolicyName: name, ValidationActions: []admissionregistration.ValidationAction{admissionregistration.Deny},
					ParamRef: &admissionregistration.ParamRef{
						Name: "p", Namespace: "default", ParameterNotFoundAction: new(admissionregistration.DenyAction),
					},
				},
			}
			if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding,
				metav1.CreateOptions{}); err != nil {
				t.Fatalf("create validating admission policy bindings: %v", err)
			}
		}
	}
	plugin := newPlugin(t, s, client)
	var sent corev1.Pod
	if err := json.Unmarshal([]byte(pod), &sent); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	filled, err := client.CoreV1().Pods("default").Create(ctx, &sent, dry)
	if err != nil {
		t.Fatalf("create a pod: %v", err)
	}
	caller := &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			sent, filled := sent.DeepCopy(), filled.DeepCopy()
			sent.Labels["ask"], filled.Labels["ask"] = name, name
			kind := corev1.SchemeGroupVersion.WithKind("Pod")
			filled.SetGroupVersionKind(kind)
			a := admission.NewAttributesRecord(filled, nil, kind, "default", "a", corev1.SchemeGroupVersion.WithResource("pods"),
				"", admission.Create, runtime.Object(&dry), true, caller)
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			want := statusOf(plugin.Validate(limited, a, admission.NewObjectInterfacesFromScheme(scheme.Scheme)))
			_, err := client.CoreV1().Pods("default").Create(ctx, sent, dry)
			if diff := cmp.Diff(want, statusOf(err)); diff != "" {
				t.Errorf("(-upstream +gapless)\n%s", diff)
			}
		})
	}
}

// statusOf is the status that an error answers; the text of an error without one.
func statusOf(err error) string {
	var status interface{ Status() metav1.Status }
	if !errors.As(err, &status) {
		return fmt.Sprint(err)
	}
	text, _ := json.Marshal(status.Status())
	return string(text)
}
