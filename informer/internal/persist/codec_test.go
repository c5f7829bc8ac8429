package persist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/persist"
)

// definition refers to itself, as a CustomResourceDefinition does.
type definition struct {
	metav1.ObjectMeta `json:"metadata"`

	Schema *schemaProps `json:"schema,omitempty"`
}

type schemaProps struct {
	Properties map[string]schemaProps `json:"properties,omitempty"`
	Items      *schemaProps           `json:"items,omitempty"`
}

type withHidden struct {
	metav1.ObjectMeta `json:"metadata"`

	once sync.Once //nolint:unused // that it is there is what counts
}

type withLeftOut struct {
	Spec []map[string]struct {
		Computed int `json:"-"`
	}
}

type withFunc struct{ F func() }

type answering struct{ hidden int }

func (a *answering) MarshalJSON() ([]byte, error) { return json.Marshal(a.hidden) }
func (a *answering) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &a.hidden) }

type onlyInto struct{ hidden int }

func (a *onlyInto) MarshalJSON() ([]byte, error) { return json.Marshal(a.hidden) }

func TestTypesThatJSONRestoresHaveAShape(t *testing.T) {
	type renamed struct {
		A int `json:"b"`
	}
	type retyped struct {
		A string `json:"a"`
	}
	type one struct {
		A int `json:"a"`
	}
	seen := map[string]reflect.Type{}
	for _, kind := range []reflect.Type{
		reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*corev1.Secret](), reflect.TypeFor[*appsv1.Deployment](),
		reflect.TypeFor[*unstructured.Unstructured](), reflect.TypeFor[*metav1.PartialObjectMetadata](),
		reflect.TypeFor[*definition](), reflect.TypeFor[*thing](),
		reflect.TypeFor[*answering](), reflect.TypeFor[struct{ X answering }](),
		reflect.TypeFor[*one](), reflect.TypeFor[*renamed](), reflect.TypeFor[*retyped](),
	} {
		shape, err := persist.Shape(kind)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if again, err := persist.Shape(kind); again != shape || err != nil {
			t.Errorf("%s has the shapes %s and %s (%v)", kind, shape, again, err)
		}
		// The fields count, not only the name.
		_, shape, _ = strings.Cut(shape, " ")
		if other, is := seen[shape]; is {
			t.Errorf("%s and %s have one shape", kind, other)
		}
		seen[shape] = kind
	}
}

func TestTypesThatJSONCannotRestoreAreAnError(t *testing.T) {
	for _, c := range []struct {
		kind reflect.Type
		want string
	}{
		{reflect.TypeFor[*withHidden](), "withHidden.once is not in their JSON"},
		{reflect.TypeFor[*withLeftOut](), "withLeftOut.Spec.Computed is not in their JSON"},
		{reflect.TypeFor[*withFunc](), "withFunc.F is a func"},
		{reflect.TypeFor[*onlyInto](), "onlyInto.hidden"},
	} {
		if _, err := persist.Shape(c.kind); !errors.Is(err, persist.ErrLossy) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.kind, err, c.want)
		}
	}
}

// states are the states of a cache: maps that nobody changes.
type states struct {
	mu sync.Mutex
	// mu guards now and of.
	now map[string]*thing
	of  persist.State
}

func (s *states) set(now map[string]*thing, position int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.of = now, persist.State{Positions: map[string]string{"": fmt.Sprint(position)}, Objects: len(now)}
}

func (s *states) cache() persist.Cache[*thing, map[string]*thing] {
	all := func(m map[string]*thing) iter.Seq2[handle.Key, *thing] {
		return func(yield func(handle.Key, *thing) bool) {
			for name, o := range m {
				if !yield(handle.Key{Namespace: "ns", Name: name}, o) {
					return
				}
			}
		}
	}
	return persist.Cache[*thing, map[string]*thing]{
		Take: func() (map[string]*thing, persist.State, bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.now, s.of, s.now != nil
		},
		All: all,
		Changes: func(newer, older map[string]*thing) iter.Seq2[handle.Key, *thing] {
			changes := map[string]*thing{}
			for name, o := range newer {
				if older[name] != o {
					changes[name] = o
				}
			}
			for name := range older {
				if newer[name] == nil {
					changes[name] = nil
				}
			}
			return all(changes)
		},
	}
}

// writing is a writer that runs, and what it reported.
type writing struct {
	*persist.Writer[*thing, map[string]*thing]

	mu sync.Mutex
	// mu guards errs.
	errs []error
}

func (w *writing) report(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

func (w *writing) reported() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	errs := w.errs
	w.errs = nil
	return errs
}

const period = 5 * time.Second

