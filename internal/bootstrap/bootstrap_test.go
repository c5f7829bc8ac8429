package bootstrap_test

import (
	"context"
	"encoding/pem"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/wire"
)

const (
	here  = "192.0.2.7:6443"
	roles = "rbac.authorization.k8s.io"
)

func ca() []byte { return []byte("-----BEGIN CERTIFICATE-----\n") }

func there(o *wire.Object) bool { return o != nil }
func gone(o *wire.Object) bool  { return o == nil }

// waitComplete waits until the initial namespaces have their default objects.
func (c *cluster) waitComplete() {
	c.t.Helper()
	for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		c.eventually(c.at("", "configmaps", ns, "kube-root-ca.crt"), "the ConfigMap of "+ns, there)
		c.eventually(c.at("", "serviceaccounts", ns, "default"), "the ServiceAccount of "+ns, there)
	}
	for _, name := range []string{"admin", "edit", "view"} {
		wanted := map[string]int{"admin": 29, "edit": 27, "view": 12}[name]
		c.eventually(c.at(roles, "clusterroles", "", name), "the rules of "+name, func(o *wire.Object) bool {
			return o != nil && len(read[rbacv1.ClusterRole](c.t, o).Rules) == wanted
		})
	}
}

func TestServiceExistsBeforeTheServerIsReady(t *testing.T) {
	c := keep(t, openLog(t), here, nil)
	service := read[corev1.Service](t, c.find(c.at("", "services", "default", "kubernetes")))
	if p := service.Spec.Ports[0]; p.Port != 443 || p.TargetPort.IntVal != 6443 ||
		service.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service has %+v", service.Spec)
	}
	//nolint:staticcheck // deprecated, and served
	endpoints := read[corev1.Endpoints](t, c.find(c.at("", "endpoints", "default", "kubernetes")))
	if s := endpoints.Subsets[0]; s.Addresses[0].IP != "192.0.2.7" || s.Ports[0].Port != 6443 {
		t.Errorf("the Endpoints have %+v", s)
	}
	slice := read[discoveryv1.EndpointSlice](t, c.find(c.at("discovery.k8s.io", "endpointslices", "default", "kubernetes")))
	if slice.Endpoints[0].Addresses[0] != "192.0.2.7" || *slice.Ports[0].Port != 6443 ||
		slice.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
		t.Errorf("the EndpointSlice is %+v", slice)
	}
	admin := read[rbacv1.ClusterRoleBinding](t, c.find(c.at(roles, "clusterrolebindings", "", "cluster-admin")))
	if s := admin.Subjects; len(s) != 1 || s[0].Name != "system:masters" || admin.RoleRef.Name != "cluster-admin" {
		t.Errorf("cluster-admin is bound as %+v", admin)
	}
	// Without a controller manager nothing is created in namespaces or aggregated.
	if n := c.count(c.at("", "configmaps")) + c.count(c.at("", "serviceaccounts")); n != 0 {
		t.Errorf("%d objects were made in namespaces", n)
	}
	if view := read[rbacv1.ClusterRole](t, c.find(c.at(roles, "clusterroles", "", "view"))); len(view.Rules) != 0 ||
		view.AggregationRule == nil {
		t.Errorf("view is %+v", view)
	}
}

func TestRestartWritesNothing(t *testing.T) {
	log := openLog(t)
	c := keep(t, log, here, ca())
	c.waitComplete()
	c.noted()
	c.stop()
	before := c.revision()
	c = keep(t, log, here, ca())
	// Objects of a new namespace are created only after all existing ones were checked.
	c.create(c.at("", "namespaces"), `{"metadata":{"name":"new"}}`)
	c.eventually(c.at("", "serviceaccounts", "new", "default"), "the ServiceAccount", there)
	if wrote := c.revision() - before; wrote != 3 {
		t.Errorf("%d writes since the restart, want those of the namespace, of its ConfigMap and its ServiceAccount", wrote)
	}
}

