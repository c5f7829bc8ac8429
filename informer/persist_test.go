package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
)

// program is an informer with a handler, as one program would have from start to exit.
type program struct {
	*informer.Informer[*thing]

	recorder  *recorder
	mu        sync.Mutex
	incidents []informer.Incident // guarded by mu
}

func newProgram(create func(...informer.Option) *informer.Informer[*thing], opts ...informer.Option) *program {
	l := &program{recorder: newRecorder()}
	l.Informer = create(append(opts, informer.OnError(func(in informer.Incident) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.incidents = append(l.incidents, in)
	}))...)
	l.Handle(l.recorder.handle)
	return l
}

// live runs the informer for a minute and then calls f.
func (l *program) live(t *testing.T, f func()) *program {
	t.Helper()
	run(t, l.Informer, func() {
		after(time.Minute)
		f()
	})
	l.recorder.check(t)
	return l
}

func nothing() {}

// failed returns the incidents of Persist.
func (l *program) failed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, in := range l.incidents {
		if in.Kind == informer.PersistFailed {
			all = append(all, in.Err.Error())
		}
	}
	return strings.Join(all, "; ")
}

// serverWith returns a server of n things, o0 with value 0 and so on.
func serverWith(n int) *server {
	w := newServer()
	for i := range n {
		w.Put(fmt.Sprint("o", i), i)
	}
	return w
}

// slow delays the server's answers by a second, so that the handler gets the state on disk
// before the changes since; otherwise they are merged into one event.
func slow(w *server) { w.Fail(func(request) fault { return fault{Delay: time.Second} }) }

// since returns the requests after the nth, without the list of one object that checks
// whether the server still has the file's history.
func since(w *server, n int) []string {
	return slices.DeleteFunc(kinds(w)[n:], func(r string) bool { return strings.HasPrefix(r, "COMPARE") })
}

func flagged(l *program, flag string) (with, without []string) {
	for _, line := range l.recorder.lines() {
		if strings.Contains(line, flag) {
			with = append(with, line)
		} else {
			without = append(without, line)
		}
	}
	return with, without
}

func TestANewProgramResumesTheWatchWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(1000), informer.Persist(t.TempDir())
		first := newProgram(w.informer, dir).live(t, nothing)
		at, before := first.ResourceVersion(), len(w.Requests())
		changed := map[string]bool{}
		for i := range 500 {
			switch name := fmt.Sprint("o", i*2); i % 5 {
			case 0:
				w.Delete(name)
				changed["Deleted "+name] = true
			case 1:
				w.Put("new-"+name, i)
				changed["Added new-"+name] = true
			default:
				w.Put(name, -1)
				changed["Modified "+name] = true
			}
		}
		slow(w)
		second := newProgram(w.informer, dir).live(t, nothing)
		if diff := cmp.Diff([]string{"WATCH rv=" + at}, since(w, before)); diff != "" {
			t.Errorf("requests: %s", diff)
		}
		if s := second.Status(); s.Lists != 0 || s.Watches != 1 || len(s.Incidents) != 0 {
			t.Errorf("status %+v", s)
		}
		if diff := cmp.Diff(w.state(t), cached(second.Informer)); diff != "" {
			t.Error(diff)
		}
		initial, then := flagged(second, "initial")
		if len(initial) != 1000 || len(then) != 500 {
			t.Errorf("%d initial objects and %d changes", len(initial), len(then))
		}
		for _, line := range then {
			kind, rest, _ := strings.Cut(line, " ")
			name, _, _ := strings.Cut(rest, " ")
			if !changed[kind+" "+name] {
				t.Errorf("event %q", line)
			}
		}
	})
}

