package network_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/admission/plugins/network"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/kinds"
)

const ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\n"

func TestIngressesGetTheDefaultClass(t *testing.T) {
	classes := network.IngressClasses()
	pluginstest.Fill(t, classes,
		"apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: a}",
		"apiVersion: networking.k8s.io/v1\nkind: IngressClass\n"+
			"metadata: {name: b, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}")
	p := network.DefaultIngressClass(classes)
	for text, want := range map[string]any{
		ingress + "metadata: {name: i, namespace: n}":                                                          "b",
		ingress + "metadata: {name: i, namespace: n}\nspec: {ingressClassName: a}":                             "a",
		ingress + "metadata: {name: i, namespace: n, annotations: {kubernetes.io/ingress.class: x}}\nspec: {}": nil,
	} {
		u := pluginstest.Tree(t, text)
		err := pluginstest.Of(p, kinds.GroupResource{Group: "networking.k8s.io", Resource: "ingresses"}).About(t, u, nil)
		spec, _ := u.Object["spec"].(map[string]any)
		if err != nil || spec["ingressClassName"] != want {
			t.Errorf("%s: class %v, %v; want %v", text, spec["ingressClassName"], err, want)
		}
	}
}

func TestServicesGetNoExternalIPs(t *testing.T) {
	service := func(ips string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: n}\nspec: {externalIPs: [" + ips + "]}"
	}
	services := kinds.GroupResource{Resource: "services"}
	for _, c := range []struct {
		old, now string
		refused  bool
	}{
		{"", "", false},
		{"", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.1", false},
		{"192.0.2.1, 192.0.2.2", "192.0.2.2", false},
		{"192.0.2.1", "192.0.2.1, 192.0.2.2", true},
	} {
		err := pluginstest.Of(network.DenyServiceExternalIPs(), services).About(t, pluginstest.Tree(t, service(c.now)),
			pluginstest.Tree(t, service(c.old)))
		if (err != nil) != c.refused ||
			err != nil && !strings.Contains(err.Error(), "Use of external IPs is denied by admission control") {
			t.Errorf("from %q to %q: %v", c.old, c.now, err)
		}
	}
	if err := pluginstest.Of(network.DenyServiceExternalIPs(), services).About(t, pluginstest.Tree(t, service("192.0.2.1")),
		nil); err == nil {
		t.Error("a new Service has an external IP")
	}
}
