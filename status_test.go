package gapless_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/status"
)

// reported returns what a server, or a relay, at a path reports of itself.
func reported[T any](t testing.TB, c *kubernetes.Clientset, path string) (of T) {
	t.Helper()
	body, err := c.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("ask for the status: %v", err)
	}
	if err := json.Unmarshal(body, &of); err != nil {
		t.Fatalf("read the status: %v", err)
	}
	return of
}

// writeConfigMap creates a ConfigMap, or changes it, and returns its resourceVersion.
func writeConfigMap(t testing.TB, c *kubernetes.Clientset, name, value string) string {
	t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	maps := c.CoreV1().ConfigMaps("default")
	made, err := maps.Create(t.Context(), m, metav1.CreateOptions{})
	if err != nil {
		made, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatalf("write a ConfigMap: %v", err)
	}
	return made.ResourceVersion
}

func resourceOf(of []status.Resource, name string) status.Resource {
	for _, r := range of {
		if r.Resource == name {
			return r
		}
	}
	return status.Resource{}
}

// TestAServerReportsItsResourcesWatchesAndDisk: how far back history goes and why, who would get 410 next, and who did.
func TestAServerReportsItsResourcesWatchesAndDisk(t *testing.T) {
	const history = 3 * time.Hour
	s := gaplesstest.New(t, gaplesstest.Config(func(cfg *gapless.Config) { cfg.History = history }))
	c := set(t, s.RESTConfig())
	first := writeConfigMap(t, c, "a", "1")
	idle, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: first, FieldSelector: "metadata.name=other",
	})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer idle.Stop()
	follows, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer follows.Stop()
	writeConfigMap(t, c, "a", "22")
	last := writeConfigMap(t, c, "a", "333")
	for e := range follows.ResultChan() {
		if m, is := e.Object.(*corev1.ConfigMap); is && m.ResourceVersion == last {
			break
		}
	}
	var of status.Server
	for of = reported[status.Server](t, c, status.Path); len(of.Watches) < 2 || of.Watches[1].Delivered < 2; {
		of = reported[status.Server](t, c, status.Path) // the server notes what it has sent a moment after the client has it
	}
	maps := resourceOf(of.Resources, "configmaps")
	if maps.ResourceVersion.String() != last || maps.Objects < 1 || maps.Bytes == 0 || maps.HistoryBytes == 0 ||
		maps.RemovedBy != "" || maps.OldestTime.IsZero() || maps.LastTime.Before(maps.OldestTime) || maps.Watches < 2 {
		t.Errorf("of ConfigMaps it reports %+v", maps)
	}
	if of.ResourceVersion < maps.ResourceVersion || of.URL != s.URL() || of.Version == "" || of.Started.IsZero() ||
		of.HistoryBytes < maps.HistoryBytes || of.OldestTime.IsZero() {
		t.Errorf("of itself it reports %+v", of)
	}
	if disk := of.Storage; disk.ReadOnly != "" || disk.Lost != "" || disk.Bytes == 0 || disk.Files == 0 || disk.Syncs == 0 ||
		disk.LastWrite.Before(maps.LastTime) {
		t.Errorf("of the disk it reports %+v", disk)
	}
	next, other := of.Watches[0], of.Watches[1]
	if next.FieldSelector != "metadata.name=other" || next.Known.String() != first || next.User != "admin" && next.User == "" ||
		next.ExpiresAt.Before(time.Now().Add(history-time.Hour)) || next.ExpiresAt.After(time.Now().Add(history)) {
		t.Errorf("the watch that has got nothing, and would get 410 first: %+v", next)
	}
	if other.Known.String() != last || !other.ExpiresAt.IsZero() || other.Namespace != "default" || other.BehindEvents != 0 ||
		other.AboveOldest <= next.AboveOldest {
		t.Errorf("the watch that has got everything: %+v", other)
	}
}

func TestAServerReportsTheLast410AndWhatRemovedTheHistory(t *testing.T) {
	s := gaplesstest.New(t)
	c := set(t, s.RESTConfig())
	first := writeConfigMap(t, c, "a", "1")
	writeConfigMap(t, c, "a", "2")
	writeConfigMap(t, c, "a", "3")
	floor := s.CompactHistory(t)
	w, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: first})
	if err == nil {
		if e := <-w.ResultChan(); e.Type != watch.Error {
			t.Fatalf("a watch from before the history gets %v", e)
		}
		w.Stop()
	}
	of := reported[status.Server](t, c, status.Path)
	maps := resourceOf(of.Resources, "configmaps")
	if maps.RemovedBy != "requested" || maps.RemovedAt.IsZero() || maps.Oldest == 0 || maps.Oldest > floor {
		t.Errorf("of ConfigMaps it reports %+v, after a compaction up to %d", maps, floor)
	}
	if len(of.Expired) != 1 || of.Expired[0].Resource != "configmaps" || of.Expired[0].From.String() != first ||
		!strings.Contains(of.Expired[0].Why, maps.Oldest.String()) {
		t.Errorf("of watches that got 410 it reports %+v", of.Expired)
	}
}

