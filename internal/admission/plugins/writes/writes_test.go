package writes_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/admission/plugins/writes"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

var maps = kinds.GroupResource{Resource: "configmaps"}

// may allows what it lists: "delete configmaps ns/m", "update *.*/finalizers /*".
type may struct {
	auth.AlwaysDeny
	list []string
}

func (m may) Decide(_ context.Context, _ user.Info, w auth.Attributes) auth.Decision {
	asked := w.Verb + " " + w.Resource.String() + "/" + w.Subresource + " " + w.Namespace + "/" + w.Name
	if slices.Contains(m.list, asked) {
		return auth.Decision{Allowed: true}
	}
	return auth.Decision{Reason: func() string { return "not " + asked }}
}

func object(owners string) string {
	return "{apiVersion: v1, kind: ConfigMap, metadata: {name: m, namespace: ns, ownerReferences: [" + owners + "]}}"
}

func TestWhoSetsOwnersMayDeleteAndBlock(t *testing.T) {
	const (
		secret   = "{apiVersion: v1, kind: Secret, name: s, uid: '1'}"
		blocking = "{apiVersion: v1, kind: Secret, name: s, uid: '1', blockOwnerDeletion: true}"
		node     = "{apiVersion: v1, kind: Node, name: s, uid: '2', blockOwnerDeletion: true}"
		unknown  = "{apiVersion: e.x/v1, kind: K, name: s, uid: '2', blockOwnerDeletion: true}"
		remove   = "delete configmaps/ ns/m"
	)
	resources := []*kinds.Resource{
		{Version: "v1", Kind: "Secret", Plural: "secrets", Namespaced: true}, {Version: "v1", Kind: "Node", Plural: "nodes"},
	}
	for name, c := range map[string]struct {
		now, old string
		may      []string
		want     string
	}{
		"a new one without": {now: object("")},
		"a new one":         {now: object(secret)},
		"an unchanged one":  {now: object(blocking), old: object(blocking)},
		"one more": {
			now: object(secret), old: object(""),
			want: "cannot set an ownerRef on a resource you can't delete: not delete configmaps/ ns/m, <nil>",
		},
		"one less": {now: object(""), old: object(secret), want: "not delete configmaps/ ns/m, <nil>"},
		"who may":  {now: object(secret), old: object(""), may: []string{remove}},
		"a new one blocks": {
			now: object(blocking),
			want: "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: not " +
				"update secrets/finalizers ns/s, <nil>",
		},
		"who may block": {now: object(blocking), may: []string{"update secrets/finalizers ns/s"}},
		"the cluster":   {now: object(node), may: []string{"update nodes/finalizers /s"}},
		"one of two": {
			now: object(blocking + ", " + node), may: []string{"update nodes/finalizers /s"},
			want: "not update secrets/finalizers ns/s, <nil>",
		},
		"everything": {now: object(unknown), may: []string{"update *.*/finalizers /*"}},
		"of no kind": {
			now:  object(unknown),
			want: `cannot find RESTMapping for APIVersion e.x/v1 Kind K: no matches for kind "K" in version "e.x/v1"`,
		},
		"it blocks now": {
			now: object(blocking), old: object(secret), may: []string{remove}, want: "not update secrets/finalizers ns/s, <nil>",
		},
		"it blocked, one is more": {now: object(blocking + ", " + secret), old: object(blocking), may: []string{remove}},
	} {
		t.Run(name, func(t *testing.T) {
			p := writes.OwnerReferencesPermissionEnforcement(writes.Owners{
				Authorizer: may{list: c.may}, Resources: func() []*kinds.Resource { return resources },
			})
			q := pluginstest.Of(p, maps).By("jane")
			var err error
			if c.old == "" {
				err = q.About(t, pluginstest.Tree(t, c.now), nil)
			} else {
				err = q.About(t, pluginstest.Tree(t, c.now), pluginstest.Tree(t, c.old))
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	p := writes.OwnerReferencesPermissionEnforcement(writes.Owners{Authorizer: may{}})
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, ownerReferences: ["
	err := pluginstest.Of(p, kinds.GroupResource{Resource: "pods"}).Subresource("status").
		About(t, pluginstest.Tree(t, pod+secret+"]}}"), pluginstest.Tree(t, pod+"]}}"))
	if err != nil {
		t.Errorf("the status of a pod: %v", err)
	}
}

func TestPluginsThatSayYesOrNo(t *testing.T) {
	now := pluginstest.Tree(t, object(""))
	if err := pluginstest.Of(writes.AlwaysAdmit(), maps).About(t, now, nil); err != nil {
		t.Errorf("AlwaysAdmit: %v", err)
	}
	const want = `configmaps "m" is forbidden: admission control is denying all modifications`
	deny := pluginstest.Of(writes.AlwaysDeny(), maps)
	for _, err := range []error{deny.About(t, now, nil), deny.About(t, now, now), deny.AboutDeletion(t, now)} {
		if err == nil || err.Error() != want {
			t.Errorf("AlwaysDeny: %v", err)
		}
	}
}

func TestWritesInNamespacesThatDoNotExistAreRefused(t *testing.T) {
	namespaces := kinds.GroupResource{Resource: "namespaces"}
	now := pluginstest.Tree(t, object(""))
	c := &pluginstest.Cluster{}
	exists := pluginstest.Of(writes.NamespaceExists(c), maps)
	for _, err := range []error{exists.About(t, now, nil), exists.About(t, now, now), exists.AboutDeletion(t, now)} {
		if err == nil || err.Error() != `namespaces "ns" not found` {
			t.Errorf("no namespace: %v", err)
		}
	}
	c.Unknown = errors.New("it cannot be read")
	if err := exists.About(t, now, nil); err == nil || !strings.Contains(err.Error(), "it cannot be read") {
		t.Errorf("one that cannot be read: %v", err)
	}
	c.Unknown = nil
	c.Put(t, namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: ns}}")
	if err := exists.About(t, now, nil); err != nil {
		t.Errorf("in its namespace: %v", err)
	}
	if err := pluginstest.Of(writes.NamespaceExists(&pluginstest.Cluster{}), namespaces).About(t,
		pluginstest.Tree(t, "{apiVersion: v1, kind: Namespace, metadata: {name: ns, namespace: ns}}"), nil); err != nil {
		t.Errorf("a namespace: %v", err)
	}
}