func TestA410AfterARestartDeliversExactlyTheDifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(100), informer.Persist(t.TempDir())
		newProgram(w.informer, dir).live(t, nothing)
		before := len(w.Requests())
		w.Put("o1", -1)
		w.Delete("o2")
		w.Put("new", 7)
		w.Delete("o3")
		w.Put("o3", 3) // another object
		w.Compact(0)
		slow(w)
		second := newProgram(w.informer, dir).live(t, nothing)
		if got := since(w, before); len(got) != 2 || !strings.HasPrefix(got[0], "WATCH rv=") ||
			!strings.HasPrefix(got[1], "STREAM rv=") {
			t.Errorf("requests %q", got)
		}
		initial, then := flagged(second, "initial")
		slices.Sort(then)
		want := []string{"Added new 7", "Added o3 3", "Deleted o2 2 inferred", "Deleted o3 3 inferred", "Modified o1 -1"}
		if diff := cmp.Diff(want, then); diff != "" || len(initial) != 100 {
			t.Errorf("%d initial objects, then: %s", len(initial), diff)
		}
		if diff := cmp.Diff(w.state(t), cached(second.Informer)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestARestartedProgramReadsItsStateWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(10), informer.Persist(t.TempDir())
		newProgram(w.informer, dir).live(t, nothing)
		w.Put("o1", -1)
		w.Fail(func(request) fault { return fault{Refuse: true} })
		second := newProgram(w.informer, dir)
		run(t, second.Informer, func() {
			if err := second.WaitSynced(t.Context()); err != nil {
				t.Fatalf("wait until it is synced: %v", err)
			}
			synctest.Wait()
			if _, found := second.Get(key("o9")); !found || second.Len() != 10 || !second.Status().LastContact.IsZero() {
				t.Errorf("%d objects, status %+v", second.Len(), second.Status())
			}
			if initial, _ := flagged(second, "initial"); len(initial) != 10 {
				t.Errorf("the handler got %d objects", len(initial))
			}
			w.Fail(nil)
			after(time.Minute)
			if diff := cmp.Diff(w.state(t), cached(second.Informer)); diff != "" {
				t.Error(diff)
			}
			if s := second.Status(); s.Lists != 0 || s.Incidents[informer.Refused] == 0 {
				t.Errorf("status %+v", s)
			}
		})
		second.recorder.check(t)
	})
}

// TestTheFileOfACrashedProgramHoldsAWholeState copies the directory while a program runs,
// which is what a crash leaves behind.
func TestTheFileOfACrashedProgramHoldsAWholeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(10), t.TempDir()
		states := map[string]map[string]string{}
		newProgram(w.informer, informer.Persist(dir)).live(t, func() {
			for n := range 20 {
				w.Put(fmt.Sprint("o", n%10), n)
				w.Delete(fmt.Sprint("o", (n+5)%10))
				after(4 * time.Second)
				states[fmt.Sprint(w.RV())] = w.state(t)
				crashed := t.TempDir()
				if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
					t.Fatalf("copy the directory: %v", err)
				}
				next := newProgram(w.informer, informer.Persist(crashed))
				w.Fail(func(request) fault { return fault{Refuse: true} })
				run(t, next.Informer, func() {
					after(time.Second)
					if want, is := states[next.ResourceVersion()]; is {
						if diff := cmp.Diff(want, cached(next.Informer)); diff != "" {
							t.Errorf("at %s: %s", next.ResourceVersion(), diff)
						}
					} else if n > 2 {
						t.Errorf("begun at %q, which the server was never at", next.ResourceVersion())
					}
				})
				w.Fail(nil)
				if f := next.failed(); f != "" {
					t.Error(f)
				}
			}
		})
	})
}

