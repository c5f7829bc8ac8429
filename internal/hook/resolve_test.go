package hook

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// cluster is a Cluster of one service.
type cluster struct {
	service   string
	endpoints []string
}

func (c cluster) Service(string, string) *wire.Object { return object1(c.service) }

func (c cluster) Endpoints(string, string) (all []*wire.Object) {
	for _, text := range c.endpoints {
		all = append(all, object1(text))
	}
	return all
}

func object1(text string) *wire.Object {
	if text == "" {
		return nil
	}
	o, err := wire.ParseObject([]byte(text), nil)
	if err != nil {
		panic(err)
	}
	return o
}

func TestServicesHaveAddresses(t *testing.T) {
	const ports = `"ports":[{"name":"web","port":443}]`
	service := func(spec string) string {
		return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"hook","namespace":"x"},"spec":{` + spec + `}}`
	}
	slice := func(ready, port string) string {
		return `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"hook-1","namespace":"x"},` +
			`"addressType":"IPv4",
"endpoints":[{"addresses":["10.1.1.1"],"conditions":{"ready":` + ready + `}}],"ports":[{"name":"` + port + `","port":8443}]}`
	}
	for name, tt := range map[string]struct {
		cluster   cluster
		want, err string
	}{
		"missing": {cluster{}, "", `service "hook" not found in namespace "x": create it, or set clientConfig.url`},
		"external name": {
			cluster{service: service(`"type":"ExternalName","externalName":"example.com"`)}, "example.com:443", "",
		},
		"no port": {
			cluster{service: service(`"clusterIP":"10.0.0.1"`)}, "", `no service port 443 found for service "hook"`,
		},
		"cluster IP": {cluster{service: service(`"clusterIP":"10.0.0.1",` + ports)}, "10.0.0.1:443", ""},
		"endpoints first": {
			cluster{service(`"clusterIP":"10.0.0.1",` + ports), []string{slice("true", "web")}}, "10.1.1.1:8443", "",
		},
		"none ready": {
			cluster{service(`"clusterIP":"10.0.0.1",` + ports), []string{slice("false", "web")}}, "10.0.0.1:443", "",
		},
		"another port": {
			cluster{service(`"clusterIP":"10.0.0.1",` + ports), []string{slice("true", "other")}}, "10.0.0.1:443", "",
		},
		"nothing to go to": {
			cluster{service: service(`"clusterIP":"None",` + ports)},
			"",
			`no endpoints available for service "hook" in namespace "x", which has no cluster IP: this server has no cluster ` +
				`network; add an EndpointSlice with a ready address, make the service of type ExternalName, or ` +
				`set clientConfig.url`,
		},
		"endpoints in none": {
			cluster{service(`"clusterIP":"None",` + ports), []string{slice("null", "web")}}, "10.1.1.1:8443", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(tt.cluster, &kinds.ServiceReference{Namespace: "x", Name: "hook", Port: 443})
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tt.want || text != tt.err {
				t.Errorf("%q %q, want %q %q", got, text, tt.want, tt.err)
			}
		})
	}
}
