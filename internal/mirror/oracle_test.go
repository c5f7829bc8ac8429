package mirror_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// event is a change at the source.
type event struct {
	rv     kube.ResourceVersion
	name   string
	object string // "": it was deleted
}

// state is what a collection of the source holds: the last event of each object.
type state map[string]event

func (s state) apply(e event) {
	if s[e.name] = e; e.object == "" {
		delete(s, e.name)
	}
}

// source is one collection of the other server.
type source struct {
	events []event
	head   kube.ResourceVersion // every event up to here has happened
}

// at returns the state at a resourceVersion.
func (s *source) at(rv kube.ResourceVersion) state {
	result := state{}
	for _, e := range s.events {
		if e.rv <= rv {
			result.apply(e)
		}
	}
	return result
}

// after returns the events after a resourceVersion.
func (s *source) after(rv kube.ResourceVersion) []event {
	i := slices.IndexFunc(s.events, func(e event) bool { return e.rv > rv })
	if i < 0 {
		return nil
	}
	return s.events[i:]
}

// change lets some events happen, now and then several at one resourceVersion.
func (s *source) change(r *rand.Rand, rv kube.ResourceVersion) kube.ResourceVersion {
	now := s.at(rv)
	for range 1 + r.IntN(5) {
		rv += kube.ResourceVersion(1 + r.IntN(3))
		taken := map[string]bool{}
		for range []int{1, 1, 1, 1, 2, 3}[r.IntN(6)] {
			e := event{rv: rv, name: fmt.Sprintf("o%d", r.IntN(9))}
			if taken[e.name] {
				continue
			}
			taken[e.name] = true
			if _, there := now[e.name]; !there || r.IntN(3) > 0 {
				e.object = fmt.Sprintf(`{"n":%q,"v":%d,"x":"%0*d"}`, e.name, rv, []int{1, 1, 100, 3000}[r.IntN(4)], 7)
			}
			s.events = append(s.events, e)
			now.apply(e)
		}
	}
	s.head = rv
	return rv
}

// span is a stretch of resourceVersions, with its ends, whose states are known.
type span struct{ from, to kube.ResourceVersion }

// row is a position that the mirror returned: the state at rv is in the log at rev.
type row struct {
	rev int64
	rv  kube.ResourceVersion
}

// oracle is what the mirror must know of a collection.
type oracle struct {
	name   string
	source *source
	spans  []span
	rows   []row
	begins []int64              // revisions at or before the begin of each Replace
	gone   map[int64]event      // deletions, by their revision, with the resourceVersion to show
	torn   bool                 // a Replace was cut off
	before kube.ResourceVersion // up to here there was a former history
	kept   int64                // up to where history was compacted when the collection was opened

	// attempt is what may be found after a restart in addition.
	attempt attempt
}

// attempt is a write whose end is not known.
type attempt struct {
	replaces bool
	to       kube.ResourceVersion // 0: none
	rewrites bool
}

func (o *oracle) reached() kube.ResourceVersion {
	if len(o.spans) == 0 {
		return 0
	}
	return o.spans[len(o.spans)-1].to
}

// reach says that everything up to rv is known.
func (o *oracle) reach(rv kube.ResourceVersion) {
	if last := len(o.spans) - 1; last >= 0 {
		o.spans[last].to = max(o.spans[last].to, rv)
	}
}

// recorded notes a recorded change.
func (o *oracle) recorded(rev int64, rv kube.ResourceVersion) {
	if len(o.spans) == 0 {
		o.spans = []span{{rv, rv}}
	}
	o.rows = append(o.rows, row{rev, rv})
	o.reach(rv)
}

// replaced notes a Replace.
func (o *oracle) replaced(rev int64, rv kube.ResourceVersion) {
	o.torn = false
	o.spans = append(o.spans, span{rv, rv})
	o.rows = append(o.rows, row{rev, rv})
}

func (o *oracle) known(rv kube.ResourceVersion) bool {
	return slices.ContainsFunc(o.spans, func(s span) bool { return s.from <= rv && rv <= s.to })
}

// kept reports whether the position of a known resourceVersion must be there: compaction up to
// floor needs it, and nothing was changed between it and the last opening's compaction.
func (o *oracle) mustHave(rv kube.ResourceVersion, floor int64) bool {
	i := -1
	for at, row := range o.rows {
		if row.rv <= rv {
			i = at
		}
	}
	if i < 0 || o.rows[i].rev < floor {
		return false
	}
	begun := slices.ContainsFunc(o.begins, func(rev int64) bool { return rev >= o.rows[i].rev && rev < o.kept })
	return !begun && (i+1 == len(o.rows) || o.rows[i+1].rev > o.kept)
}

// interesting returns the resourceVersions that are asked about.
func (o *oracle) interesting() []kube.ResourceVersion {
	all := map[kube.ResourceVersion]bool{0: true, o.before: true, o.before + 1: true, o.source.head + 1: true, 1 << 62: true}
	around := func(rv kube.ResourceVersion) {
		all[rv], all[rv+1] = true, true
		if rv > 0 {
			all[rv-1] = true
		}
	}
	for _, s := range o.spans {
		around(s.from)
		around(s.to)
	}
	for _, row := range o.rows {
		around(row.rv)
	}
	return slices.Sorted(maps.Keys(all))
}

// promises reports what a reader would miss who has a state and goes on at the source after rv.
func (o *oracle) promises(has state, rv kube.ResourceVersion) error {
	head := o.source.at(o.source.head)
	for _, e := range o.source.after(rv) { // these he sees
		delete(head, e.name)
	}
	seen := map[string]bool{}
	for _, e := range o.source.after(rv) {
		seen[e.name] = true
	}
	for name, e := range head {
		if has[name] != e {
			return fmt.Errorf("who has %v and goes on after %d misses %v", has[name], rv, e)
		}
	}
	for name, e := range has {
		if _, there := head[name]; !there && !seen[name] {
			return fmt.Errorf("who has %v and goes on after %d misses its deletion", e, rv)
		}
	}
	return nil
}

func changesOf(events []event) []mirror.Change {
	changes := make([]mirror.Change, len(events))
	for i, e := range events {
		changes[i] = mirror.Change{Key: wire.Key{Name: e.name}, RV: e.rv}
		if e.object != "" {
			changes[i].Object = []byte(e.object)
		}
	}
	return changes
}
