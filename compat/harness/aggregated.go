package harness

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// Aggregate makes the cluster serve a version of a group of the server, as an aggregated API, and
// waits until it does. The server accepts no headers of a front proxy: what stands before it removes
// them, and acts as its administrator.
func (s *Sides) Aggregate(t testing.TB, group, version string, behind *Server) {
	t.Helper()
	to, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			for name := range r.Out.Header {
				if strings.HasPrefix(name, "X-Remote-") {
					r.Out.Header.Del(name)
				}
			}
		},
		Transport:     Administrator(t, behind).Client(t).Transport,
		FlushInterval: -1, // events are not to wait
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		},
	})
	t.Cleanup(func() {
		front.CloseClientConnections() // watches are open
		front.Close()
	})
	at, err := url.Parse(front.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.create(t, "/api/v1/namespaces/default/services", "application/json",
		`{"metadata":{"name":"aggregated"},"spec":{"type":"ExternalName","externalName":"localhost"}}`)
	s.create(t, "/apis/apiregistration.k8s.io/v1/apiservices", "application/json",
		fmt.Sprintf(`{"metadata":{"name":"%[2]s.%[1]s"},
		"spec":{"group":%[1]q,"version":%[2]q,"groupPriorityMinimum":1000,"versionPriority":10,"insecureSkipTLSVerify":true,
		"service":{"namespace":"default","name":"aggregated","port":%[3]s}}}`, group, version, at.Port()))
	web := s.Cluster.Admin.Client(t)
	Eventually(t, "kube-apiserver serves the aggregated API", func() bool {
		code, _ := Get(t, web, s.Cluster.URL+"/apis/"+group+"/"+version)
		return code == http.StatusOK
	})
}

// AggregatedUnderFailures runs informers of an aggregated API, which read through the relay, through
// failures of the server behind it, of kube-apiserver and of the relay.
func (s *Sides) AggregatedUnderFailures(t *testing.T, behind *Server, informers ...*Informer) {
	t.Helper()
	quiet := func(<-chan struct{}) {}
	play(t, behind.URL, Administrator(t, behind).Client(t), []phase{
		{name: "no failure", writes: 30, faults: quiet},
		{name: "aggregated server restarted", writes: 150, faults: func(<-chan struct{}) { behind.Restart(t) }},
		{name: "aggregated server killed", writes: 150, faults: func(<-chan struct{}) { behind.Crash(t) }},
		{name: "kube-apiserver restarted", writes: 150, faults: func(<-chan struct{}) { s.Cluster.Stop(); s.Cluster.Start() }},
		{name: "kube-apiserver away, aggregated server compacted", writes: 400, skips: true, faults: func(<-chan struct{}) {
			s.Cluster.Stop()
			behind.Run(t, "compact", "--older-than", "0s")
			s.Cluster.Start()
		}},
		{name: "relay killed", writes: 150, faults: func(<-chan struct{}) { s.Relay.Crash(t) }},
		{name: "no failure again", writes: 30, faults: quiet},
	}, informers)
}
