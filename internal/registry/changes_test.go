package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// changesOf reads changes page by page and checks that the pages cover the span without a gap.
func (s *server) changesOf(q question, set func(o *wire.ChangesOptions)) (all []wire.Change) {
	s.t.Helper()
	o := wire.ChangesOptions{ListOptions: options(nil), Previous: true}
	o.Limit = q.limit
	o.Labels, _ = labels.Parse(q.labels)
	if q.name != "" && q.namespace == "" {
		o.Fields = fields.OneTermEqualSelector("metadata.name", q.name)
	}
	set(&o)
	at := s.at("configmaps", q.namespace)
	if q.namespace != "" {
		at.Name = q.name
	}
	var last *wire.Changes
	for {
		page, err := s.Changes(s.t.Context(), at, o)
		if err != nil {
			s.t.Fatalf("changes of %+v: %v", q, err)
		}
		switch {
		case int64(len(page.Items)) > q.limit:
			s.t.Errorf("%+v: a page has %d changes", q, len(page.Items))
		case last != nil && o.Newest && page.UpTo != last.After, last != nil && !o.Newest && page.After != last.UpTo:
			s.t.Errorf("%+v: after a page from %d to %d comes one from %d to %d", q, last.After, last.UpTo, page.After, page.UpTo)
		}
		for _, c := range page.Items {
			if c.ResourceVersion <= page.After || c.ResourceVersion > page.UpTo {
				s.t.Errorf("%+v: a page after %d up to %d has a change at %d", q, page.After, page.UpTo, c.ResourceVersion)
			}
		}
		all = append(all, page.Items...)
		if page.Next.IsZero() {
			return all
		}
		o.Token, o.After, o.UpTo, last = page.Next, wire.Moment{}, wire.Moment{}, page
	}
}

// described is what a test compares of a change.
func described(e wire.WatchEvent) string {
	return fmt.Sprintf("%s %d %s", e.Type, e.ResourceVersion, e.Object.JSON())
}

// What a watch has seen is what is read later, in both orders and in pages, also from the disk.
func TestChangesAreThoseThatAWatchHasSeen(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := serve(t)
	begin := s.list(s.at("configmaps"), nil).ResourceVersion
	states := live(t, s, r, 250)
	end := s.list(s.at("configmaps"), nil).ResourceVersion
	for _, q := range []question{
		{limit: 1 + r.Int64N(20)},
		{limit: 1000},
		{namespace: "a", limit: 1 + r.Int64N(9)},
		{namespace: "a-b", limit: 1},
		{labels: "app=a1", limit: 1 + r.Int64N(5)},
		{namespace: "default", labels: "app!=a2", limit: 3},
		{name: "c07", limit: 2},
		{name: "c07", namespace: "a", limit: 2},
		{namespace: "nowhere", limit: 1},
	} {
		want := s.seen(q, begin, end)
		for _, newest := range []bool{false, true} {
			got := []string{}
			for _, c := range s.changesOf(q, func(o *wire.ChangesOptions) { o.Newest = newest }) {
				got = append(got, described(c.WatchEvent))
				if before := earlier(states, c); c.Type == kube.Modified && (c.Previous == nil || before == nil ||
					string(c.Previous.JSON()) != string(before.JSON())) {
					t.Errorf("%+v: before %s %d it was not %v", q, c.Object.Key(), c.ResourceVersion, c.Previous)
				}
			}
			if newest {
				slices.Reverse(got)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%+v, newest first %t (-watch +changes):\n%s", q, newest, diff)
			}
		}
	}
}

// seen is what a watch of a question's selection gets between two resourceVersions.
func (s *server) seen(q question, begin, end kube.ResourceVersion) []string {
	s.t.Helper()
	w := s.watch(s.at("configmaps", q.namespace), func(o *wire.ListOptions) {
		o.Watch, o.ResourceVersion = true, begin.String()
		o.Labels, _ = labels.Parse(q.labels)
		if q.name != "" {
			o.Fields = fields.OneTermEqualSelector("metadata.name", q.name)
		}
	})
	all := []string{}
	for w.Position() < end {
		soon, stop := context.WithTimeout(s.t.Context(), 50*time.Millisecond)
		events, err := w.Next(soon)
		stop()
		if err != nil && soon.Err() == nil {
			s.t.Fatalf("watch: %v", err)
		}
		for _, e := range events {
			all = append(all, described(e))
		}
	}
	return all
}

// earlier returns an object as it was before a change.
func earlier(states past, c wire.Change) (o *wire.Object) {
	var at kube.ResourceVersion
	for rv, state := range states {
		if rv >= c.ResourceVersion || rv < at {
			continue
		}
		for _, other := range state {
			if other.Key() == c.Object.Key() {
				o, at = other, rv
			}
		}
	}
	return o
}