// lagging opens a watch that gets nothing, and then writes versions with 2 MB: with the smallest limit of bytes the first
// of them expires in minutes, and not in days.
func lagging(t *testing.T, writes, watches *kubernetes.Clientset) {
	t.Helper()
	writeConfigMap(t, writes, "a", "1")
	list, err := watches.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	w, err := watches.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=other",
	})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	t.Cleanup(w.Stop)
	for i := range 20 {
		writeConfigMap(t, writes, "a", strings.Repeat(string(rune('a'+i)), 100_000))
	}
}

// lasts is a history of days, of few bytes.
const lasts = 100 * time.Hour

// expiresByBytes reports whether a status says that a watch expires long before its history is old.
func expiresByBytes(of []status.Watch) bool {
	i := slices.IndexFunc(of, func(w status.Watch) bool { return w.FieldSelector == "metadata.name=other" })
	return i >= 0 && !of[i].ExpiresAt.IsZero() && of[i].ExpiresAt.Before(time.Now().Add(lasts/2))
}

func TestAServerForeseesWhatIsRemovedBecauseOfItsBytes(t *testing.T) {
	s := gaplesstest.New(t, gaplesstest.Config(func(cfg *gapless.Config) {
		cfg.History, cfg.HistoryBytes = lasts, gapless.MinHistoryBytes
	}))
	c := set(t, s.RESTConfig())
	lagging(t, c, c)
	if of := reported[status.Server](t, c, status.Path); !expiresByBytes(of.Watches) {
		t.Errorf("of its watches it reports %+v", of.Watches)
	}
}

func TestARelayForeseesWhatIsRemovedBecauseOfItsBytes(t *testing.T) {
	upstream := gaplesstest.New(t)
	r := startRelay(t, gapless.RelayConfig{
		Upstream: upstream.RESTConfig(), Memory: true, Resources: []string{"configmaps"},
		History: lasts, HistoryBytes: gapless.MinHistoryBytes,
	})
	relayed := set(t, through(r, upstream.RESTConfig()))
	lagging(t, set(t, upstream.RESTConfig()), relayed)
	var of status.Relay
	for of = reported[status.Relay](t, relayed, status.RelayPath); !expiresByBytes(of.Watches); { // the mirror follows
		if t.Context().Err() != nil {
			t.Fatalf("of its watches it reports %+v", of.Watches)
		}
		of = reported[status.Relay](t, relayed, status.RelayPath)
	}
}

// TestAStatusNamesSoManyWatches: as many as were asked for, of all.
func TestAStatusNamesSoManyWatches(t *testing.T) {
	s := gaplesstest.New(t)
	c := set(t, s.RESTConfig())
	for range 3 {
		w, err := c.CoreV1().Secrets("").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("watch: %v", err)
		}
		defer w.Stop()
	}
	body, err := c.CoreV1().RESTClient().Get().AbsPath(status.Path).Param(status.WatchesParameter, "2").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("ask for the status: %v", err)
	}
	var of status.Server
	if err := json.Unmarshal(body, &of); err != nil || len(of.Watches) != 2 || of.WatchCount < 3 {
		t.Errorf("of two watches: %d of %d, %v", len(of.Watches), of.WatchCount, err)
	}
}

// TestARelayReportsItsWatches: as a server does, and its disk.
func TestARelayReportsItsWatches(t *testing.T) {
	upstream := gaplesstest.New(t)
	c := set(t, upstream.RESTConfig())
	first := writeConfigMap(t, c, "a", "1")
	r := startRelay(t, gapless.RelayConfig{Upstream: upstream.RESTConfig(), Memory: true, Resources: []string{"configmaps"}})
	relayed := set(t, through(r, upstream.RESTConfig()))
	list, err := relayed.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	w, err := relayed.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatalf("watch: %v", err)
	}
	defer w.Stop()
	last := writeConfigMap(t, c, "a", "2")
	if e := <-w.ResultChan(); e.Type != watch.Modified {
		t.Fatalf("the watch gets %v", e)
	}
	of := reported[status.Relay](t, relayed, status.RelayPath)
	at := slices.IndexFunc(of.Resources, func(r status.RelayResource) bool { return r.Resource == "configmaps.v1" })
	if at < 0 || of.Resources[at].Bytes == 0 || of.Resources[at].HistoryBytes == 0 || of.Resources[at].LastTime.IsZero() {
		t.Errorf("of its resources it reports %+v", of.Resources)
	}
	if len(of.Watches) != 1 || of.Watches[0].Resource != "configmaps" || of.Watches[0].Known.String() < first ||
		of.Watches[0].Known.String() > last || of.WatchCount != 1 || of.Refused == nil || of.Storage.LastWrite.IsZero() ||
		of.URL != r.URL() {
		t.Errorf("of its clients and its disk it reports %+v", of)
	}
}

// TestServersReportTheFreeSpaceOfTheirDisk, if their log is on it.
func TestServersReportTheFreeSpaceOfTheirDisk(t *testing.T) {
	for _, memory := range []bool{false, true} {
		cfg := gapless.Config{}
		if !memory {
			cfg.DataDir = t.TempDir()
		}
		s := launch(t, cfg)
		disk := reported[status.Server](t, set(t, s.RESTConfig()), status.Path).Storage
		if known := disk.FileSystemBytes > 0 && disk.FreeBytes > 0; known == memory {
			t.Errorf("in memory %t: %+v", memory, disk)
		}
	}
}
