package policy_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/kube"
)

// limits is the definition of a custom resource that is stored as v1 and has a v1beta1.
func limits(scope string) string {
	version := func(name, stored string) string {
		return `{"name":"` + name + `","served":true,"storage":` + stored +
			`,"schema":{"openAPIV3Schema":{"type":"object","properties":{"max":{"type":"integer"},"parts":{"type":"array","items":{"type":"object","required":["n"],"properties":{"n":{"type":"string"},"v":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"]},"labels":{"type":"object","additionalProperties":{"type":"string"}},"whole":{"type":"array","items":{"type":"string"}}}}}}`
	}
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",` +
		`"metadata":{"name":"limits.t.example.com"},"spec":{
		"group":"t.example.com","scope":"` + scope +
		`","names":{"kind":"Limit","listKind":"LimitList","plural":"limits","singular":"limit"},
		"versions":[` + version("v1", "true") + `,` + version("v1beta1", "false") + `]}}`
}

func (s *server) define(scope string) {
	s.t.Helper()
	s.must(s.target("apiextensions.k8s.io", "v1", "customresourcedefinitions", "", ""), limits(scope))
}

func limit(name, members string) string {
	return `{"apiVersion":"t.example.com/v1","kind":"Limit","metadata":{"name":"` + name + `","labels":{"for":"` + name +
		`","all":"yes"}},` + members + `}`
}

const byLimit = `,"paramKind":{"apiVersion":"t.example.com/v1beta1","kind":"Limit"},"validations":[{
	"expression":"params.apiVersion == 't.example.com/v1beta1' && size(object.data) <= params.max",` +
	`"messageExpression":"'at most ' + string(params.max) + ' by ' + params.metadata.name"}]`

