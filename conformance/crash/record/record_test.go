package record_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless/conformance/crash/record"
)

// world is a record of a small run, which each case falsifies in one place: one
// object was created at 10, updated at 11 and deleted at 12, and another one
// created at 13. A watcher saw all of it, and a reader listed at 11.
type world struct {
	r        *record.Record
	w        *record.Watch
	attempts map[string]*record.Attempt
	listed   record.List
	final    record.List
	skip     string                // an event that the watcher does not see
	event    func(*record.Version) // changes what the watcher sees at 11
	then     func()                // what else happens
}

const resource = "configmaps"

func key(name string) record.Key {
	return record.Key{Resource: resource, Namespace: "a", Name: name}
}

func (w *world) version(a string, rv int64) record.Version {
	at := w.attempts[a]
	return record.Version{Key: at.Key, RV: rv, UID: "uid-" + at.Key.Name, ID: at.ID, Pad: at.Content()}
}

func newWorld() *world { return newWorldOf(record.New()) }

func newWorldOf(r *record.Record) *world {
	w := &world{r: r, attempts: map[string]*record.Attempt{}}
	w.w = w.r.Watch("the watcher", record.Scope{Resource: resource})
	w.w.Listed(5, nil)
	w.r.Check([]record.List{{Scope: w.w.Scope, RV: 5}}, []*record.Watch{w.w})
	w.attempts["create"] = w.r.Begin(record.Attempt{Key: key("x"), Kind: record.Create, Size: 50})
	w.r.Written(w.attempts["create"], w.version("create", 10), 5)
	w.attempts["update"] = w.r.Begin(record.Attempt{Key: key("x"), Kind: record.Update, If: 10, Size: 60})
	w.r.Written(w.attempts["update"], w.version("update", 11), 10)
	w.listed = record.List{Scope: w.w.Scope, RV: 11, Items: []record.Version{w.version("update", 11)}}
	w.attempts["delete"] = w.r.Begin(record.Attempt{Key: key("x"), Kind: record.Delete})
	w.r.Removed(w.attempts["delete"], "uid-x")
	w.attempts["second"] = w.r.Begin(record.Attempt{Key: key("y"), Kind: record.Create, Size: 70})
	w.r.Written(w.attempts["second"], w.version("second", 13), 12)
	w.attempts["refused"] = w.r.Begin(record.Attempt{Key: key("x"), Kind: record.Replace, Size: 50})
	w.r.Refuse(w.attempts["refused"])
	w.attempts["killed"] = w.r.Begin(record.Attempt{Key: key("y"), Kind: record.Replace, Size: 50})
	w.r.Doubt(w.attempts["killed"])
	w.final = record.List{Scope: w.w.Scope, RV: 13, Items: []record.Version{w.version("second", 13)}}
	return w
}

// play shows the events to the watcher, and checks.
func (w *world) play() []string {
	for _, e := range []struct {
		kind, attempt string
		rv            int64
	}{{"ADDED", "create", 10}, {"MODIFIED", "update", 11}, {"DELETED", "update", 12}, {"ADDED", "second", 13}} {
		v := w.version(e.attempt, e.rv)
		if w.event != nil && e.rv == 11 {
			w.event(&v)
		}
		if e.kind != w.skip {
			w.w.Event(e.kind, v)
		}
	}
	if w.then != nil {
		w.then()
	}
	w.r.Listed(w.listed, "a LIST")
	w.r.Check([]record.List{w.final}, []*record.Watch{w.w})
	return w.r.Violations(0)
}

func TestCheckDetectsFalsifiedRecords(t *testing.T) {
	for _, c := range []struct {
		name    string
		falsify func(w *world)
		want    string // a part of a violation; empty: there is none
	}{
		{"as it was", func(*world) {}, ""},
		{"an acknowledged write is lost", func(w *world) { w.final.Items = nil }, "the LIST lacks"},
		{"a deleted object is back", func(w *world) {
			w.final.Items = append(w.final.Items, w.version("update", 11))
		}, "is later"},
		{"the state goes back", func(w *world) { w.final.RV = 12 }, "had been given"},
		{"a watcher misses a change", func(w *world) { w.skip = "MODIFIED" }, "missed"},
		{"a watcher misses a deletion", func(w *world) { w.skip = "DELETED" }, "watcher"},
		{"an event repeats", func(w *world) { w.event = func(v *record.Version) { v.RV = 10 } }, "comes after 10"},
		{"an event goes back", func(w *world) { w.event = func(v *record.Version) { v.RV = 9 } }, "comes after 10"},
		{"a resourceVersion is given twice", func(w *world) {
			w.event = func(v *record.Version) { *v = w.version("create", 11) }
		}, "resourceVersion 11 is"},
		{
			"an event shows another content", func(w *world) { w.event = func(v *record.Version) { v.Pad = v.Pad[1:] + "x" } },
			"not those of attempt",
		},
		{
			"an event shows a part of the content", func(w *world) { w.event = func(v *record.Version) { v.Pad = v.Pad[1:] } },
			"not those of attempt",
		},
		{
			"an event shows what nobody wrote", func(w *world) { w.event = func(v *record.Version) { v.RV, v.ID = 99, 99 } },
			"nobody wrote",
		},
		{"a refused write takes effect", func(w *world) {
			w.event = func(v *record.Version) { *v = w.version("refused", 11) }
		}, "resourceVersion 11 is"},
		{"a list is stale", func(w *world) { w.listed.RV = 13 }, "a LIST of configmaps at 13"},
		{"a list lacks an object", func(w *world) { w.listed.Items = nil }, "a LIST of configmaps at 11"},
		{"a killed write took effect and was seen", func(w *world) {
			w.then = func() { w.w.Event("MODIFIED", w.version("killed", 14)) }
			w.final.RV, w.final.Items = 14, []record.Version{w.version("killed", 14)}
		}, ""},
		{"a write takes effect after its process was killed", func(w *world) {
			w.play()
			w.w.Event("MODIFIED", w.version("killed", 20))
			w.final.RV, w.final.Items = 20, []record.Version{w.version("killed", 20)}
			w.listed = w.final
			w.r.Check([]record.List{w.final}, []*record.Watch{w.w})
		}, "after its process had been killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.falsify(w)
			got := strings.Join(w.play(), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("the violations are:\n%s\nwant one with %q", got, c.want)
			}
		})
	}
}

func TestChangesDuringAGapNeedNotBeSeen(t *testing.T) {
	w := newWorld()
	w.w.Event("ADDED", w.version("create", 10))
	w.w.Gap("", "too old resource version: 10 (12)")
	w.w.Listed(13, []record.Version{w.version("second", 13)})
	w.r.Check([]record.List{w.final}, []*record.Watch{w.w})
	if got := w.r.Violations(0); len(got) > 0 {
		t.Errorf("the violations are:\n%s", strings.Join(got, "\n"))
	}
	if w.r.Totals().Gaps != 1 {
		t.Errorf("%d gaps were counted", w.r.Totals().Gaps)
	}
}

func TestGapWithoutAReasonIsAViolation(t *testing.T) {
	for _, message := range []string{"too old resource version: 10 (10)", "gone"} {
		w := newWorld()
		w.w.Event("ADDED", w.version("create", 10))
		w.w.Gap("", message)
		if len(w.r.Violations(0)) != 1 {
			t.Errorf("%q: the violations are %q", message, w.r.Violations(0))
		}
	}
}
