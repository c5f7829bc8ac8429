package bench_test

import (
	"cmp"
	"flag"
	"math"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/bench/internal/cases"
	"github.com/gapless-io/gapless/bench/internal/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var selected = flag.String("cases", "",
	"regular expression of the cases to play; none: all but the longest of replicas, and starts of kube-apiserver")

// quick selects all cases but those that nobody plays unasked, and those that start a kube-apiserver each for what
// others show of it.
func quick() string {
	starts := regexp.MustCompile(`^kinds-(start|memory|idle)`)
	var names []string
	for _, c := range cases.All() {
		if !c.Asked && !starts.MatchString(c.Name) {
			names = append(names, c.Name)
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// TestEveryCaseWorksOnBothServers plays every case at the short scale: what comes
// back must be whole and in order, and every metric must be there. How fast it is
// is not looked at. Those over an etcd start many servers: all of them are played with -cases replica.
func TestEveryCaseWorksOnBothServers(t *testing.T) {
	b := &cases.Bench{Scale: cases.Short(), Dir: t.TempDir(), Log: t.Output()}
	b.Select = regexp.MustCompile(cmp.Or(*selected, quick()))
	for _, name := range []string{peer.Upstream, peer.Gapless} {
		p, err := peer.Build(t.Context(), name, "..", b.Dir)
		if err != nil {
			t.Fatalf("build: %v", err)
		}
		p.NoSync = name == peer.Upstream
		b.Programs = append(b.Programs, p)
		b.Relay = p // the last one is gapless
	}
	var err error
	if b.Kube, err = peer.BuildKube(t.Context(), "..", b.Dir); err != nil {
		t.Fatalf("build kube: %v", err)
	}
	b.Kube.NoSync = true
	if b.Stock, err = peer.Build(t.Context(), peer.Stock, "..", b.Dir); err != nil {
		t.Fatalf("build: %v", err)
	}
	report, err := b.Run(t.Context())
	if err != nil {
		t.Errorf("run: %v", err)
	}
	rows := map[string]*cases.Row{}
	for _, row := range report.Rows {
		rows[row.Case] = row
	}
	for _, c := range cases.All() {
		if !b.Plays(c) {
			continue
		}
		for _, m := range c.Metrics {
			for _, p := range b.Programs {
				if c.Ours && p.Name != peer.Gapless {
					continue
				}
				if row := rows[c.Name]; row == nil || math.IsNaN(row.Median(p.Name, m.Name)) {
					t.Errorf("%s on %s has no %s", c.Name, p.Name, m.Name)
				}
			}
		}
	}
}