func TestEndpointsFollowTheAddress(t *testing.T) {
	for name, address := range map[string]string{
		"port": "192.0.2.7:7000", "address": "192.0.2.8:6443", "family": "[2001:db8::1]:6443",
	} {
		t.Run(name, func(t *testing.T) {
			log := openLog(t)
			keep(t, log, here, nil).stop()
			c := keep(t, log, address, nil)
			//nolint:staticcheck // deprecated, and served
			s := read[corev1.Endpoints](t, c.find(c.at("", "endpoints", "default", "kubernetes"))).Subsets[0]
			slice := read[discoveryv1.EndpointSlice](t,
				c.find(c.at("discovery.k8s.io", "endpointslices", "default", "kubernetes")))
			service := read[corev1.Service](t, c.find(c.at("", "services", "default", "kubernetes")))
			host := map[string]string{"port": "192.0.2.7", "address": "192.0.2.8", "family": "2001:db8::1"}[name]
			port := map[string]int32{"port": 7000, "address": 6443, "family": 6443}[name]
			if s.Addresses[0].IP != host || s.Ports[0].Port != port || slice.Endpoints[0].Addresses[0] != host ||
				*slice.Ports[0].Port != port ||
				service.Spec.Ports[0].TargetPort.IntVal != port {
				t.Errorf("after the move: %+v, %+v, %+v", s, slice.Endpoints, service.Spec.Ports)
			}
		})
	}
}

// TestEndpointsAreLeftToKubeAPIServers that work over the same store, and the Service, which may name another port.
func TestEndpointsAreLeftToKubeAPIServers(t *testing.T) {
	var others atomic.Bool
	others.Store(true)
	c := keepBy(t, openLog(t), func(c *cluster) bootstrap.Config {
		return bootstrap.Config{
			Verbs: c, Address: netip.MustParseAddrPort(here),
			Others: func(context.Context) (bool, error) { return others.Load(), nil },
		}
	})
	service, endpoints := c.at("", "services", "default", "kubernetes"), c.at("", "endpoints", "default", "kubernetes")
	slice := c.at("discovery.k8s.io", "endpointslices", "default", "kubernetes")
	again := func() { // each makes the Service again, and looks at the endpoints
		t.Helper()
		was := c.find(service).UID()
		c.delete(service)
		c.eventually(service, "another Service", func(o *wire.Object) bool { return o != nil && o.UID() != was })
	}
	again()
	c.merge(service, `{"spec":{"ports":[{"name":"https","port":443,"targetPort":1}]}}`)
	c.create(c.at("", "endpoints", "default"),
		`{"metadata":{"name":"kubernetes"},"subsets":[{"addresses":[{"ip":"192.0.2.1"}],"ports":[{"name":"https","port":1}]}]}`)
	if port := read[corev1.Service](t, c.find(service)).Spec.Ports[0].TargetPort.IntVal; port != 1 {
		t.Errorf("the Service has the port %d, want that of the other server", port)
	}
	again()
	again() // so that all is done about the one before

	was := read[corev1.Endpoints](t, c.find(endpoints)).Subsets[0] //nolint:staticcheck // as above
	if c.find(slice) != nil || was.Addresses[0].IP != "192.0.2.1" {
		t.Errorf("beside kube-apiserver the endpoints are %+v and %v, want its own", was, c.find(slice))
	}
	others.Store(false)
	again()
	c.eventually(endpoints, "the endpoints of this server", func(o *wire.Object) bool {
		return read[corev1.Endpoints](t, o).Subsets[0].Addresses[0].IP == "192.0.2.7" //nolint:staticcheck // as above
	})
	c.eventually(slice, "its slice", there)
}

func TestDeletedBootstrapObjectsAreRecreated(t *testing.T) {
	c := keep(t, openLog(t), here, nil)
	for _, target := range []struct{ group, plural string }{
		{"", "services"}, {"", "endpoints"}, {"discovery.k8s.io", "endpointslices"},
	} {
		at := c.at(target.group, target.plural, "default", "kubernetes")
		was := c.find(at).UID()
		c.delete(at)
		c.eventually(at, "another "+target.plural, func(o *wire.Object) bool { return o != nil && o.UID() != was })
	}
	endpoints := c.at("", "endpoints", "default", "kubernetes")
	c.merge(endpoints, `{"subsets":null}`)
	c.eventually(endpoints, "its subsets", func(o *wire.Object) bool {
		return len(read[corev1.Endpoints](t, o).Subsets) == 1 //nolint:staticcheck // as above
	})
}

