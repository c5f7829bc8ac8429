package gapless

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/internal/house/wrap"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

const metricsPage = "docs/metrics.md"

// described is what a metric is.
type described struct {
	name, help string
	labels     []string
}

// histograms are those metrics whose type is not said by their names: of the others those that end with _total or _count
// are counters, and the rest gauges. What a server is scraped for must agree with that.
func histograms() []string {
	return []string{
		"apiserver_admission_controller_admission_duration_seconds", "apiserver_admission_webhook_admission_duration_seconds",
		"apiserver_flowcontrol_request_wait_duration_seconds", "apiserver_impersonation_attempts_duration_seconds",
		"apiserver_impersonation_authorization_attempts_duration_seconds",
		"apiserver_mutating_admission_policy_check_duration_seconds",
		"apiserver_request_duration_seconds", "apiserver_response_sizes",
		"apiserver_storage_data_key_generation_duration_seconds", "apiserver_storage_transformation_duration_seconds",
		"apiserver_validating_admission_policy_check_duration_seconds", "apiserver_watch_events_sizes",
		"gapless_conversion_webhook_duration_seconds", "gapless_quota_charge_duration_seconds",
		"gapless_storage_sync_duration_seconds",
	}
}

func typeOf(name string) string {
	switch {
	case slices.Contains(histograms(), name):
		return "histogram"
	case strings.HasSuffix(name, "_total"), strings.HasSuffix(name, "_count"):
		return "counter"
	}
	return "gauge"
}

// unitOf is what one of a metric is; "": what the metric counts.
func unitOf(name string) string {
	for _, u := range []struct{ end, unit string }{
		{"_timestamp_seconds", "seconds since 1970"},
		{"_seconds", "seconds"},
		{"_sizes", "bytes"},
		{"_bytes", "bytes"},
		{"_bytes_total", "bytes"},
		{"_resource_version", "resourceVersion"},
	} {
		if strings.HasSuffix(name, u.end) {
			return u.unit
		}
	}
	return ""
}

