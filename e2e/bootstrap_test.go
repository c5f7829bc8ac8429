package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

func TestServerCreatesConfiguredBootstrapObjects(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bootstrap        gapless.Bootstrap
		services, filled bool
	}{
		"server, the default": {services: true},
		"cluster":             {bootstrap: gapless.BootstrapCluster, services: true, filled: true},
		"none":                {bootstrap: gapless.BootstrapNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := launch(t, gapless.Config{Bootstrap: c.bootstrap})
			call := s.caller(t, http2)
			services := call.must(http.StatusOK, http.MethodGet, "/api/v1/services", "").keys()
			roles := call.must(http.StatusOK, http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/clusterroles", "").keys()
			if (services == "default/kubernetes") != c.services || strings.Contains(roles, "cluster-admin") != c.services {
				t.Errorf("services %q, roles %q", services, roles)
			}
			if c.services {
				// The endpoints are where the server listens.
				r := call.do(http.MethodGet, "/api/v1/namespaces/default/endpoints/kubernetes", "")
				_, port, _ := strings.Cut(strings.TrimPrefix(s.URL(), "https://"), ":")
				if !strings.Contains(string(r.body),
					fmt.Sprintf(`"addresses":[{"ip":"127.0.0.1"}],"ports":[{"name":"https","port":%s,`, port)) {
					t.Errorf("the server is at %s, and the endpoints are %s", s.URL(), r.body)
				}
			}
			if !c.filled {
				for _, path := range []string{"/api/v1/configmaps", "/api/v1/serviceaccounts"} {
					if keys := call.must(http.StatusOK, http.MethodGet, path, "").keys(); keys != "" {
						t.Errorf("%s has %s", path, keys)
					}
				}
				return
			}
			call.namespace("shop")
			w := call.watch("/api/v1/namespaces/shop/configmaps?watch=1")
			if frame := w.next(); frame.String() == "" ||
				!strings.Contains(string(call.do(http.MethodGet, "/api/v1/namespaces/shop/configmaps/kube-root-ca.crt", "").body),
					pemOf(s.RESTConfig())) {
				t.Errorf("a new namespace has %s, which is not the server's certificate", frame)
			}
		})
	}
}

// pemOf is the certificate of the server's CA as it stands in JSON.
func pemOf(config *rest.Config) string { return strings.ReplaceAll(string(config.CAData), "\n", `\n`) }