func TestNamespaceGetsAndKeepsItsDefaultObjects(t *testing.T) {
	c := keep(t, openLog(t), here, ca())
	c.create(c.at("", "namespaces"), `{"metadata":{"name":"shop"}}`)
	certificate, account := c.at("", "configmaps", "shop", "kube-root-ca.crt"), c.at("", "serviceaccounts", "shop", "default")
	whole := func(o *wire.Object) bool {
		if o == nil {
			return false
		}
		m := read[corev1.ConfigMap](t, o)
		return cmp.Equal(m.Data, map[string]string{"ca.crt": string(ca())}) && m.Annotations["kubernetes.io/description"] != ""
	}
	c.eventually(certificate, "the certificate", whole)
	c.eventually(account, "the account", there)

	c.merge(certificate, `{"data":{"ca.crt":"x","more":"y"},"metadata":{"labels":{"mine":"stays"}}}`)
	if o := c.eventually(certificate, "the certificate as it was", whole); o.Labels()["mine"] != "stays" {
		t.Errorf("labels %v: that of a user is gone", o.Labels())
	}
	c.delete(certificate)
	c.eventually(certificate, "the certificate again", whole)
	c.merge(account, `{"imagePullSecrets":[{"name":"mine"}]}`)
	was := c.find(account).ResourceVersion()
	c.delete(account)
	c.eventually(account, "the account again", func(o *wire.Object) bool { return o != nil && o.ResourceVersion() > was })
}

func TestTerminatingNamespaceStaysEmpty(t *testing.T) {
	c := keep(t, openLog(t), here, ca())
	ns := c.at("", "namespaces", "", "shop")
	c.create(c.at("", "namespaces"), `{"metadata":{"name":"shop"}}`)
	c.eventually(c.at("", "serviceaccounts", "shop", "default"), "the account", there)
	// A finalizer keeps it terminating for as long as we look.
	c.create(c.at("", "secrets", "shop"), `{"metadata":{"name":"held","finalizers":["example.org/held"]}}`)
	c.delete(ns)
	certificate := c.at("", "configmaps", "shop", "kube-root-ca.crt")
	c.eventually(certificate, "the deletion of its ConfigMap", gone)
	c.eventually(c.at("", "serviceaccounts", "shop", "default"), "the deletion of its ServiceAccount", gone)
	// What is made in another namespace comes after what these deletions would make.
	c.create(c.at("", "namespaces"), `{"metadata":{"name":"other"}}`)
	c.eventually(c.at("", "serviceaccounts", "other", "default"), "the account of another", there)
	if c.find(certificate) != nil || c.find(c.at("", "serviceaccounts", "shop", "default")) != nil {
		t.Error("something was made in a terminating namespace")
	}
	c.merge(c.at("", "secrets", "shop", "held"), `{"metadata":{"finalizers":null}}`)
	c.eventually(ns, "the end of the namespace", gone)
}

func TestDeletedLeaseNamespaceIsRecreated(t *testing.T) {
	c := keep(t, openLog(t), here, ca())
	c.waitComplete()
	ns := c.at("", "namespaces", "", "kube-node-lease")
	was := c.find(ns).UID()
	c.delete(ns)
	c.eventually(ns, "another namespace", func(o *wire.Object) bool { return o != nil && o.UID() != was })
	c.eventually(c.at("", "configmaps", "kube-node-lease", "kube-root-ca.crt"), "its ConfigMap", there)
}

// TestAnotherCAIsKept: other servers may have the same objects. What is no CA is replaced.
func TestAnotherCAIsKept(t *testing.T) {
	log := openLog(t)
	other := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("another")}))
	before := keep(t, log, here, nil)
	for name, text := range map[string]string{"kept": other, "damaged": "x"} {
		before.create(before.at("", "namespaces"), `{"metadata":{"name":"`+name+`"}}`)
		before.create(before.at("", "configmaps", name), `{"metadata":{"name":"kube-root-ca.crt"},"data":{"ca.crt":`+
			strconv.Quote(text)+`}}`)
	}
	before.stop()
	c := keepBy(t, log, func(c *cluster) bootstrap.Config {
		return bootstrap.Config{Verbs: c, CA: ca(), KeepOtherCAs: true}
	})
	for name, want := range map[string]string{"kept": other, "damaged": string(ca()), "default": string(ca())} {
		c.eventually(c.at("", "serviceaccounts", name, "default"), "the account, which is made last", there)
		got := read[corev1.ConfigMap](t, c.find(c.at("", "configmaps", name, "kube-root-ca.crt"))).Data["ca.crt"]
		if got != want {
			t.Errorf("the CA in the namespace %s is %q, want %q", name, got, want)
		}
	}
	c.stop()
	own := keep(t, log, here, ca())
	own.eventually(own.at("", "configmaps", "kept", "kube-root-ca.crt"), "without the option its own CA",
		func(o *wire.Object) bool {
			return read[corev1.ConfigMap](t, o).Data["ca.crt"] == string(ca())
		})
}