var descText = regexp.MustCompile(
	`^Desc\{fqName: "([^"]*)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// describe returns the metrics of a collector, by their names.
func describe(t *testing.T, of interface{ Describe(chan<- *prometheus.Desc) }) map[string]described {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	go func() { defer close(descs); of.Describe(descs) }()
	all := map[string]described{}
	for d := range descs {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a description of another form: %s", d)
		}
		one := described{name: m[1], help: strings.ReplaceAll(m[2], `\"`, `"`)}
		for label := range strings.SplitSeq(m[3]+","+m[4], ",") {
			if name, _, _ := strings.Cut(label, "="); name != "" {
				one.labels = append(one.labels, name)
			}
		}
		if strings.HasPrefix(one.name, "go_") || strings.HasPrefix(one.name, "process_") {
			continue
		}
		if !strings.HasSuffix(one.help, ".") || len(one.help) < 10 {
			t.Errorf("%s: the help text %q is no sentence", one.name, one.help)
		}
		all[one.name] = one
	}
	return all
}

// line is what the page says of a metric.
func (d described) line() string {
	name := d.name
	if len(d.labels) > 0 {
		name += "{" + strings.Join(d.labels, ",") + "}"
	}
	line := "- `" + name + "` " + typeOf(d.name)
	if unit := unitOf(d.name); unit != "" {
		line += ", " + unit
	}
	if !strings.HasPrefix(d.name, "gapless_") && !strings.HasPrefix(d.name, "informer_") &&
		!strings.HasPrefix(d.name, "reflector_") {
		line += " (kube-apiserver's)"
	}
	return wrapped(line+": "+d.help, "  ")
}

// wrapped breaks a text at spaces; further lines begin with indent.
func wrapped(text, indent string) string {
	const columns = 120
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && wrap.Columns(line)+1+wrap.Columns(word) > columns {
			lines, line = append(lines, line), indent+word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}

func section(b *strings.Builder, title string, of map[string]described) {
	b.WriteString("\n## " + title + "\n")
	for _, name := range slices.Sorted(maps.Keys(of)) {
		b.WriteString(of[name].line())
	}
}

// runTest runs something until the test ends.
func runTest(t *testing.T, run func(context.Context) error, ready <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("run: %v", err)
	}
}

// measuredServer is a server that has all metrics but those of etcd.
func measuredServer(t *testing.T) *Server {
	t.Helper()
	dir := t.TempDir()
	encryption, policy := filepath.Join(dir, "encryption.yaml"), filepath.Join(dir, "policy.yaml")
	for file, text := range map[string]string{
		encryption: "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- " +
			"resources: [secrets]\n" +
			"  providers:\n  - aescbc: {keys: [{name: a, secret: MDEyMzQ1Njc4OWFiY2RlZg==}]}\n",
		policy: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	s, err := New(Config{
		DataDir: filepath.Join(dir, "data"), Memory: true, Listen: "127.0.0.1:0", EncryptionProviderConfig: encryption,
		Audit: Audit{PolicyFile: policy, LogPath: filepath.Join(dir, "audit.log")},
	})
	if err != nil {
		t.Fatalf("make the server: %v", err)
	}
	runTest(t, s.Run, s.ready)
	return s
}

// send sends requests, "METHOD path body", as an administrator.
func send(t *testing.T, cfg *rest.Config, requests ...string) (last []byte) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	defer client.CloseIdleConnections()
	for _, request := range requests {
		parts := strings.SplitN(request, " ", 3)
		req, err := http.NewRequestWithContext(t.Context(), parts[0], cfg.Host+parts[1], strings.NewReader(parts[2]))
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if last, err = io.ReadAll(resp.Body); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if _ = resp.Body.Close(); resp.StatusCode/100 != 2 && !strings.HasSuffix(parts[1], "#refused") {
			t.Fatalf("%s: %s %s", request, resp.Status, last)
		}
	}
	return last
}

// scraped returns the types of the metrics of an answer.
func scraped(t *testing.T, text []byte) map[string]string {
	t.Helper()
	types := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) == 4 && words[1] == "TYPE" {
			types[words[2]] = words[3]
		}
	}
	return types
}

// TestMetricsPageListsAllMetrics compares docs/metrics.md with what a server, a relay before it, a replica and an
// informer describe, or writes it; and with the types of what they answer scrapes with.
func TestMetricsPageListsAllMetrics(t *testing.T) {
	s := measuredServer(t)
	server := describe(t, s.api)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, s.RESTConfig().CAData, 0o600); err != nil {
		t.Fatalf("write the CA: %v", err)
	}
	r, err := NewRelay(RelayConfig{
		Upstream: s.RESTConfig(), Memory: true, Listen: "127.0.0.1:0", Access: RelayAccess{ClientCAFile: ca},
	})
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	runTest(t, r.Run, r.Ready())
	relay := describe(t, r.api)
	replica := describe(t, newReplicaGauges(&replica{}, &etcdCluster{}))
	const configMaps = "/api/v1/namespaces/default/configmaps"
	page := send(t, s.RESTConfig(),
		`POST `+configMaps+` {"metadata":{"name":"a"}}`, "GET "+configMaps+" ",
		`POST /api/v1/namespaces/default/secrets {"metadata":{"name":"a"}}`,
		`POST /api/v1/namespaces/default/services {"metadata":{"name":"a"},"spec":{"ports":[{"port":1}]}}`,
		`POST /api/v1/namespaces/default/resourcequotas {"metadata":{"name":"a"},"spec":{"hard":{"configmaps":"5"}}}`,
		"GET "+configMaps+"?resourceVersion=1&resourceVersionMatch=Exact#refused ",
		"GET "+configMaps+"?watch=1&timeoutSeconds=1 ", "GET /metrics ")
	for name, has := range scraped(t, page) {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || ofKMS(name) {
			continue
		}
		if _, known := server[name]; !known { // upstream's library registers what was used
			server[name] = gathered(t, page, name)
		}
		if want := typeOf(name); want != has {
			t.Errorf("%s is a %s, and would be described as a %s: see typeOf", name, has, want)
		}
	}
	through := s.RESTConfig()
	through.Host, through.CAData = r.URL(), r.CA()
	for name, has := range scraped(t, send(t, through, "GET /metrics ")) {
		if want := typeOf(name); !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") && want != has {
			t.Errorf("%s is a %s, and would be described as a %s: see typeOf", name, has, want)
		}
	}
	both := maps.Clone(server)
	maps.DeleteFunc(both, func(name string, _ described) bool { _, has := relay[name]; return !has })
	for name := range both {
		delete(server, name)
		delete(relay, name)
	}
	var b strings.Builder
	b.WriteString(metricsMark + wrapped(metricsHead, ""))
	section(&b, "Of a server and of a relay", both)
	section(&b, "Of a server", server)
	section(&b, "Of a server over etcd, besides", replica)
	section(&b, "Of a relay", relay)
	b.WriteString("\n## Of an informer\n" + informerHead)
	for _, m := range informer.AllMetrics() {
		kind := [...]string{informer.Counter: "counter", informer.Gauge: "gauge", informer.Histogram: "histogram"}[m.Type()]
		line := fmt.Sprintf("- `%s{%s}` %s", m, strings.Join(m.Labels(), ","), kind)
		if unit := unitOf(m.String()); unit != "" {
			line += ", " + unit
		}
		b.WriteString(wrapped(line+": "+m.Help(), "  "))
	}
	text, err := os.ReadFile(metricsPage)
	switch {
	case *update:
		if err := os.WriteFile(metricsPage, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a page is for everybody
			t.Fatalf("write the page: %v", err)
		}
	case err != nil:
		t.Fatalf("read the page: %v", err)
	case string(text) != b.String():
		t.Errorf("%s is old: run go test . -run %s -update (-page +now):\n%s", metricsPage, t.Name(),
			cmp.Diff(strings.Split(string(text), "\n"), strings.Split(b.String(), "\n")))
	}
}

// ofKMS reports whether a metric is there only when the process has used a key management service, as another test may
// have before this one. The page's head says that there are such.
func ofKMS(name string) bool {
	return strings.HasPrefix(name, "apiserver_envelope_encryption_") &&
		name != "apiserver_envelope_encryption_dek_cache_fill_percent"
}

// gathered describes a metric by what a scrape says of it.
func gathered(t *testing.T, page []byte, name string) described {
	t.Helper()
	d := described{name: name}
	if m := regexp.MustCompile(`(?m)^# HELP ` + name + ` (?:\[[A-Z]+\] )?(.*)$`).FindSubmatch(page); m != nil {
		d.help = strings.TrimSuffix(string(m[1]), ".") + "."
	}
	if m := regexp.MustCompile(`(?m)^` + name + `(?:_bucket)?\{(.*)\} `).FindSubmatch(page); m != nil {
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllSubmatch(m[1], -1) {
			if string(label[1]) != "le" {
				d.labels = append(d.labels, string(label[1]))
			}
		}
	}
	return d
}

const metricsMark = "# Metrics\n\n<!-- written by go test . -run TestMetricsPageListsAllMetrics -update -->\n"

const metricsHead = "`GET /metrics` answers with them in Prometheus' format, to who may `get` that path: members of " +
	"`system:monitoring` by default. [monitoring.md](monitoring.md) says how to use them. Those that are marked as " +
	"kube-apiserver's have its name, its labels and its meaning, so that dashboards and alerts for it work; but there are no " +
	"flow schemas, so that `apiserver_flowcontrol_*` have no label `flow_schema`, and buckets may be others. Besides those " +
	"below there are `go_*` and `process_*` of Prometheus' client for Go, and with a provider `kms` more of upstream's " +
	"`apiserver_envelope_encryption_*`. No label has names of objects, users or namespaces, but for names of webhooks, up to " +
	"200, and of APIServices, policies, ServiceCIDRs' ranges and members of etcd, which administrators make."

const informerHead = "`informer.Metrics` passes them on ([informer.md](informer.md#metrics)); `name` is the informer's.\n"
