package informer_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// meter adds samples up.
type meter struct {
	mu     sync.Mutex
	totals map[string]float64
	counts map[string]int
}

func (m *meter) record(s informer.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := s.Metric.String()
	for n, label := range s.Metric.Labels() {
		if label != "name" {
			name += "{" + label + "=" + s.Labels[n] + "}"
		} else if s.Labels[n] != "things" {
			name += " of " + s.Labels[n]
		}
	}
	if m.totals == nil {
		m.totals, m.counts = map[string]float64{}, map[string]int{}
	}
	m.counts[name]++
	if s.Metric.Type() == informer.Gauge {
		m.totals[name] = s.Value
	} else {
		m.totals[name] += s.Value
	}
}

func TestMetricsCountRequestsFailuresAndObjects(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []fault
		want   map[string]float64
	}{
		{"a 410", []fault{{End: "410", After: 5}}, map[string]float64{
			"reflector_lists_total": 2, "reflector_watches_total": 0, "reflector_items_per_list": 6,
			"reflector_relists_total{cause=gone}": 1, "informer_incidents_total{kind=gone}": 1,
		}},
		{"a server that does not stream", []fault{{Status: 422}}, map[string]float64{
			"reflector_lists_total": 2, "reflector_watches_total": 1, "reflector_items_per_list": 3,
			"informer_incidents_total{kind=no_streaming_list}": 1,
		}},
		{"watches that end at once", []fault{{Status: 422}, {}, {End: "eof"}, {End: "eof"}}, map[string]float64{
			"reflector_lists_total": 2, "reflector_watches_total": 3, "reflector_short_watches_total": 2,
			"reflector_items_per_list": 3, "informer_incidents_total{kind=no_streaming_list}": 1,
			"informer_incidents_total{kind=short_watch}": 2,
		}},
		{"a re-list that fails first", []fault{{End: "410", After: 5}, {Status: 503}}, map[string]float64{
			"reflector_lists_total": 3, "reflector_watches_total": 0, "reflector_items_per_list": 6,
			"reflector_relists_total{cause=gone}": 1, "informer_incidents_total{kind=gone}": 1,
			"informer_incidents_total{kind=server_error}": 1,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				for n := range 3 {
					w.Put(fmt.Sprint("o", n), n)
				}
				w.Fail(listwatchtest.Faults(c.faults...))
				var m meter
				i := w.informer(informer.Metrics(m.record))
				run(t, i, func() {
					after(time.Second)
					w.Put("o0", 7) // the fifth frame
					after(30 * time.Second)
					// What began is counted at once, not when it ends.
					s := i.Status()
					if m.totals["reflector_lists_total"] != float64(s.Lists) ||
						m.totals["reflector_watches_total"] != float64(s.Watches) {
						t.Errorf("status %+v, metrics %v", s, m.totals)
					}
				})
				c.want["informer_objects"] = 3
				c.want["reflector_last_resource_version"] = 1004
				for name, n := range c.want {
					if m.totals[name] != n {
						t.Errorf("%s is %v, want %v", name, m.totals[name], n)
					}
				}
				for name := range m.totals {
					if _, is := c.want[name]; !is && !strings.Contains(name, "seconds") && !strings.Contains(name, "_per_watch") {
						t.Errorf("%s is %v, want none", name, m.totals[name])
					}
				}
				if seconds := m.totals["reflector_watch_duration_seconds"]; seconds < 25 || seconds > 32 {
					t.Errorf("watches lived %v s", seconds)
				}
			})
		})
	}
}

func TestMetricsAreDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range informer.AllMetrics() {
		if m.Help() == "" || seen[m.String()] || strings.HasSuffix(m.String(), "_total") != (m.Type() == informer.Counter) {
			t.Errorf("%s: %q", m, m.Help())
		}
		seen[m.String()] = true
		if diff := cmp.Diff("name", m.Labels()[0]); diff != "" || !slices.Contains([]int{1, 2}, len(m.Labels())) {
			t.Errorf("%s has labels %v", m, m.Labels())
		}
	}
	if len(seen) != 11 {
		t.Errorf("%d metrics", len(seen))
	}
}