func TestAnUnusableFileLeadsToAList(t *testing.T) {
	other := func(w *server) func(...informer.Option) *informer.Informer[*thing] {
		return func(opts ...informer.Option) *informer.Informer[*thing] {
			s := w.source()
			return informer.New(s.Transform(func(o *thing) (*thing, error) { return o, nil }), opts...)
		}
	}
	for _, c := range []struct {
		name string
		opts []informer.PersistOption
		make func(w *server) func(...informer.Option) *informer.Informer[*thing]
		harm func(t *testing.T, path string)
		want string // the incident
	}{
		{name: "too old", opts: []informer.PersistOption{informer.PersistMaxAge(time.Hour)}},
		{name: "another tag", opts: []informer.PersistOption{informer.PersistTag("2")}, want: "holds other objects"},
		{name: "a transform more", make: other, want: "holds other objects"},
		{name: "garbage", want: "damaged", harm: func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("x", 1000)), 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
		}},
		{name: "gone", harm: func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatalf("remove a file: %v", err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dir := serverWith(10), t.TempDir()
				newProgram(w.informer, informer.Persist(dir)).live(t, nothing)
				if c.harm != nil {
					c.harm(t, snapshotFile(t, dir))
				}
				after(2 * time.Hour)
				create := w.informer
				if c.make != nil {
					create = c.make(w)
				}
				before := len(w.Requests())
				second := newProgram(create, informer.Persist(dir, c.opts...)).live(t, nothing)
				if got := since(w, before); !slices.Equal(got, []string{"STREAM rv="}) {
					t.Errorf("requests %q", got)
				}
				if got := second.failed(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
					t.Errorf("reported %q, want %q", got, c.want)
				}
				before = len(w.Requests())
				third := newProgram(create, informer.Persist(dir, c.opts...)).live(t, nothing)
				if got := since(w, before); third.failed() != "" || len(got) != 1 || !strings.HasPrefix(got[0], "WATCH rv=") {
					t.Errorf("the program after it: %q, %s", got, third.failed())
				}
			})
		})
	}
}

// snapshotFile returns the path of the one snapshot file in a directory.
func snapshotFile(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.warm"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("files %q, %v", paths, err)
	}
	return paths[0]
}

func TestTwoInformersDoNotShareAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(10), informer.Persist(t.TempDir())
		second := newProgram(w.informer, dir)
		first := newProgram(w.informer, dir).live(t, func() {
			second.live(t, nothing)
		})
		if got := second.failed(); !strings.Contains(got, "in use") || first.failed() != "" {
			t.Errorf("reported %q and %q", first.failed(), got)
		}
		if diff := cmp.Diff(w.state(t), cached(second.Informer)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAnUnusableDirectoryIsOnlyAnIncident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		w := serverWith(10)
		l := newProgram(w.informer, informer.Persist(path)).live(t, nothing)
		if diff := cmp.Diff(w.state(t), cached(l.Informer)); diff != "" || !strings.Contains(l.failed(), path) {
			t.Errorf("reported %q: %s", l.failed(), diff)
		}
		before := len(w.Requests())
		l = newProgram(w.informer, informer.Persist("")).live(t, nothing)
		if got := since(w, before); len(got) != 1 || l.failed() != "" {
			t.Errorf("no directory: %q, %s", got, l.failed())
		}
	})
}

// hiding has a field that is not in its JSON.
type hiding struct {
	metav1.ObjectMeta `json:"metadata"`

	computed int
}

func TestATypeThatJSONCannotRestoreIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(3), t.TempDir()
		source := informer.From("things", w.backend(), func(raw []byte) (*hiding, error) {
			o := &hiding{computed: len(raw)}
			return o, json.Unmarshal(raw, o)
		})
		var said []string
		i := informer.New(source, informer.Persist(dir),
			informer.OnError(func(in informer.Incident) { said = append(said, in.String()) }))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- i.Run(ctx) }()
		after(time.Minute)
		cancel()
		if err := <-done; err != nil || len(said) != 1 || !strings.Contains(said[0], "hiding.computed is not in their JSON") ||
			i.Len() != 3 {
			t.Errorf("%v, incidents %q", err, said)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("%v was written, %v", entries, err)
		}
	})
}

