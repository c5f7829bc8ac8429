package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

func TestOwnWriteIsReadAfterWaitingForItsRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		play(t, w, func(i *informer.Informer[*thing]) {
			for n := range 50 {
				rv := fmt.Sprint(w.Put("a", n))
				if err := i.WaitRevision(t.Context(), rv); err != nil {
					t.Fatalf("wait for the revision: %v", err)
				}
				if o, found := i.Get(key("a")); !found || o.Value != n {
					t.Fatalf("after write %d the cache has %v", n, o)
				}
			}
			if err := i.WaitRevision(t.Context(), "1001"); err != nil { // long ago
				t.Errorf("wait for the revision: %v", err)
			}
			// A write that this collection does not show: a bookmark brings it (this server's
			// second one).
			w.Tick()
			begun := time.Now()
			if err := i.WaitRevision(t.Context(), fmt.Sprint(w.RV())); err != nil || time.Since(begun) > 2*time.Minute {
				t.Errorf("after %v: %v", time.Since(begun), err)
			}
		})
	})
}

func TestWaitRevisionSurvivesARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Fail(listwatchtest.Faults(fault{End: "410", After: 2}))
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			w.Compact(0)
			rv := fmt.Sprint(w.Put("a", 2))
			if err := i.WaitRevision(t.Context(), rv); err != nil {
				t.Errorf("wait for the revision: %v", err)
			}
		})
	})
}

// text says whether an error has all of these in it.
func text(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", want)
		return
	}
	for _, s := range want {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q, want %q in it", err, s)
		}
	}
}

func TestWaitRevisionRejectsInvalidRevisions(t *testing.T) {
	i := newServer().informer()
	for _, rv := range []string{"", "0", "x", "01", "-1", "1.5", " 7"} {
		text(t, i.WaitRevision(t.Context(), rv), "things", fmt.Sprintf("%q", rv))
	}
	bad := informer.New(informer.For[*thing](&rest.Config{Host: "http://%zz"}, thingsGVR()))
	text(t, bad.WaitRevision(t.Context(), "7"), "%zz")
}

func TestWaitRevisionReturnsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		i := w.informer()
		soon := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		err := i.WaitRevision(soon(), "7")
		text(t, err, "Run was not called", `at resourceVersion "" and not at 7`)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		run(t, i, func() {
			text(t, i.WaitRevision(soon(), "5000"), "watching", "without incident", `at resourceVersion "1001" and not at 5000`)
		})
		w.Fail(func(request) fault { return fault{Status: 403, Reason: "Forbidden"} })
		w.Put("a", 2)
		run(t, i, func() {
			text(t, i.WaitRevision(soon(), "1002"), "waiting", "denied", `"1001" and not at 1002`)
		})
		text(t, i.WaitRevision(soon(), "1002"), "stopped")
	})
}

func TestWaitRevisionEndsWhenTheHistoryGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		play(t, w, func(i *informer.Informer[*thing]) {
			after(time.Second)
			waited := make(chan error, 1)
			go func() { waited <- i.WaitRevision(t.Context(), "1005") }()
			after(time.Second)
			// The server is restored from an old backup, and soon beyond 1005.
			w.Fail(listwatchtest.Faults(fault{End: "410"}))
			w.Reset(500, listwatchtest.Object{Key: key("a"), UID: "u1", RV: 400, Value: 7})
			after(20 * time.Minute)
			err := <-waited
			text(t, err, "1005", "history went back")
			if !errors.Is(err, informer.ErrWentBack) {
				t.Error(err)
			}
			if err := i.WaitRevision(t.Context(), fmt.Sprint(w.Put("a", 8))); err != nil { // of this history
				t.Errorf("wait for the revision: %v", err)
			}
		})
	})
}

func TestUntilReturnsWhenTheConditionBecomesTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		i := w.informer()
		asked := 0
		type answer struct {
			object *thing
			err    error
		}
		until := func(name string, condition func(*thing, bool) bool) <-chan answer {
			got := make(chan answer, 1)
			go func() {
				o, err := i.Until(t.Context(), key(name), condition)
				got <- answer{o, err}
			}()
			return got
		}
		value := until("a", func(o *thing, found bool) bool { asked++; return found && o.Value == 3 })
		absent := until("b", func(_ *thing, found bool) bool { return !found })
		after(time.Second)
		if len(absent) > 0 {
			t.Error("an informer that knows nothing said that something is not there")
		}
		run(t, i, func() {
			after(time.Second)
			if a := <-absent; a.err != nil || a.object != nil {
				t.Errorf("%+v", a)
			}
			w.Put("a", 2)
			after(5 * time.Minute) // bookmarks, which are no news of a
			w.Put("other", 1)
			after(time.Second)
			if asked != 2 || len(value) > 0 {
				t.Errorf("asked %d times for 2 states", asked)
			}
			w.Put("a", 3)
			if a := <-value; a.err != nil || a.object == nil || a.object.Value != 3 {
				t.Errorf("%+v", a)
			}
			gone := until("a", func(_ *thing, found bool) bool { return !found })
			w.Delete("a")
			if a := <-gone; a.err != nil {
				t.Error(a.err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := i.Until(ctx, key("a"), func(_ *thing, found bool) bool { return found })
			text(t, err, "default/a", "watching", "deadline exceeded")
		})
	})
}
