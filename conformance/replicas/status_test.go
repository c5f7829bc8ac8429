package replicas_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/oracle/etcd"
	"github.com/gapless-io/gapless/status"
)

// status returns what a replica reports of itself.
func (r *replica) status(t *testing.T) status.Replica {
	t.Helper()
	body, err := r.client.RESTClient().Get().AbsPath(status.Path).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("ask a replica for its status: %v", err)
	}
	var reported status.Replica
	if err := json.Unmarshal(body, &reported); err != nil {
		t.Fatalf("read the status: %v", err)
	}
	return reported
}

// startEtcd starts an etcd until the test ends, or stop is called.
func startEtcd(t *testing.T) (url string, stop func()) {
	t.Helper()
	m, err := etcd.Start(t.Context(), etcd.Options{Dir: t.TempDir(), NoSync: true})
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	stop = sync.OnceFunc(func() {
		if err := m.Stop(); err != nil {
			t.Errorf("stop etcd: %v", err)
		}
	})
	t.Cleanup(stop)
	return m.URL(), stop
}

// TestAReplicaReportsEtcdAndTheOthers: also how far each is, and what it has while etcd is away.
func TestAReplicaReportsEtcdAndTheOthers(t *testing.T) {
	store, stop := startEtcd(t)
	a, b := start(t, store, t.TempDir(), nil), start(t, store, t.TempDir(), nil)
	made, err := a.client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap("a", "1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create at A: %v", err)
	}
	atB := b.status(t)
	if atB.Away != "" || uint64(atB.ResourceVersion) < version(t, made.ResourceVersion) ||
		atB.ResourceVersion < atB.Etcd.ResourceVersion {
		t.Errorf("B has %d, and etcd %d, after a write at %s (%s)", atB.ResourceVersion, atB.Etcd.ResourceVersion,
			made.ResourceVersion, atB.Away)
	}
	if atB.State == nil {
		t.Fatal("B does not report what every server does")
	}
	at := slices.IndexFunc(atB.Resources, func(r status.Resource) bool { return r.Resource == "configmaps" })
	if at < 0 || uint64(atB.Resources[at].ResourceVersion) != version(t, made.ResourceVersion) || atB.Resources[at].Bytes == 0 ||
		atB.Storage.LastWrite.IsZero() || atB.Refused == nil {
		t.Errorf("B reports %+v", *atB.State)
	}
	if len(atB.Holes) != 1 || atB.Holes[0].After != 0 { // before its first state
		t.Errorf("the holes of B are %v", atB.Holes)
	}
	if etcd := atB.Etcd; !etcd.Quorum || etcd.Cluster == "" || len(etcd.Members) != 1 || etcd.Members[0].Role != "leader" ||
		etcd.Members[0].DBBytes == 0 || len(etcd.Problems) != 0 {
		t.Errorf("of etcd B reports %+v", etcd)
	}
	harness.Eventually(t, "both replicas are registered, and one leads", func() bool {
		atA, atB := a.status(t), b.status(t)
		ids := []string{atA.ID, atB.ID}
		slices.Sort(ids)
		return len(atA.Replicas) == 2 && slices.Equal(ids, []string{atA.Replicas[0].ID, atA.Replicas[1].ID}) &&
			slices.Contains(ids, atA.Leader) && atA.Leader == atB.Leader &&
			uint64(atA.Replicas[0].ResourceVersion) > 0 && uint64(atA.Replicas[1].ResourceVersion) > 0
	})
	stop()
	without := b.status(t)
	if without.Away == "" || without.ReplicasUnknown == "" || without.ResourceVersion < atB.ResourceVersion {
		t.Errorf("without etcd B reports %+v", without)
	}
	harness.Eventually(t, "B reports that etcd has no quorum", func() bool {
		etcd := b.status(t).Etcd
		return !etcd.Quorum && len(etcd.Problems) > 0 && etcd.Members[0].Problem != ""
	})
}

// TestAReplicaForeseesWhatIsRemovedBecauseOfItsBytes: a watch that gets nothing, and versions with 2 MB after it, of which a
// replica with the smallest limit of bytes removes the first in minutes, and not in days.
func TestAReplicaForeseesWhatIsRemovedBecauseOfItsBytes(t *testing.T) {
	const lasts = 100 * time.Hour
	store, _ := startEtcd(t)
	r := start(t, store, t.TempDir(), func(c *gapless.Config) { c.History, c.HistoryBytes = lasts, gapless.MinHistoryBytes })
	maps := r.client.CoreV1().ConfigMaps("default")
	made, err := maps.Create(t.Context(), configMap("a", "1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	w, err := maps.Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: made.ResourceVersion, FieldSelector: "metadata.name=other",
	})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	for i := range 20 {
		if _, err := maps.Update(t.Context(), configMap("a", strings.Repeat(string(rune('a'+i)), 100_000)),
			metav1.UpdateOptions{}); err != nil {
			t.Fatalf("update: %v", err)
		}
	}
	watches := r.status(t).Watches
	i := slices.IndexFunc(watches, func(w status.Watch) bool { return w.FieldSelector == "metadata.name=other" })
	if i < 0 || watches[i].ExpiresAt.IsZero() || watches[i].ExpiresAt.After(time.Now().Add(lasts/2)) {
		t.Errorf("of its watches it reports %+v", watches)
	}
}