// TestARestartedProgramReadsObjectsThatWereUndecodable: a watch from the stored position
// would never send that object again.
func TestARestartedProgramReadsObjectsThatWereUndecodable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(10), informer.Persist(t.TempDir())
		decode := informer.JSON[*thing]()
		strict := func(opts ...informer.Option) *informer.Informer[*thing] {
			return informer.New(informer.From("things", w.backend(), func(raw []byte) (*thing, error) {
				o, err := decode(raw)
				if err == nil && o.Value < 0 {
					err = fmt.Errorf("value %d", o.Value)
				}
				return o, err
			}), opts...)
		}
		first := newProgram(strict, dir).live(t, func() {
			w.Put("o3", -3)
			w.Put("o4", 40)
			after(time.Minute)
		})
		if o, _ := first.Get(key("o3")); o.Value != 3 || first.Status().Undecodable != 1 {
			t.Fatalf("the first program has %v", o)
		}
		before := len(w.Requests())
		slow(w)
		second := newProgram(w.informer, dir).live(t, nothing)
		if got := since(w, before); len(got) != 1 || !strings.HasPrefix(got[0], "STREAM rv=1") {
			t.Errorf("requests %q", got)
		}
		initial, then := flagged(second, "initial")
		if len(initial) != 10 || !slices.Equal(then, []string{"Modified o3 -3"}) {
			t.Errorf("%d initial objects, then %q", len(initial), then)
		}
	})
}

func TestATransformIsNotAppliedTwice(t *testing.T) {
	for name, wrap := range map[string]func(informer.Source[*thing]) informer.Source[*thing]{
		"plain":   func(s informer.Source[*thing]) informer.Source[*thing] { return s },
		"encoded": func(s informer.Source[*thing]) informer.Source[*thing] { return informer.Encode(s) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dir := serverWith(10), informer.Persist(t.TempDir())
				hundred := func(opts ...informer.Option) *informer.Informer[*thing] {
					s := w.source()
					return informer.New(wrap(s.Transform(func(o *thing) (*thing, error) {
						o.Value += 100
						return o, nil
					})), opts...)
				}
				first := newProgram(hundred, dir).live(t, nothing)
				want := cached(first.Informer)
				before := len(w.Requests())
				w.Put("o5", 50)
				second := newProgram(hundred, dir).live(t, nothing)
				got := cached(second.Informer)
				if o, _ := second.Get(key("o5")); o.Value != 150 {
					t.Errorf("what changed since has value %d", o.Value)
				}
				want["o5"] = got["o5"]
				if diff := cmp.Diff(want, got); diff != "" || len(since(w, before)) != 1 || second.failed() != "" {
					t.Errorf("%q %s %s", since(w, before), second.failed(), diff)
				}
			})
		})
	}
}

func TestASecondRunContinuesItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(10), informer.Persist(t.TempDir())
		first := newProgram(w.informer, dir).live(t, nothing)
		w.Put("o1", 10)
		first.live(t, func() { w.Put("o2", 20) })
		before := len(w.Requests())
		second := newProgram(w.informer, dir).live(t, nothing)
		if diff := cmp.Diff(w.state(t), cached(second.Informer)); diff != "" || len(since(w, before)) != 1 {
			t.Errorf("%q: %s", since(w, before), diff)
		}
		if initial, then := flagged(second, "initial"); !slices.Contains(initial, "Added o1 10 initial") || len(then) > 1 {
			t.Errorf("%q, then %q", initial, then)
		}
	})
}

// TestEncodedObjectsAreRestoredAsTheServerSentThem with fields that the type lacks.
func TestEncodedObjectsAreRestoredAsTheServerSentThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := serverWith(300), informer.Persist(t.TempDir())
		encoded := func(opts ...informer.Option) *informer.Informer[*thing] {
			return informer.New(informer.Encode(w.source()), opts...)
		}
		want := maps.Clone(cached(newProgram(encoded, dir).live(t, nothing).Informer))
		before := len(w.Requests())
		second := newProgram(encoded, dir).live(t, nothing)
		if diff := cmp.Diff(want, cached(second.Informer)); diff != "" || len(since(w, before)) != 1 || second.failed() != "" {
			t.Errorf("%q %s %s", since(w, before), second.failed(), diff)
		}
	})
}