// At the time of each change the state is that of the last change with this time.
func TestTheStateAtATimeIsThatOfTheLastChangeByThen(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	s := serve(t)
	states := live(t, s, r, 120)
	changes := s.changesOf(question{limit: 100}, func(*wire.ChangesOptions) {})
	for i, c := range changes {
		if i+1 < len(changes) && changes[i+1].Time.Equal(c.Time) {
			continue
		}
		at := c.Time.Add(999 * time.Microsecond) // times are of ms
		list := s.list(s.at("configmaps"), func(o *wire.ListOptions) { o.At = at })
		if list.ResourceVersion != c.ResourceVersion {
			t.Fatalf("at the time of change %d the resourceVersion was %d", c.ResourceVersion, list.ResourceVersion)
		}
		if diff := cmp.Diff(texts(states[c.ResourceVersion]), texts(items(list))); diff != "" {
			t.Fatalf("the state at the time of change %d (-want +got):\n%s", c.ResourceVersion, diff)
		}
		key := c.Object.Key()
		o, rv, err := s.GetPast(t.Context(), s.at("configmaps", key.Namespace, key.Name), wire.Moment{At: at})
		switch {
		case c.Type == kube.Deleted:
			if wire.StatusOf(err).Code != 404 {
				t.Errorf("a deleted object: %v, %v", o, err)
			}
		case err != nil || rv != c.ResourceVersion || string(o.JSON()) != string(c.Object.JSON()):
			t.Errorf("the object of change %d then: %v at %d, %v", c.ResourceVersion, o, rv, err)
		}
		since := s.changesOf(question{limit: 7}, func(o *wire.ChangesOptions) { o.After.At = at })
		if len(since) != len(changes)-i-1 {
			t.Errorf("since change %d of %d there are %d", i, len(changes), len(since))
		}
		until := s.changesOf(question{limit: 7}, func(o *wire.ChangesOptions) { o.UpTo.At, o.Newest = at, true })
		if len(until) != i+1 {
			t.Errorf("until change %d there are %d", i, len(until))
		}
	}
}

func texts(objects []*wire.Object) []string {
	all := []string{}
	for _, o := range objects {
		all = append(all, string(o.JSON()))
	}
	return all
}

// What was removed is refused by its resourceVersion and by its time; without either history begins where it does.
func TestWhatIsCompactedIsNotShownAsIfItWereAll(t *testing.T) {
	s := serve(t)
	cms := s.at("configmaps", "default")
	first := s.create(cms, configMap("a"))
	<-time.After(5 * time.Millisecond)
	at := time.Now()
	<-time.After(5 * time.Millisecond)
	for i := range 5 {
		s.merge(s.at("configmaps", "default", "a"), fmt.Sprintf(`{"data":{"a":"%d"}}`, i+5))
	}
	floor := s.list(cms, nil).ResourceVersion
	floored := time.Now()
	<-time.After(5 * time.Millisecond)
	s.merge(s.at("configmaps", "default", "a"), `{"data":{"a":"after"}}`)
	if _, err := s.Compact(t.Context(), store.Compaction{UpTo: int64(floor)}); err != nil {
		t.Fatalf("compact: %v", err)
	}
	for _, set := range []func(o *wire.ChangesOptions){
		func(o *wire.ChangesOptions) { o.After.RV = first.ResourceVersion() },
		func(o *wire.ChangesOptions) { o.After.At = at },
		func(o *wire.ChangesOptions) { o.UpTo.At = at },
		func(o *wire.ChangesOptions) { o.After.RV, o.Newest = first.ResourceVersion(), true },
	} {
		o := wire.ChangesOptions{ListOptions: options(func(o *wire.ListOptions) { o.Limit = 10 })}
		set(&o)
		page, err := s.Changes(t.Context(), cms, o)
		if e, is := errors.AsType[*kube.ExpiredError](err); !is || e.Oldest != floor || e.OldestTime.Before(at) {
			t.Errorf("%+v: %+v, %+v", o, page, err)
		}
	}
	_, err := s.List(t.Context(), cms, options(func(o *wire.ListOptions) { o.At = at }))
	if e, is := errors.AsType[*kube.ExpiredError](err); !is || !e.RequestedTime.Equal(at) || e.Oldest != floor {
		t.Errorf("a list at a time that is compacted: %v", err)
	}
	if got := s.changesOf(question{limit: 10}, func(*wire.ChangesOptions) {}); len(got) != 1 || got[0].ResourceVersion <= floor {
		t.Errorf("all that is kept: %v", got)
	}
	mixed := wire.ChangesOptions{ListOptions: options(func(o *wire.ListOptions) { o.Limit = 10 })}
	mixed.After.RV, mixed.UpTo.At = s.list(cms, nil).ResourceVersion, floored
	if page, err := s.Changes(t.Context(), cms, mixed); wire.StatusOf(err).Code != 422 ||
		!strings.Contains(err.Error(), "after is forbidden where it is later than until") {
		t.Errorf("changes after a resourceVersion until an earlier time: %+v, %v", page, err)
	}
	future := wire.ChangesOptions{ListOptions: options(func(o *wire.ListOptions) { o.Limit = 10 })}
	future.UpTo.At = time.Now().Add(time.Hour)
	if _, err := s.Changes(t.Context(), cms, future); wire.StatusOf(err).Code != 422 {
		t.Errorf("until a time in the future: %v", err)
	} else if !strings.Contains(err.Error(), "until: Invalid value") {
		t.Errorf("it does not say which time is in the future: %v", err)
	}
}
