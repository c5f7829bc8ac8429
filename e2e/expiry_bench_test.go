//go:build linux

package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// oldEvents is how many Events BenchmarkExpireOldEvents deletes.
const oldEvents = 50_000

// BenchmarkExpireOldEvents starts a server over a directory on disk with Events that have all
// expired, while four clients update objects of their own. It reports how long the Events took,
// the latency of the updates without and during it, and the server's processor time without that
// of the updates.
func BenchmarkExpireOldEvents(b *testing.B) {
	const writers = 4
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "data")
		p := startProcessOn(b, dir, "--bootstrap", "server", "--event-ttl", "0")
		c := p.caller(b, http2)
		for i := range writers {
			c.create("kube-system", fmt.Sprintf("w%d", i), "1")
		}
		c.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/events",
			`{"metadata":{"name":"e-0"},"involvedObject":{"kind":"Pod","namespace":"default","name":"p"},"count":1,`+
				`"reason":"Scheduled","message":"assigned default/p to a node of the cluster","type":"Normal",`+
				`"source":{"component":"scheduler"}}`)
		without := observe(c, func() { <-time.After(2 * time.Second) })
		p.stop()
		multiply(b, filepath.Join(dir, "log"))
		<-time.After(time.Second) // all have expired
		p = startProcessOn(b, dir, "--bootstrap", "server", "--event-ttl", "1s")
		c = p.caller(b, http2)
		during := observe(c, func() {
			until(b, "all Events are deleted", time.Hour, func() bool {
				return c.must(http.StatusOK, http.MethodGet, "/api/v1/events?limit=1", "").keys() == ""
			})
		})
		if n := c.metric(b, "gapless_event_expiry_deletions_total"); n != oldEvents {
			b.Errorf("%v deletions are counted", n)
		}
		health(c, map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusOK})
		p.stop()
		updates := without.cpu / float64(len(without.took)) * float64(len(during.took))
		b.ReportMetric(oldEvents/during.length.Seconds(), "events/s")
		b.ReportMetric((during.cpu-updates)*1e6/oldEvents, "cpu-us/event")
		b.ReportMetric(without.at(50), "us-p50-without")
		b.ReportMetric(without.at(99), "us-p99-without")
		b.ReportMetric(during.at(50), "us-p50-during")
		b.ReportMetric(during.at(99), "us-p99-during")
		b.ReportMetric(0, "ns/op")
	}
}

// multiply writes copies of the Event e-0 into a log, under other names, until there are oldEvents.
func multiply(b *testing.B, dir string) {
	b.Helper()
	files, err := disk.NewUnsynced(dir)
	if err != nil {
		b.Fatalf("open the directory: %v", err)
	}
	log, err := revlog.Open(b.Context(), revlog.Options{Dir: dir, FS: files})
	if err != nil {
		b.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(b.Context()) }() // ends with the log
	page, err := log.Read(b.Context(), store.Query{Start: "events/default/e-0"})
	if err != nil || len(page.Records) != 1 {
		b.Fatalf("read the Event: %v, %v", page.Records, err)
	}
	var all errgroup.Group
	all.SetLimit(256)
	for i := range oldEvents - 1 {
		name := fmt.Sprintf("e-%d", i+1)
		all.Go(func() error {
			_, err := log.Commit(b.Context(), store.Txn{
				Key:   "events/default/" + name,
				Value: bytes.ReplaceAll(page.Records[0].Value, []byte(`"e-0"`), fmt.Appendf(nil, "%q", name)),
			})
			return err
		})
	}
	if err := errors.Join(all.Wait(), log.Close(), <-ended); err != nil {
		b.Fatalf("write the Events: %v", err)
	}
}