func newWriting(s *states, c persist.Codec[*thing], disk persist.Disk) *writing {
	w := &writing{}
	w.Writer = persist.NewWriter(s.cache(), c, persist.Settings{
		Open:   func() (*persist.File, error) { return persist.Open(disk, identity()) },
		Period: period, Report: w.report,
	})
	return w
}

// run runs the writer on its file until stop is called.
func (w *writing) run(t *testing.T) (stop func()) {
	t.Helper()
	w.Begin()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
		w.Finish(ctx)
	}
}

// kept is what a program that starts now would find.
func kept(t *testing.T, disk *memory) (map[string]int, string) {
	t.Helper()
	f := open(t, disk.clone())
	return load(t, f), f.State().Positions[""]
}

// sleep lets the bubble's time pass.
func sleep(d time.Duration) { <-time.After(d) }

func things(values map[string]int) map[string]*thing {
	m := map[string]*thing{}
	for name, value := range values {
		m[name] = newThing(name, value)
	}
	return m
}

func TestAWriterWritesWhatChangedOncePerPeriodAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, s := newMemory(), &states{}
		w := newWriting(s, codec(), disk)
		stop := w.run(t)
		check := func(when string, want map[string]int, position string) {
			t.Helper()
			synctest.Wait()
			got, at := kept(t, disk)
			if diff := cmp.Diff(want, got); diff != "" || at != position {
				t.Errorf("%s, at %q, want %q: %s", when, at, position, diff)
			}
		}
		sleep(10 * period)
		check("before the first state", nil, "")
		now := things(map[string]int{"a": 1, "b": 2})
		s.set(now, 10)
		check("at once", nil, "")
		sleep(period)
		check("after a period", map[string]int{"a": 1, "b": 2}, "10")
		now = maps.Clone(now)
		delete(now, "a")
		now["c"] = newThing("c", 3)
		s.set(now, 11)
		sleep(period)
		check("after a change", map[string]int{"b": 2, "c": 3}, "11")
		s.set(now, 12)
		sleep(period)
		check("when only the position moved", map[string]int{"b": 2, "c": 3}, "12")
		_, before := disk.only(t)
		sleep(100 * period)
		if _, after := disk.only(t); len(after) != len(before) {
			t.Errorf("%d bytes were written though nothing changed", len(after)-len(before))
		}
		s.set(things(map[string]int{"z": 1}), 13)
		stop()
		check("at the end", map[string]int{"z": 1}, "13")
		if errs := w.reported(); errs != nil {
			t.Error(errs)
		}
	})
}

func TestASecondRunAppendsUnlessAnotherProcessWroteTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, s := newMemory(), &states{}
		w := newWriting(s, codec(), disk)
		s.set(things(map[string]int{"a": 1}), 1)
		w.run(t)()
		_, first := disk.only(t)
		more := maps.Clone(s.now)
		more["b"] = newThing("b", 2)
		s.set(more, 2)
		w.run(t)()
		if _, second := disk.only(t); string(second[:len(first)]) != string(first) {
			t.Error("the second run did not append to the file")
		}
		other := open(t, disk)
		commit(t, other, map[string]int{"else": 1})
		if err := other.Close(); err != nil {
			t.Fatalf("close the other one: %v", err)
		}
		s.set(more, 3)
		w.run(t)()
		if got, at := kept(t, disk); !cmp.Equal(got, map[string]int{"a": 1, "b": 2}) || at != "3" {
			t.Errorf("after another program wrote: %v at %s", got, at)
		}
	})
}

func TestAFullDiskIsReportedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, s := newMemory(), &states{}
		w := newWriting(s, codec(), disk)
		s.set(things(map[string]int{"a": 1}), 1)
		stop := w.run(t)
		sleep(period)
		synctest.Wait()
		disk.leave(10)
		s.set(things(map[string]int{"a": 2}), 2)
		sleep(time.Hour)
		synctest.Wait()
		if got, at := kept(t, disk); !cmp.Equal(got, map[string]int{"a": 1}) || at != "1" {
			t.Errorf("with a full disk: %v at %s", got, at)
		}
		errs := w.reported()
		if len(errs) < 10 || len(errs) > 25 { // after 5, 10, … 300, 300 s
			t.Errorf("%d reports within an hour", len(errs))
		}
		for _, err := range errs {
			if !strings.Contains(err.Error(), "no space left") {
				t.Error(err)
			}
		}
		disk.leave(-1)
		sleep(5 * time.Minute)
		synctest.Wait()
		if got, at := kept(t, disk); !cmp.Equal(got, map[string]int{"a": 2}) || at != "2" {
			t.Errorf("with room again: %v at %s", got, at)
		}
		stop()
		if errs := w.reported(); errs != nil {
			t.Error(errs)
		}
	})
}

