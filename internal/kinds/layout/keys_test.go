package layout_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/layout"
)

// newLayout returns a layout of the built-in kinds.
func newLayout() *layout.Layout { return layout.New("/registry", kinds.NewLive(builtin.Catalog())) }

func TestKeysAreThoseOfKubeAPIServer(t *testing.T) {
	l := newLayout()
	for key, want := range map[string]string{
		"configmaps/default/a":                       "/registry/configmaps/default/a",
		"deployments.apps/default/a":                 "/registry/deployments/default/a",
		"replicationcontrollers/default/a":           "/registry/controllers/default/a",
		"endpoints/default/a":                        "/registry/services/endpoints/default/a",
		"services/default/a":                         "/registry/services/specs/default/a",
		"nodes/a":                                    "/registry/minions/a",
		"namespaces/a":                               "/registry/namespaces/a",
		"ingresses.networking.k8s.io/default/a":      "/registry/ingress/default/a",
		"networkpolicies.networking.k8s.io/d/a":      "/registry/networkpolicies/d/a",
		"events/default/a.17f":                       "/registry/events/default/a.17f",
		"leases.coordination.k8s.io/kube-system/a":   "/registry/leases/kube-system/a",
		"clusterroles.rbac.authorization.k8s.io/a:b": "/registry/clusterroles/a:b",
		"customresourcedefinitions.apiextensions.k8s.io/foos.example.com": "/registry/apiextensions.k8s.io/" +
			"customresourcedefinitions/foos.example.com",
		"foos.example.com/default/a": "/registry/example.com/foos/default/a",
		"bars.t.example.com/a":       "/registry/t.example.com/bars/a",
	} {
		got, err := l.Key(key)
		if err != nil || got != want {
			t.Errorf("the key of %q is %q, %v, want %q", key, got, err, want)
		}
		if back, known := l.StoreKey(want); !known || back != key {
			t.Errorf("the key in the store of %q is %q, %t, want %q", want, back, known, key)
		}
	}
}

func TestEveryStoredResourceHasItsOwnKeys(t *testing.T) {
	l, seen := newLayout(), map[string]string{}
	for _, r := range builtin.Catalog().Stored() {
		key := r.GR().String() + "/a"
		if r.Namespaced {
			key = r.GR().String() + "/default/a"
		}
		etcdKey, err := l.Key(key)
		if err != nil {
			t.Errorf("the key of %q: %v", key, err)
		}
		if other, is := seen[etcdKey]; is {
			t.Errorf("%s and %s have the same key %s", key, other, etcdKey)
		}
		seen[etcdKey] = key
		if back, known := l.StoreKey(etcdKey); !known || back != key {
			t.Errorf("the key in the store of %q is %q, %t, want %q", etcdKey, back, known, key)
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d resources are stored", len(seen))
	}
}

func TestOtherKeysAreNotKnown(t *testing.T) {
	l := newLayout()
	for _, key := range []string{
		"", "/", "/registry", "/registry/", "/registry/pods", "/registry/pods/", "/registry/services", "/registry/services/",
		"compact_rev_key",
		"/registry/ranges/serviceips", "/registry/ranges/servicenodeports", "/registry/masterleases/10.0.0.1",
		"/registry/peerserverleases/apiserver-1", "/registry/compact_rev_key",
		"/registry/flowschemas", "/registry/prioritylevelconfigurations/default/exempt",
		"/registry/apiregistration.k8s.io/others/v1.apps", "/registry/podsecuritypolicy/restricted",
		"/registry/services/other/default/a",
		// Not of an object: the namespace, or the name, is missing, or something is too much.
		"/registry/configmaps/a", "/registry/configmaps/default/a/b", "/registry/configmaps//a", "/registry/configmaps/default/",
		"/registry/nodes/a", "/registry/minions/default/a", "/registry/minions/", "/registry/configmaps/default/..",
		"/registry/configmaps/default/a%2Fb",
		"/registry/example.com/foos", "/registry/example.com/foos/", "/registry/example.com/foos/a/b/c",
		"/registry/example.com/Foos/a", "/registry/EXAMPLE.com/foos/a", "/registry/example.com//a",
		// Of another server with a prefix of its own.
		"/registry/wardle.example.com/wardle.example.com/flunders/default/a", "/gapless/replicas/a", "/registry2/pods/default/a",
		// A definition of a built-in resource has no effect.
		"/registry/networking.k8s.io/ingresses/default/a",
	} {
		if got, known := l.StoreKey(key); known {
			t.Errorf("%q is known, as %q", key, got)
		}
	}
}

func TestOnlyKeysOfObjectsHaveOneInEtcd(t *testing.T) {
	l := newLayout()
	for _, key := range []string{"", "a", "configmaps", "unknown/default/a", "others.apiregistration.k8s.io/v1."} {
		_, err := l.Key(key)
		if _, is := errors.AsType[*layout.KeyError](err); !is {
			t.Errorf("the key of %q: %v, want a *KeyError", key, err)
		}
	}
}

func TestPrefixIsWrittenInAnyWay(t *testing.T) {
	for _, prefix := range []string{"/a/b", "a/b", "/a/b/", "a/b/"} {
		l := layout.New(prefix, kinds.NewLive(builtin.Catalog()))
		if got, err := l.Key("configmaps/default/a"); got != "/a/b/configmaps/default/a" || err != nil {
			t.Errorf("with the prefix %q the key is %q, %v", prefix, got, err)
		}
	}
}

func FuzzStoreKey(f *testing.F) {
	for _, key := range []string{
		"/registry/configmaps/default/a", "/registry/services/specs/default/a", "/registry/example.com/foos/default/a",
		"/registry/minions/a", "/registry/apiextensions.k8s.io/customresourcedefinitions/foos.example.com",
	} {
		f.Add(key)
	}
	l := newLayout()
	f.Fuzz(func(t *testing.T, etcdKey string) {
		key, known := l.StoreKey(etcdKey)
		if !known {
			return
		}
		if back, err := l.Key(key); err != nil || back != etcdKey {
			t.Errorf("%q is %q in the store, and that is %q, %v", etcdKey, key, back, err)
		}
	})
}

// TestWhatIsKnownSaysWhereEachResourceIs: with another place, it is another text.
func TestWhatIsKnownSaysWhereEachResourceIs(t *testing.T) {
	l := newLayout()
	known := l.Known()
	if known["*"] == "" {
		t.Error("nothing is said about custom resources")
	}
	for _, r := range builtin.Catalog().Stored() {
		name := r.GR().String()
		place, namespaced := strings.CutSuffix(known[name], "namespace/")
		key, want := name+"/a", "/registry/"+place+"a"
		if namespaced {
			key, want = name+"/default/a", "/registry/"+place+"default/a"
		}
		if got, err := l.Key(key); err != nil || got != want || namespaced != r.Namespaced {
			t.Errorf("%s is at %q, but its key is %q, %v", name, known[name], got, err)
		}
	}
	if got, want := len(known), len(builtin.Catalog().Stored())+1; got != want {
		t.Errorf("%d resources are known, want %d", got, want)
	}
}
