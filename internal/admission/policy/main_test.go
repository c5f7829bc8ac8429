package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/policy"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const group = "admissionregistration.k8s.io"

// server is a registry over a log in memory, with a plugin that it asks. The tests give
// policies to the plugin directly.
type server struct {
	*registry.Registry
	t      testing.TB
	live   *kinds.Live
	plugin *policy.Plugin
}

// late is the registry, which is made after its plugin.
type late struct{ *registry.Registry }

func (l *late) Types(r *kinds.Resource) (managedfields.TypeConverter, error) {
	return l.Fields().Types(r)
}

// caller may do what its groups say: "creators" may create deployments.
var caller = &user.DefaultInfo{Name: "jane", Groups: []string{"creators"}}

func authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() == "create" && a.GetResource() == "deployments" && a.GetUser().GetName() == "jane" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func start(t testing.TB) *server {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	return startOn(t, log, registry.Config{})
}

// startOn is start with a log and a configuration, which it completes.
func startOn(t testing.TB, log *revlog.Log, cfg registry.Config) *server {
	t.Helper()
	s := &server{t: t, live: kinds.NewLive(builtin.Catalog())}
	cluster := &late{}
	s.plugin = policy.New(policy.Config{Live: s.live, Cluster: cluster, Authorizer: authorizer.AuthorizerFunc(authorize)})
	cfg.Store, cfg.Live, cfg.Admission = log, s.live, admission.Chain{s.plugin}
	s.Registry = registry.New(cfg)
	cluster.Registry = s.Registry
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- log.Run(context.WithoutCancel(ctx)) }() // ends with Close
	go func() { ended <- s.Run(ctx) }()                          // ends with ctx
	t.Cleanup(func() {
		cancel()
		first := <-ended
		if err := errors.Join(first, log.Close(), <-ended); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	return s
}

// object parses an object.
func object(t testing.TB, text string) *wire.Object {
	t.Helper()
	o, err := wire.ParseObject([]byte(text), nil)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return o
}

// put tells the plugin of a policy or binding, given by the members of its spec, with the
// defaults that the API server fills in.
func put(t testing.TB, plugin *policy.Plugin, resource, name, spec string) {
	t.Helper()
	plugin.Change(kinds.GroupResource{Group: group, Resource: resource}, stored(t, name, spec), false)
}

func stored(t testing.TB, name, spec string) *wire.Object {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal([]byte("{"+spec+"}"), &tree); err != nil {
		t.Fatalf("%v: %s", err, spec)
	}
	for _, member := range []string{"matchConstraints", "matchResources"} {
		m, is := tree[member].(map[string]any)
		if !is {
			continue
		}
		for name, value := range map[string]any{
			"namespaceSelector": map[string]any{}, "objectSelector": map[string]any{}, "matchPolicy": "Equivalent",
		} {
			if m[name] == nil {
				m[name] = value
			}
		}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": group + "/v1", "kind": "Policy", "metadata": map[string]any{"name": name}, "spec": tree,
	})
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return object(t, string(text))
}

const (
	validating = "validatingadmissionpolicies"
	checks     = "validatingadmissionpolicybindings"
	mutating   = "mutatingadmissionpolicies"
	changes    = "mutatingadmissionpolicybindings"
)

// forAll is the matchConstraints of a resource in any version.
func forAll(resource string) string {
	return fmt.Sprintf(
		`"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":[%q]}]}`,
		resource)
}

// outcome is what became of a write.
type outcome struct {
	Error    string
	Reason   metav1.StatusReason
	Code     int32
	Warnings []string
	object   *wire.Object
}

// target returns the target of a write by jane.
func (s *server) target(group, version, resource, namespace, name string) kinds.Target {
	s.t.Helper()
	r, is := s.live.Load().Lookup(kinds.GroupVersionResource{Group: group, Version: version, Resource: resource})
	if !is {
		s.t.Fatalf("%s/%s %s is not served", group, version, resource)
	}
	return kinds.Target{Resource: r, Namespace: namespace, Name: name, Caller: caller}
}

// create creates an object, and try does so without storing it.
func (s *server) create(t kinds.Target, body string) outcome {
	return s.write(t, body, metav1.CreateOptions{})
}

func (s *server) try(t kinds.Target, body string) outcome {
	return s.write(t, body, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func (s *server) write(t kinds.Target, body string, options metav1.CreateOptions) outcome {
	return outcomeOf(s.Create(s.t.Context(), t, []byte(body), options))
}

func outcomeOf(written wire.Written, err error) outcome {
	o := outcome{Warnings: written.Warnings, object: written.Object}
	if err != nil {
		status := wire.StatusOf(err)
		o.Error, o.Reason, o.Code = status.Message, status.Reason, status.Code
	}
	return o
}

// must creates an object as the server itself, about which no policy is asked.
func (s *server) must(t kinds.Target, body string) *wire.Object {
	s.t.Helper()
	t.Caller = nil
	o := s.create(t, body)
	if o.Error != "" {
		s.t.Fatal(o.Error)
	}
	return o.object
}

// configMap returns the body of a config map.
func configMap(name, data string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{%s}}`, name, data)
}

// content returns the tree of an object.
func content(t testing.TB, o *wire.Object) map[string]any {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(o.JSON()); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return u.Object
}
