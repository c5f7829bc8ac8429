package operators

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	monitoring = "monitoring.coreos.com"
	admission  = "prometheus-operator-admission-webhook"

	clusterIssuer = "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: " +
		"selfsigned-cluster-issuer}\nspec: {selfSigned: {}}\n"
	badRule = `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: bad, namespace: demo}
spec: {groups: [{name: up, rules: [{alert: Down, expr: "up =="}]}]}
`
	rule = `
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: good, namespace: demo}
spec: {groups: [{name: up, rules: [{alert: Down, expr: "up == 0", labels: {severity: 3}}]}]}
`
	badRouting = `
apiVersion: monitoring.coreos.com/v1alpha1
kind: AlertmanagerConfig
metadata: {name: bad, namespace: demo}
spec: {route: {receiver: nobody}, receivers: [{name: somebody}]}
`
	routing = `
apiVersion: monitoring.coreos.com/v1alpha1
kind: AlertmanagerConfig
metadata: {name: good, namespace: demo}
spec:
  route: {receiver: somebody, muteTimeIntervals: [nights]}
  receivers: [{name: somebody}]
  muteTimeIntervals: [{name: nights, timeIntervals: [{times: [{startTime: "00:00", endTime: "06:00"}]}]}]
`
	prometheus = `
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
metadata: {name: main, namespace: demo}
spec: {replicas: 2, ruleSelector: {}}
`
)

var (
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	prometheusRules = schema.GroupVersionResource{Group: monitoring, Version: "v1", Resource: "prometheusrules"}
)

// prometheusOperatorIsInstalled follows the guide of prometheus-operator's own documentation, whose
// manifests take the certificate of the webhooks from cert-manager.
func (c *cluster) prometheusOperatorIsInstalled(t *testing.T) {
	dir := module(t, ".", prometheusOperator)
	c.createFiles(t, filepath.Join(dir, "example/prometheus-operator-crd-full/*.yaml"))
	c.kinds.Reset()
	c.createFiles(t, filepath.Join(dir, "example/rbac/prometheus-operator/*.yaml"))
	c.createFiles(t, filepath.Join(dir, "example/admission-webhook/*.yaml"))
	c.mustCreate(t, clusterIssuer)
	guide := readGuide(t, dir)
	c.mustCreate(t, guide.manifests...)
	c.enableConversion(t, guide.conversion)
	c.ready(t, certificates, "default", admission)
}

// createFiles creates the objects of files, of which each has one.
func (c *cluster) createFiles(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("the files %s: %v, %v", pattern, files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		c.mustCreate(t, string(raw))
	}
}

// guide is what prometheus-operator's documentation says about its webhooks.
type guide struct {
	manifests  []string // a certificate, and the webhook configurations
	conversion []byte   // a patch of the definition of AlertmanagerConfigs
}

func readGuide(t *testing.T, dir string) *guide {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "Documentation/platform/webhook.md"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	g := &guide{}
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllSubmatch(text, -1) {
		if parse(t, block[1]).GetKind() != "Secret" { // which has three dots instead of a certificate
			g.manifests = append(g.manifests, string(block[1]))
		}
	}
	if want := 4; len(g.manifests) != want {
		t.Fatalf("the guide has %d manifests, want %d", len(g.manifests), want)
	}
	patch := regexp.MustCompile(`(?s)<<EOF \| kubectl patch crds/\S+ --patch-file /dev/stdin\n(.*?)\nEOF`).FindSubmatch(text)
	if patch == nil {
		t.Fatal("the guide has no patch of a definition")
	}
	g.conversion = patch[1]
	return g
}

const routings = "alertmanagerconfigs." + monitoring

// enableConversion sets the conversion webhook, and asks the cainjector for its authority.
func (c *cluster) enableConversion(t *testing.T, patch []byte) {
	t.Helper()
	annotation := []byte(`{"metadata":{"annotations":{"cert-manager.io/inject-ca-from":"default/` + admission + `"}}}`)
	for _, p := range [][]byte{patch, annotation} {
		if _, err := c.objects.Resource(definitions).Patch(t.Context(), routings, types.MergePatchType, p,
			metav1.PatchOptions{}); err != nil {
			t.Fatalf("patch the definition with %s: %v", p, err)
		}
	}
}

