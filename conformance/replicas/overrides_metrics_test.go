package replicas_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/compat/harness"
)

// gauge returns the value of a metric with its labels as they are written; "" if it is not there.
func (r *replica) gauge(t *testing.T, metric string) string {
	t.Helper()
	text, err := r.client.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("read the metrics: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, metric+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestEachClusterOfEtcdHasItsMetrics: a label tells them apart, which is empty for the cluster of --etcd-servers. Who leads
// is said of that one only.
func TestEachClusterOfEtcdHasItsMetrics(t *testing.T) {
	mainURL, of := member(t), startEventsEtcd(t)
	r := start(t, mainURL, t.TempDir(), of.apart)
	for i := range 20 {
		if _, err := r.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("c"+strconv.Itoa(i), "1"),
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("create a ConfigMap: %v", err)
		}
	}
	r.createEvent(t, "one")
	for place, of := range map[string]struct{ direct, endpoint string }{
		"": {mainURL, mainURL}, "0": {of.Member.URL(), of.url()},
	} {
		client := etcdAt(t, of.direct)
		harness.Eventually(t, "the metrics of the cluster \""+place+"\" are there", func() bool {
			revision := keysBelow(t, client, "/gapless/").Header.Revision
			metric := fmt.Sprintf(`gapless_replica_resource_version{override="%s"}`, place)
			reached, err := strconv.ParseFloat(r.gauge(t, metric), 64)
			return err == nil && int64(reached) == revision &&
				r.gauge(t, fmt.Sprintf(`gapless_etcd_quorum{override="%s"}`, place)) == "1" &&
				r.gauge(t, fmt.Sprintf(`gapless_etcd_member_up{endpoint="%s",override="%s"}`, of.endpoint, place)) == "1" &&
				r.gauge(t, fmt.Sprintf(`gapless_etcd_db_bytes{endpoint="%s",override="%s"}`, of.endpoint, place)) != ""
		})
	}
	leads, other := r.gauge(t, `gapless_replica_leads{override=""}`), r.gauge(t, `gapless_replica_leads{override="0"}`)
	if leads == "" || other != "" {
		t.Errorf("who leads is said to be %q, and %q in the other cluster", leads, other)
	}
	of.proxy.Refuse()
	of.proxy.Cut()
	harness.Eventually(t, "the metrics say that the other cluster is away", func() bool {
		return r.gauge(t, `gapless_etcd_quorum{override="0"}`) == "0" &&
			r.gauge(t, fmt.Sprintf(`gapless_etcd_member_up{endpoint="%s",override="0"}`, of.url())) == "0"
	})
	if quorum := r.gauge(t, `gapless_etcd_quorum{override=""}`); quorum != "1" {
		t.Errorf("then the quorum of the cluster that is there is %q", quorum)
	}
}