func TestObjectsThatJSONCannotRestoreAreNotWritten(t *testing.T) {
	encode := func(edit func(o *thing)) func([]byte, *thing) ([]byte, error) {
		return func(dst []byte, o *thing) ([]byte, error) {
			c := *o
			edit(&c)
			b, err := json.Marshal(&c)
			return append(dst, b...), err
		}
	}
	plain := encode(func(*thing) {})
	for name, c := range map[string]persist.Codec[*thing]{
		"another name":    {Encode: encode(func(o *thing) { o.Name = "x" }), Decode: decodeThing},
		"another uid":     {Encode: encode(func(o *thing) { o.UID = "x" }), Decode: decodeThing},
		"another version": {Encode: encode(func(o *thing) { o.ResourceVersion = "x" }), Decode: decodeThing},
		"a lost field": {Encode: plain, Decode: func(b []byte) (*thing, error) {
			o, err := decodeThing(b)
			o.Value = 0
			return o, err
		}},
		"an error": {Encode: plain, Decode: func([]byte) (*thing, error) { return nil, errors.New("no") }},
		"nothing":  {Encode: plain, Decode: func([]byte) (*thing, error) { return nil, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, s := newMemory(), &states{}
				w := newWriting(s, c, disk)
				s.set(things(map[string]int{"a": 1}), 1)
				stop := w.run(t)
				sleep(time.Hour)
				stop()
				if errs := w.reported(); len(errs) != 1 || !errors.Is(errs[0], persist.ErrLossy) ||
					!strings.Contains(errs[0].Error(), "ns/a") {
					t.Errorf("reported %v, want one ErrLossy", errs)
				}
				if got, _ := kept(t, disk); got != nil {
					t.Errorf("%v was written", got)
				}
			})
		})
	}
}

// TestTheIdentityOfEachObjectIsChecked: not only the first ones, which are decoded again.
func TestTheIdentityOfEachObjectIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, s := newMemory(), &states{}
		many := map[string]*thing{}
		for n := range 200 {
			many[fmt.Sprint("o", n)] = newThing(fmt.Sprint("o", n), n)
		}
		w := newWriting(s, persist.Codec[*thing]{Decode: decodeThing, Encode: func(dst []byte, o *thing) ([]byte, error) {
			if o.Name == "o100" {
				o = newThing("o100", 7)
			}
			b, err := json.Marshal(o)
			return append(dst, b...), err
		}}, disk)
		s.set(many, 1)
		w.run(t)()
		if errs := w.reported(); len(errs) != 1 || !errors.Is(errs[0], persist.ErrLossy) ||
			!strings.Contains(errs[0].Error(), "ns/o100") {
			t.Errorf("reported %v, want one ErrLossy of o100", errs)
		}
	})
}

func TestRunEndsDuringALargeWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, s := newMemory(), &states{}
		s.set(things(map[string]int{"a": 1}), 1)
		w := newWriting(s, persist.Codec[*thing]{Decode: decodeThing, Encode: func(dst []byte, o *thing) ([]byte, error) {
			if o.Value > 1 {
				sleep(time.Second)
				o.Annotations = map[string]string{"text": strings.Repeat("x", 300<<10)}
			}
			b, err := json.Marshal(o)
			return append(dst, b...), err
		}}, disk)
		stop := w.run(t)
		sleep(period)
		synctest.Wait()
		many := map[string]*thing{}
		for n := range 200 {
			many[fmt.Sprint("o", n)] = newThing(fmt.Sprint("o", n), n+2)
		}
		s.set(many, 2)
		sleep(period + 10*time.Second)
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("it took as long as %v", took)
		}
		if got, at := kept(t, disk); !cmp.Equal(got, map[string]int{"a": 1}) || at != "1" {
			t.Errorf("%d objects at %s, want the state before", len(got), at)
		}
		if errs := w.reported(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "no time") {
			t.Error(errs)
		}
	})
}

func TestALockedFileIsOpenedWhenItIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, s := newMemory(), &states{}
		s.set(things(map[string]int{"a": 1}), 1)
		first := newWriting(s, codec(), disk)
		stopFirst := first.run(t)
		sleep(period)
		synctest.Wait()
		second := newWriting(s, codec(), disk)
		stop := second.run(t)
		if errs := second.reported(); len(errs) != 1 || !errors.Is(errs[0], persist.ErrLocked) {
			t.Errorf("reported %v, want one ErrLocked", errs)
		}
		sleep(time.Minute)
		stopFirst()
		second.reported()
		s.set(things(map[string]int{"b": 1}), 2)
		sleep(5 * time.Minute)
		synctest.Wait()
		if got, at := kept(t, disk); !cmp.Equal(got, map[string]int{"b": 1}) || at != "2" {
			t.Errorf("%v at %s", got, at)
		}
		stop()
		if errs := append(first.reported(), second.reported()...); len(errs) > 1 {
			t.Error(errs)
		}
	})
}