// TestParameters has a policy that lets config maps have as many keys as a custom resource
// says, in two namespaces, and references to it.
func TestParameters(t *testing.T) {
	one, two := configMap("a", `"k":"1"`), configMap("a", `"k":"1","l":"2"`)
	const ok, by = "", "422 Invalid "
	tests := []struct {
		name, ref, body, want string
	}{
		{"by name", `{"name":"one"}`, one, ok},
		{"by name, too many", `{"name":"one"}`, two, by + "at most 1 by one"},
		{"in another namespace", `{"name":"none","namespace":"kube-system"}`, one, by + "at most 0 by none"},
		{"by labels", `{"selector":{"matchLabels":{"for":"two"}}}`, two, ok},
		{"all of a namespace", `{"selector":{"matchLabels":{"all":"yes"}}}`, two, by + "at most 1 by one"},
		{"everything", `{"selector":{}}`, one, ok},
		{
			"missing", `{"name":"gone","parameterNotFoundAction":"Deny"}`, one,
			by + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
		},
		{"missing and allowed", `{"name":"gone","parameterNotFoundAction":"Allow"}`, two, ok},
		{
			"none selected", `{"selector":{"matchLabels":{"for":"nobody"}},"parameterNotFoundAction":"Deny"}`, one,
			by + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
		},
		{
			"of no reference", `null`, one,
			by +
				"expression 'params.apiVersion == 't.example.com/v1beta1' && size(object.data) <= params.max' resulted in " +
				"error: no such key: apiVersion",
		},
		{
			"name and labels", `{"name":"one","selector":{}}`, one,
			by + "failed to configure binding: paramRef.name and paramRef.selector are mutually exclusive",
		},
		{"neither", `{}`, one, by + "failed to configure binding: one of name or selector must be provided"},
	}
	s := start(t)
	s.define("Namespaced")
	for _, o := range []struct{ namespace, name, members string }{
		{"default", "one", `"max":1`}, {"default", "two", `"max":2`}, {"kube-system", "none", `"max":0`},
	} {
		s.must(s.target("t.example.com", "v1", "limits", o.namespace, ""), limit(o.name, o.members))
	}
	put(t, s.plugin, validating, "p", forAll("configmaps")+byLimit)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			put(t, s.plugin, checks, "b", deny+`,"paramRef":`+tt.ref)
			got, text := s.try(s.target("", "v1", "configmaps", "default", ""), tt.body), ""
			if got.Error != "" {
				text = statusLine(got,
					`configmaps "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `)
			}
			if diff := cmp.Diff(tt.want, text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParametersOfClusterScopedRequests(t *testing.T) {
	s := start(t)
	s.define("Namespaced")
	put(t, s.plugin, validating, "p", forAll("nodes")+byLimit)
	put(t, s.plugin, checks, "b", deny+`,"paramRef":{"name":"one"}`)
	got := s.try(s.target("", "v1", "nodes", "", ""), `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}`)
	if want := "failed to configure binding: cannot use namespaced paramRef in policy binding that matches " +
		"cluster-scoped resources"; !strings.HasSuffix(got.Error, want) {
		t.Errorf("%q, want %q", got.Error, want)
	}
}

func TestClusterScopedParameters(t *testing.T) {
	s := start(t)
	s.define("Cluster")
	s.must(s.target("t.example.com", "v1", "limits", "", ""), limit("one", `"max":1`))
	put(t, s.plugin, validating, "p", forAll("configmaps")+byLimit)
	for ref, want := range map[string]string{
		`{"name":"one"}`: "at most 1 by one",
		`{"name":"one","namespace":"default"}`: "failed to configure binding: paramRef.namespace must not be provided for a " +
			"cluster-scoped `paramKind`",
	} {
		put(t, s.plugin, checks, "b", deny+`,"paramRef":`+ref)
		got := s.try(s.target("", "v1", "configmaps", "default", ""), configMap("a", `"k":"1","l":"2"`))
		if !strings.HasSuffix(got.Error, want) {
			t.Errorf("%q, want %q", got.Error, want)
		}
	}
}

// TestDefinitionOfParametersIsDeleted: what is enforced by a policy whose parameters have no
// definition any more is its failure policy.
func TestDefinitionOfParametersIsDeleted(t *testing.T) {
	s := start(t)
	s.define("Cluster")
	put(t, s.plugin, validating, "p", forAll("configmaps")+byLimit)
	put(t, s.plugin, checks, "b", deny+`,"paramRef":{"name":"one","parameterNotFoundAction":"Allow"}`)
	target := s.target("", "v1", "configmaps", "default", "")
	if got := s.try(target, configMap("a", "")); got.Error != "" {
		t.Error(got.Error)
	}
	s.live.Store(s.live.Load().Without(kinds.GroupResource{Group: "t.example.com", Resource: "limits"}))
	want := "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by " +
		"paramKind: 't.example.com/v1beta1, Kind=Limit'"
	if got := s.try(target, configMap("a", "")); !strings.HasSuffix(got.Error, want) {
		t.Errorf("%q, want %q", got.Error, want)
	}
}

// TestEquivalentVersionsAreConverted: a policy for one version sees requests to another one
// in its own.
func TestEquivalentVersionsAreConverted(t *testing.T) {
	s := start(t)
	put(t, s.plugin, validating, "p",
		`"matchConstraints":{"resourceRules":[{"apiGroups":["autoscaling"],"apiVersions":["v2"],"operations":["*"],"resources":["horizontalpodautoscalers"]}]},
		"validations":[{"expression":"object.spec.metrics[0].resource.target.averageUtilization < 60",`+
			`"messageExpression":"object.apiVersion + ' ' + request.kind.version + ' ' + request.requestKind.version"}]`)
	put(t, s.plugin, checks, "b", deny)
	got := s.try(s.target("autoscaling", "v1", "horizontalpodautoscalers", "default", ""),
		`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},
		"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"targetCPUUtilizationPercentage":70}}`)
	if !strings.HasSuffix(got.Error, "denied request: autoscaling/v2 v2 v1") {
		t.Errorf("%+v", got)
	}
}

// TestAParameterThatCannotBeReadIsNotMissing: a policy whose binding lets it be missing does not let everything pass.
func TestAParameterThatCannotBeReadIsNotMissing(t *testing.T) {
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	s := startOn(t, log, registry.Config{ // of a store that others write to
		Lead: func(ctx context.Context, work func(context.Context) error) error { return work(ctx) },
	})
	s.must(s.target("", "v1", "configmaps", "default", ""), configMap("good", `"allowed":"yes"`))
	write := func(value string, expected int64) int64 {
		t.Helper()
		done, err := log.Commit(t.Context(), store.Txn{
			Key: "configmaps/default/lost", Value: []byte(value), ExpectedModRevision: expected,
		})
		if err != nil {
			t.Fatalf("write the parameter: %v", err)
		}
		if err := s.WaitPublished(t.Context(), kube.ResourceVersion(done.Revision)); err != nil {
			t.Fatalf("wait for the parameter: %v", err)
		}
		return done.Revision
	}
	put(t, s.plugin, validating, "p", forAll("secrets")+`,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
		"validations":[{"expression":"params.data.allowed == 'yes'","message":"not allowed"}]`)
	check := func(want map[string]string) {
		t.Helper()
		for ref, want := range want {
			put(t, s.plugin, checks, "b", deny+`,"paramRef":{`+ref+`,"parameterNotFoundAction":"Allow"}`)
			got := s.try(s.target("", "v1", "secrets", "default", ""), `{"metadata":{"name":"a"}}`)
			if want == "" && got.Error != "" || !strings.Contains(got.Error, want) {
				t.Errorf("parameters %s: %q, want %q", ref, got.Error, want)
			}
		}
	}
	const lost, all, others = `"name":"lost"`, `"selector":{"matchLabels":null}`, `"name":"good"`
	check(map[string]string{lost: "", others: ""})
	at := write(`"PRIVATE, and no object`, 0)
	const refused = "a parameter cannot be read"
	check(map[string]string{lost: refused, all: refused, others: ""})
	write(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"lost","namespace":"default","uid":"1"},`+
		`"data":{"allowed":"no"}}`, at)
	check(map[string]string{lost: "not allowed", all: "not allowed", others: ""})
}
