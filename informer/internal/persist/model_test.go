package persist_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer/internal/persist"
)

// model is what a file should hold.
type model struct {
	r    *rand.Rand
	disk *memory
	f    *persist.File
	now  map[string]int // as committed last; nil: nothing
	at   int
}

// TestRandomBatchesFailuresAndRestartsKeepTheLastCommit compares a file with a map,
// while the disk fails now and then in every way.
func TestRandomBatchesFailuresAndRestartsKeepTheLastCommit(t *testing.T) {
	for n := range 60 / uint64(everyNth()) {
		m := &model{r: rand.New(rand.NewPCG(*seed, n)), disk: newMemory()}
		m.f = open(t, m.disk)
		for range 40 {
			if m.r.IntN(5) == 0 {
				m.restart(t)
			} else {
				m.batch(t)
			}
			if t.Failed() {
				t.Fatalf("run %d of seed %d", n, *seed)
			}
		}
		m.restart(t)
	}
}

// harm lets the disk fail during one batch.
func (m *model) harm() {
	switch m.r.IntN(4) {
	case 0:
		m.disk.room = m.r.IntN(3000)
	case 1:
		for _, what := range []string{"open", "replace", "remove", "write", "truncate", "sync"} {
			m.disk.broken[what] = m.r.IntN(4) == 0
		}
	}
}

func (m *model) batch(t *testing.T) {
	t.Helper()
	m.harm()
	defer func() { m.disk.room, m.disk.broken = -1, map[string]bool{} }()
	begin, next := m.f.Append, maps.Clone(m.now)
	if m.now == nil || !m.f.Holds() || m.r.IntN(4) == 0 {
		begin, next = m.f.Rewrite, map[string]int{}
	}
	b, err := begin()
	if err != nil {
		return
	}
	for range m.r.IntN(30) {
		name, value := fmt.Sprint("o", m.r.IntN(12)), m.r.IntN(100)-30
		if value < 0 {
			delete(next, name)
		} else {
			next[name] = value
		}
		err = errors.Join(err, add(b, map[string]int{name: value}))
	}
	if m.r.IntN(6) == 0 {
		b.Abort()
		return
	}
	m.at++
	before, held := m.f.State(), m.f.Holds()
	if err = errors.Join(err, b.Commit(stateOf(m.at, len(next)))); err == nil {
		m.now = next
		return
	}
	if !m.f.Holds() && held {
		m.lost(t, next)
	} else if diff := cmp.Diff(before, m.f.State()); diff != "" {
		t.Errorf("a commit that failed (%v) changed the state: %s", err, diff)
	}
}

// restart is what another program finds; sometimes the first one has crashed.
func (m *model) restart(t *testing.T) {
	t.Helper()
	if m.r.IntN(2) == 0 {
		m.disk = m.disk.clone()
	} else if err := m.f.Close(); err != nil {
		t.Fatal(err)
	}
	m.f = open(t, m.disk)
	if diff := cmp.Diff(m.now, load(t, m.f)); diff != "" {
		t.Errorf("another state comes back: %s", diff)
	}
	for name := range m.disk.files {
		if strings.HasSuffix(name, ".new") {
			t.Errorf("%s was left behind", name)
		}
	}
}

// lost is what follows when the file could be replaced but not opened, or neither: it
// is one of the two states.
func (m *model) lost(t *testing.T, next map[string]int) {
	t.Helper()
	got := load(t, open(t, m.disk.clone()))
	if !cmp.Equal(got, m.now) && !cmp.Equal(got, next) {
		t.Errorf("neither the old state nor the new one comes back: %v", got)
	}
	m.now = got
}