// startPrometheusOperator starts its two programs with the arguments of their Deployments.
func (c *cluster) startPrometheusOperator(t *testing.T) {
	t.Helper()
	secret, dir := c.secret(t, "default", "admission-webhook-certs"), t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), secret.Data[name], 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	var args []string
	for _, arg := range c.arguments(t, admission) {
		args = append(args, strings.Replace(arg, "/etc/tls/private", dir, 1)) // where its pod has the Secret
	}
	webhook := c.start(t, "admission-webhook", "default", admission, append(args, "--web.listen-address=127.0.0.1:0")...)
	port, err := strconv.ParseInt(webhook.said(t, regexp.MustCompile(`"starting secure server" address=127\.0\.0\.1:(\d+)`)), 10,
		32)
	if err != nil {
		t.Fatalf("read a number: %v", err)
	}
	c.endpoint(t, "default", admission, int32(port))
	c.start(t, "operator", "default", "prometheus-operator",
		append(c.arguments(t, "prometheus-operator"), "--web.listen-address=127.0.0.1:0")...)
}

// arguments returns those of the first container of a Deployment.
func (c *cluster) arguments(t *testing.T, deployment string) []string {
	t.Helper()
	o, err := c.typed.AppsV1().Deployments("default").Get(t.Context(), deployment, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("get deployments: %v", err)
	}
	return o.Spec.Template.Spec.Containers[0].Args
}

// authorityIsEverywhere waits until the cainjector has written the certificate's authority into the
// configurations and into the definition.
func (c *cluster) authorityIsEverywhere(t *testing.T) {
	want := c.secret(t, "default", "admission-webhook-certs").Data["ca.crt"]
	harness.Eventually(t, "the configurations and the definition have the authority", func() bool {
		definition, err := json.Marshal(c.get(t, definitions, "", routings))
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		bundle, err := json.Marshal(want)
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		return bytes.Equal(c.validating(t, "prometheus-operator-rulesvalidation").Webhooks[0].ClientConfig.CABundle, want) &&
			bytes.Equal(c.validating(t, "prometheus-operator-alertmanager-config-validation").Webhooks[0].ClientConfig.CABundle,
				want) &&
			bytes.Equal(c.mutating(t, "prometheus-operator-rulesmutation").Webhooks[0].ClientConfig.CABundle, want) &&
			bytes.Contains(definition, bundle)
	})
}

// webhooksHoldAtOnce makes requests that succeed or fail by what the webhooks answer. Nothing here
// is tried again: a configuration holds for the next request after its change is seen.
func (c *cluster) webhooksHoldAtOnce(t *testing.T) {
	c.authorityIsEverywhere(t)
	for text, want := range map[string]string{
		badRule: `admission webhook "prometheusrulevalidate.monitoring.coreos.com" denied the request: Rules are not valid`,
		badRouting: `admission webhook "alertmanagerconfigsvalidate.monitoring.coreos.com" denied the request: ` +
			`AlertmanagerConfig is invalid`,
	} {
		if err := c.create(t, text); !apierrors.IsInvalid(err) || err.Error() != want {
			t.Errorf("the answer is %v, want %s", err, want)
		}
	}
	// Its label is a number, which the definition does not allow, until the mutating webhook makes
	// it a string.
	c.mustCreate(t, rule, routing)
	good := c.get(t, prometheusRules, "demo", "good")
	groups, _, err := unstructured.NestedSlice(good.Object, "spec", "groups")
	if err != nil {
		t.Fatalf("read the list: %v", err)
	}
	if raw, err := json.Marshal(groups); err != nil || !strings.Contains(string(raw), `"labels":{"severity":"3"}`) {
		t.Errorf("the groups of the rule are %s, want a label that is a string (%v)", raw, err)
	}
	// The next version has another name for the same field.
	next := c.get(t, schema.GroupVersionResource{Group: monitoring, Version: "v1beta1", Resource: "alertmanagerconfigs"}, "demo",
		"good")
	intervals, _, err := unstructured.NestedSlice(next.Object, "spec", "timeIntervals")
	if err != nil || len(intervals) != 1 {
		t.Errorf("in version v1beta1 the object is %v, want spec.timeIntervals (%v)", next.Object, err)
	}
}

// prometheusGetsItsSet checks that the operator does its work with its own role.
func (c *cluster) prometheusGetsItsSet(t *testing.T) {
	c.mustCreate(t, prometheus)
	harness.Eventually(t, "the operator has made the StatefulSet", func() bool {
		set, err := c.typed.AppsV1().StatefulSets("demo").Get(t.Context(), "prometheus-main", metav1.GetOptions{})
		return err == nil && ownedByPrometheus(set)
	})
	harness.Eventually(t, "the rule is in the ConfigMap", func() bool {
		rules, err := c.typed.CoreV1().ConfigMaps("demo").Get(t.Context(), "prometheus-main-rulefiles-0", metav1.GetOptions{})
		return err == nil && len(rules.Data) == 1
	})
}

func ownedByPrometheus(set *appsv1.StatefulSet) bool {
	return *set.Spec.Replicas == 2 && len(set.OwnerReferences) == 1 && set.OwnerReferences[0].Kind == "Prometheus"
}
