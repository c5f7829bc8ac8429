//go:build linux

package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// phase is what a server did for writers over a time.
type phase struct {
	took                []time.Duration // each update
	cpu, groups, writes float64         // processor seconds, syncs and writes of the server
	length              time.Duration
}

// at is a percentile in microseconds.
func (p *phase) at(percent int) float64 {
	slices.Sort(p.took)
	return float64(p.took[min(len(p.took)-1, len(p.took)*percent/100)].Microseconds())
}

// add joins the measurements of two rounds.
func (p *phase) add(other phase) {
	p.took = append(p.took, other.took...)
	p.cpu, p.groups, p.writes, p.length = p.cpu+other.cpu, p.groups+other.groups, p.writes+other.writes, p.length+other.length
}

// observe lets four clients update objects of their own, each with a pause of 2 ms, until
// meanwhile ends.
func observe(c *caller, meanwhile func()) phase {
	var p phase
	var over atomic.Bool
	var mu sync.Mutex // guards took
	var wg sync.WaitGroup
	read := func() [3]float64 {
		return [3]float64{
			c.metric(c.t, "process_cpu_seconds_total"), c.metric(c.t, "gapless_storage_groups_total"),
			c.metric(c.t, "gapless_history_head_resource_version"),
		}
	}
	began, before := time.Now(), read()
	for i := range 4 {
		wg.Go(func() {
			pause := time.NewTicker(2 * time.Millisecond)
			defer pause.Stop()
			for n := 0; !over.Load(); n++ {
				began := time.Now()
				c.relabel("kube-system", fmt.Sprintf("w%d", i), fmt.Sprint(began.UnixNano()))
				mu.Lock()
				p.took = append(p.took, time.Since(began))
				mu.Unlock()
				<-pause.C
			}
		})
	}
	meanwhile()
	over.Store(true)
	wg.Wait()
	after := read()
	p.length = time.Since(began)
	p.cpu, p.groups, p.writes = after[0]-before[0], after[1]-before[1], after[2]-before[2]
	return p
}

// BenchmarkCollect deletes an owner of 10 000 ConfigMaps, with data on disk, while four
// clients update objects of their own. It reports how long the collection took, the latency
// of the updates without and during it, and what does not depend on other programs: the
// syncs, and the server's processor time without that of the updates.
func BenchmarkCollect(b *testing.B) {
	const dependents, writers = 10_000, 4
	for _, policy := range []string{"Background", "Foreground", "Orphan"} {
		b.Run(policy, func(b *testing.B) {
			p := startProcessOn(b, filepath.Join(b.TempDir(), "data"), "--bootstrap", "server")
			c := p.caller(b, http2)
			for i := range writers {
				c.create("kube-system", fmt.Sprintf("w%d", i), "1")
			}
			var without, during phase
			for round := range b.N {
				a := c.create("default", fmt.Sprintf("owner%d", round), "1")
				ref := reference(a, true)
				crowd(16, dependents, func(i int) { c.owned("default", fmt.Sprintf("d%d-%d", round, i), "", ref) })
				without.add(observe(c, func() { <-time.After(2 * time.Second) }))
				during.add(observe(c, func() {
					c.delete(configMaps+"/"+a.text("metadata", "name"), "propagationPolicy="+policy)
					until(b, "all are collected", time.Hour, func() bool {
						if policy == "Orphan" {
							return c.do(http.MethodGet, configMaps+"/"+a.text("metadata", "name"), "").code == http.StatusNotFound
						}
						return c.must(http.StatusOK, http.MethodGet, configMaps+"?limit=1", "").keys() == ""
					})
				}))
				if policy == "Orphan" {
					c.must(http.StatusOK, http.MethodDelete, configMaps, "")
				}
			}
			updates := without.cpu / float64(len(without.took)) * float64(len(during.took))
			b.ReportMetric(during.length.Seconds()/float64(b.N), "s/collection")
			b.ReportMetric(during.groups/float64(b.N), "syncs/collection")
			b.ReportMetric((during.cpu-updates)*1e6/float64(b.N*dependents), "cpu-us/object")
			b.ReportMetric(without.at(50), "us-p50-without")
			b.ReportMetric(without.at(99), "us-p99-without")
			b.ReportMetric(during.at(50), "us-p50-during")
			b.ReportMetric(during.at(99), "us-p99-during")
			b.ReportMetric(during.at(99)/without.at(99), "p99-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkCreateWithCollector creates ConfigMaps by 16 clients: with and without an owner,
// with and without the collector.
func BenchmarkCreateWithCollector(b *testing.B) {
	for _, controllers := range []string{"*", "*,-garbagecollector"} {
		for _, owned := range []bool{false, true} {
			b.Run(fmt.Sprintf("controllers=%s/owned=%t", controllers, owned), func(b *testing.B) {
				l := launch(b, gapless.Config{Controllers: strings.Split(controllers, ",")})
				c := l.caller(b, http2)
				ref := ""
				if owned {
					ref = reference(c.create("default", "owner", "1"), true)
				}
				b.ResetTimer()
				crowd(16, b.N, func(i int) { c.owned("default", fmt.Sprintf("d%d", i), "", ref) })
			})
		}
	}
}
