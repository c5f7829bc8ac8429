package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission/guard"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

// permissions is an authorizer: what it lists is allowed to everybody, as "verb group/resource
// namespace/name".
type permissions []string

// Authorize implements auth.Authorizer.
func (p permissions) Authorize(ctx context.Context, u user.Info, a auth.Attributes) error {
	return p.Decide(ctx, u, a).Err(u, a)
}

// Decide implements auth.Authorizer.
func (p permissions) Decide(_ context.Context, _ user.Info, a auth.Attributes) auth.Decision {
	return auth.Decision{
		Allowed: slices.Contains(p, a.Verb+" "+a.Resource.Group+"/"+a.Resource.Resource+" "+a.Namespace+"/"+a.Name),
	}
}

// Rules implements auth.Authorizer.
func (permissions) Rules(context.Context, user.Info, string) (auth.Rules, error) {
	return auth.Rules{}, nil
}

// late is a registry for a plugin that is made before it.
type late struct{ *registry.Registry }

// serve runs a registry in memory whose writes the plugin guards.
func serve(t *testing.T, may ...string) (*registry.Registry, *kinds.Live) {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	live, ended := kinds.NewLive(builtin.Catalog()), make(chan error, 2)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- log.Run(context.WithoutCancel(ctx)) }() // ends with Close
	cluster := &late{}
	cluster.Registry = registry.New(registry.Config{
		Store: log, Live: live, Admission: guard.New(guard.Config{Live: live, Cluster: cluster, Authorizer: permissions(may)}),
	})
	go func() { ended <- cluster.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, log.Close(), <-ended); err != nil {
			t.Errorf("wait for the end and close log: %v", err)
		}
	})
	if err := cluster.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	return cluster.Registry, live
}

const (
	match = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],` +
		`"resources":["pods"]}]}`
	checks   = match + `,"validations":[{"expression":"true"}]`
	secrets  = `"paramKind":{"apiVersion":"v1","kind":"Secret"}`
	nameless = `"paramRef":{"selector":{},"namespace":"a","parameterNotFoundAction":"Deny"}`
	named    = `"paramRef":{"name":"s","namespace":"a","parameterNotFoundAction":"Deny"}`
)

// create returns why a caller may not create an object; "" if he may.
func create(t *testing.T, in *registry.Registry, live *kinds.Live, by user.Info, object string) string {
	t.Helper()
	var head struct {
		Kind string
	}
	if err := json.Unmarshal([]byte(object), &head); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	for _, r := range live.Load().Resources() {
		if r.Kind == head.Kind {
			_, err := in.Create(t.Context(), kinds.Target{Resource: r, Caller: by}, []byte(object), metav1.CreateOptions{})
			if err == nil {
				return ""
			}
			return wire.StatusOf(err).Message
		}
	}
	t.Fatalf("no kind %s", head.Kind)
	return ""
}

func policy(name, spec string) string {
	return `{"kind":"ValidatingAdmissionPolicy","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"` + name +
		`"},"spec":{` + spec + `}}`
}

func binding(policy, spec string) string {
	return `{"kind":"ValidatingAdmissionPolicyBinding","apiVersion":"admissionregistration.k8s.io/v1",` +
		`"metadata":{"generateName":"b-"},` +
		`"spec":{"policyName":"` + policy + `","validationActions":["Deny"],` + spec + `}}`
}

func TestOnlyReadersOfParametersMayUseThem(t *testing.T) {
	jane := &user.DefaultInfo{Name: "jane", Groups: []string{"team"}}
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	const all = "get /secrets */*"
	for _, tt := range []struct {
		name, object string
		by           user.Info
		may          []string
		want         string // the end of the text
	}{
		{"a policy without parameters", policy("p", checks), jane, nil, ""},
		{
			"a policy with them", policy("p", checks+","+secrets), jane, nil,
			`spec.paramKind: Forbidden: user &{jane  [team] map[]} must have "get" permission on all objects of the referenced ` +
				`paramKind (kind=Secret, apiVersion=v1)`,
		},
		{"a reader", policy("p", checks+","+secrets), jane, []string{all}, ""},
		{"an administrator", policy("p", checks+","+secrets), admin, nil, ""},
		{"the server", policy("p", checks+","+secrets), nil, nil, ""},
		{
			"a kind that is not served", policy("p", checks+`,"paramKind":{"apiVersion":"x.example.org/v1","kind":"X"}`), jane,
			[]string{"get x.example.org/* */*"},
			"",
		},
		{"a binding without a parameter", binding("stored", `"matchResources":{}`), jane, nil, ""},
		{
			"a binding with one", binding("stored", named), jane, nil,
			`spec.paramRef: Forbidden: user &{jane  [team] map[]} does not have "get" permission on the object ` +
				`referenced by paramRef`,
		},
		{"a reader of one", binding("stored", named), jane, []string{"get /secrets a/s"}, ""},
		{
			"a binding with a selector", binding("stored", nameless), jane,
			[]string{"get /secrets a/s"},
			`does not have "list" permission on the object referenced by paramRef`,
		},
		{"a reader of lists", binding("stored", nameless), jane, []string{"list /secrets a/"}, ""},
		{
			"a binding without its policy", binding("none", named), jane,
			[]string{all},
			`unable to get policy none to determine minimum required permissions and user &{jane  [team] map[]} does not have ` +
				`"get" permission for all groups, versions and resources`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, live := serve(t, tt.may...)
			if why := create(t, in, live, admin, policy("stored", checks+","+secrets)); why != "" {
				t.Fatal(why)
			}
			got := create(t, in, live, tt.by, tt.object)
			if tt.want == "" && got != "" || !strings.HasSuffix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
