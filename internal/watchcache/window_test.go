package watchcache_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

func TestWindowKeepsItsBounds(t *testing.T) {
	for _, test := range []struct {
		name       string
		cfg        watchcache.Config
		size       int
		appended   int   // entries
		min, max   int   // entries kept
		maxInBytes int64 // 0: not checked
	}{
		{"default entries", watchcache.Config{}, 1, 5000, 4096 - 256, 4096, 16 << 20},
		{"few entries", watchcache.Config{MaxEntries: 32}, 1, 500, 30, 32, 0},
		{"one entry", watchcache.Config{MaxEntries: 1}, 1, 500, 1, 1, 0},
		{"bytes", watchcache.Config{MaxBytes: 1 << 20}, 10_000, 500, 45, 52, 1 << 20},
		{"objects larger than the bound", watchcache.Config{MaxBytes: 1000}, 10_000, 100, 1, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, test.cfg)
			last := kube.ResourceVersion(100 + test.appended)
			for rv := kube.ResourceVersion(101); rv <= last; rv++ {
				f.put(rv, thing{name: "x", size: test.size})
			}
			got := f.cache.Stats()
			if got.Entries < test.min || got.Entries > test.max {
				t.Errorf("%d entries, want %d to %d", got.Entries, test.min, test.max)
			}
			if test.maxInBytes > 0 && got.Bytes > test.maxInBytes {
				t.Errorf("%d bytes, want at most %d", got.Bytes, test.maxInBytes)
			}
			if want := last - kube.ResourceVersion(got.Entries); got.Gone != want {
				t.Errorf("the window begins after %d, want %d", got.Gone, want)
			}
		})
	}
}

func TestForgetDropsExactlyWhatWasCompacted(t *testing.T) {
	f := newFixture(t, watchcache.Config{MaxEntries: 64}) // chunks of 4
	for rv := kube.ResourceVersion(102); rv <= 140; rv += 2 {
		f.put(rv, thing{name: "x"})
	}
	for _, step := range []struct {
		upTo, gone kube.ResourceVersion
		entries    int
	}{
		{101, 100, 20},
		{102, 102, 19},
		{107, 106, 17},
		{106, 106, 17},
		{108, 108, 16},
		{139, 138, 1},
		{140, 140, 0},
		{999, 140, 0},
	} {
		f.cache.Forget(step.upTo)
		if got := f.cache.Stats(); got.Gone != step.gone || got.Entries != step.entries {
			t.Errorf("after Forget(%d): %d entries after %d, want %d after %d",
				step.upTo, got.Entries, got.Gone, step.entries, step.gone)
		}
	}
	if got := f.cache.Stats(); got.Bytes != 0 {
		t.Errorf("an empty window claims %d bytes", got.Bytes)
	}
	f.put(142, thing{name: "x"})
	if got := f.cache.Stats(); got.Entries != 1 || got.Gone != 140 || got.RV != 142 || got.Objects != 1 {
		t.Errorf("after one more entry: %+v", got)
	}
}

func TestAppendOutOfOrderPanics(t *testing.T) {
	for _, rvs := range [][]kube.ResourceVersion{{100}, {102, 101}} {
		f := newFixture(t, watchcache.Config{})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Append of %d after 100 does not panic", rvs)
				}
			}()
			var entries []*watchcache.Entry
			for _, rv := range rvs {
				entries = append(entries, watchcache.NewEntry(rv, thing{name: "x"}.at(t, rv), nil))
			}
			f.cache.Append(entries...)
		}()
	}
}

func TestOneRevisionIsAppendedAtOnce(t *testing.T) {
	f := newFixture(t, watchcache.Config{})
	both := func(rv kube.ResourceVersion) []*watchcache.Entry {
		return []*watchcache.Entry{
			watchcache.NewEntry(rv, thing{name: "x"}.at(t, rv), nil),
			watchcache.NewEntry(rv, thing{name: "y"}.at(t, rv), nil),
		}
	}
	f.cache.Append(both(101)...)
	if got := f.cache.Stats(); got.Entries != 2 || got.Objects != 2 || got.RV != 101 {
		t.Errorf("after two changes at 101: %+v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a part of a revision is appended later")
		}
	}()
	f.cache.Append(both(102)[:1]...)
	f.cache.Append(both(102)[1:]...)
}

func TestAppendTakesPreviousFromTheCache(t *testing.T) {
	f := newFixture(t, watchcache.Config{})
	first := f.put(101, thing{name: "x"})
	again := thing{name: "x"}.at(t, 101) // equal, but another copy in memory
	e := watchcache.NewEntry(102, thing{name: "x", app: "new"}.at(t, 102), again)
	f.cache.Append(e)
	if e.Previous != first {
		t.Error("the entry keeps its own copy of the previous object")
	}
}
