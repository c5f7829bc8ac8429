package gapless_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// metric returns the value of a series, such as `a{b="c"}`, as a scrape has it; 0 if it has none.
func (l launched) metric(t *testing.T, client *http.Client, series string) float64 {
	t.Helper()
	_, text := l.exchange(t, client, "GET /metrics", "")
	for line := range strings.Lines(text) {
		if value, is := strings.CutPrefix(strings.TrimSpace(line), series+" "); is {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("read %s: %v", line, err)
			}
			return n
		}
	}
	return 0
}

const onlyRoles = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n" +
	"authorizers: [{type: RBAC, name: rbac}]\n"

// TestMetricsCountWhatAServerDoes does each of the things, and looks at its metric before and after.
func TestMetricsCountWhatAServerDoes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	if err := os.WriteFile(file, []byte(onlyRoles), 0o600); err != nil {
		t.Fatalf("write the configuration: %v", err)
	}
	s := launch(t, gapless.Config{DataDir: t.TempDir(), Authorization: gapless.Authorization{ConfigFile: file}})
	web := s.web(t)
	s.must(t, web, "POST /api/v1/namespaces", `{"metadata":{"name":"limited"}}`, 201)
	s.must(t, web, "POST /api/v1/namespaces/limited/resourcequotas",
		`{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"2"}}}`,
		201)
	waitUntil(t, func() error {
		if _, text := s.exchange(t, web, "GET /api/v1/namespaces/limited/resourcequotas/q", ""); !strings.Contains(text,
			`"used":`) {
			return fmt.Errorf("it was not counted yet: %s", text)
		}
		return nil
	})
	const limited, pod = "POST /api/v1/namespaces/limited/configmaps",
		`{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}`
	create := func(request, body string) func() {
		return func() { s.exchange(t, web, request, body) }
	}
	behind := `{"metadata":{"name":"v1.behind.example.com"},"spec":{"group":"behind.example.com","version":"v1",` +
		`"groupPriorityMinimum":1,"versionPriority":1,"service":{"namespace":"default","name":"none"}}}`
	for _, c := range []struct {
		series string
		do     func()
	}{
		{`gapless_quota_charge_duration_seconds_count{result="charged"}`, create(limited, `{"metadata":{"name":"a"}}`)},
		{`gapless_quota_settlements_total{outcome="stored"}`, create(limited, `{"metadata":{"name":"b"}}`)},
		{`gapless_quota_charge_duration_seconds_count{result="refused"}`, create(limited, `{"metadata":{"name":"c"}}`)},
		{`gapless_storage_sync_duration_seconds_count`, create("POST "+configMapsURL, `{"metadata":{"name":"a"}}`)},
		{`apiserver_admission_controller_admission_duration_seconds_count{name="Priority",operation="CREATE",rejected="false",` +
			`type="admit"}`, create("POST /api/v1/namespaces/default/pods", pod)},
		{
			`kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.0.0.0/24"}`,
			create("POST /api/v1/namespaces/default/services", `{"metadata":{"name":"a"},"spec":{"ports":[{"port":1}]}}`),
		},
		{
			`kube_apiserver_nodeport_allocator_allocated_ports`,
			create("POST /api/v1/namespaces/default/services",
				`{"metadata":{"name":"b"},"spec":{"type":"NodePort","ports":[{"port":1}]}}`),
		},
		{
			`aggregator_unavailable_apiservice{name="v1.behind.example.com"}`,
			create("POST /apis/apiregistration.k8s.io/v1/apiservices", behind),
		},
		{`gapless_storage_compactions_total`, func() {
			s.exchange(t, web, "DELETE "+configMapsURL+"/a", "")
			at, err := s.ResourceVersion(t.Context())
			if err == nil {
				_, err = s.Compact(t.Context(), at)
			}
			if err != nil {
				t.Fatalf("compact: %v", err)
			}
		}},
		{
			`gapless_expired_requests_total{group="",reason="requested",resource="configmaps",verb="LIST",version="v1"}`,
			create("GET "+configMapsURL+"?resourceVersion=1000000001&resourceVersionMatch=Exact", ""),
		},
		{
			`gapless_expired_requests_total{group="",reason="requested",resource="configmaps",verb="WATCH",version="v1"}`,
			create("GET "+configMapsURL+"?resourceVersion=1000000001&watch=1", ""),
		},
	} {
		before := s.metric(t, web, c.series)
		c.do()
		if now := s.metric(t, web, c.series); now <= before {
			t.Errorf("%s was %v, and is %v", c.series, before, now)
		}
	}
	_, page := s.exchange(t, web, "GET /metrics", "")
	if strings.Contains(page, "apiserver_authorization_config_controller_automatic_reloads_total{") {
		t.Error("the configuration was read again before it has changed")
	}
	if err := os.WriteFile(file, []byte("authorizers: none"), 0o600); err != nil {
		t.Fatalf("write the configuration: %v", err)
	}
	waitUntil(t, func() error {
		if _, page = s.exchange(t, web, "GET /metrics", ""); !strings.Contains(page,
			"apiserver_authorization_config_controller_automatic_reloads_total{") ||
			!strings.Contains(page, `status="failure"} 1`) {
			return fmt.Errorf("no refused change is counted")
		}
		return nil
	})
}

// watchConfigMaps watches all on a connection of its own.
func watchConfigMaps(t *testing.T, cfg *rest.Config) *http.Response {
	t.Helper()
	own := rest.CopyConfig(cfg)
	own.Proxy = http.ProxyFromEnvironment // a transport of its own: functions are not compared
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(client.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, own.Host+"/api/v1/configmaps?watch=1", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	watch, err := client.Do(req)
	if err != nil || watch.StatusCode != http.StatusOK {
		t.Fatalf("watch: %v, %v", watch, err)
	}
	return watch
}

// TestAWatchThatTakesNothingIsBehind has one that reads, and one that does not.
func TestAWatchThatTakesNothingIsBehind(t *testing.T) {
	s := launch(t, gapless.Config{})
	web := s.web(t)
	const of = `{group="",resource="configmaps"}`
	reads, hangs := watchConfigMaps(t, s.RESTConfig()), watchConfigMaps(t, s.RESTConfig())
	defer func() { _, _ = reads.Body.Close(), hangs.Body.Close() }()
	read := make(chan error, 1)
	go func() { // ends with the watch
		_, err := io.Copy(io.Discard, reads.Body)
		read <- err
	}()
	body := `{"metadata":{"generateName":"a-"},"data":{"a":"` + strings.Repeat("x", 500<<10) + `"}}`
	for range 40 { // 20 MB: more than the buffers of a connection hold
		s.must(t, web, "POST "+configMapsURL, body, http.StatusCreated)
	}
	waitUntil(t, func() error {
		events, seconds := s.metric(t, web, "gapless_watch_lag_events"+of), s.metric(t, web, "gapless_watch_lag_seconds"+of)
		if events < 1 || seconds <= 0 {
			return fmt.Errorf("the watch that hangs is %v events and %v seconds behind", events, seconds)
		}
		return nil
	})
	_ = hangs.Body.Close()
	waitUntil(t, func() error {
		if events := s.metric(t, web, "gapless_watch_lag_events"+of); events > 0 {
			return fmt.Errorf("the watch that reads is %v events behind", events)
		}
		return nil
	})
	_ = reads.Body.Close()
	if err := <-read; err == nil {
		t.Error("the watch that reads has ended by itself")
	}
}
