package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

// lose saves a copy of the server's data and then adds a history that an informer follows.
// It returns the copy.
func lose(w *server) listwatchtest.Copy {
	copied := w.Save()
	w.Put("o1", 100) // the restored server writes it too, at the same version
	w.Put("lost", 1)
	w.Delete("o5")
	w.Put("o7", 100)
	w.Tick()
	return copied
}

// TestAServerThatLostItsHistoryIsReadAgain restores the server from an older copy of its
// data, or from none. Like kube-apiserver it sends nothing to a watch from a version that
// it has not reached, and later the events after that version.
func TestAServerThatLostItsHistoryIsReadAgain(t *testing.T) {
	for _, outage := range []struct {
		name   string
		down   fault
		within time.Duration
	}{
		{"refused", fault{Refuse: true}, time.Minute},
		{"502", fault{Status: 502}, time.Minute},
		{"404", fault{Status: 404, Reason: "NotFound"}, time.Minute},
		{"silence only", fault{}, 3 * time.Minute},
	} {
		for _, back := range []string{"empty", "older and quiet", "older and busy"} {
			if outage.down == (fault{}) && back == "older and busy" {
				continue // nothing shows it but events; see below
			}
			t.Run(outage.name+", "+back, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { comesBack(t, outage.down, outage.within, back) })
			})
		}
	}
}

func comesBack(t *testing.T, down fault, within time.Duration, back string) {
	w := serverWith(30)
	w.SilentAhead = true
	var states eventStates
	i := w.informer()
	i.Handle(states.handle)
	run(t, i, func() {
		after(time.Second)
		copied := lose(w)
		after(2 * time.Minute) // bookmarks come
		at := i.ResourceVersion()
		if down != (fault{}) {
			w.Fail(func(request) fault { return down })
		}
		waited := make(chan error, 1)
		go func() { waited <- i.WaitRevision(t.Context(), "999999") }() // ends with WentBack
		switch back {
		case "empty":
			w.Restore(newServer().Save())
			w.Put("first", 1)
		default:
			w.Restore(copied)
			w.Put("o1", 200)
			if back == "older and busy" {
				for n := range 20 {
					w.Put("o2", n)
				}
			}
		}
		if down != (fault{}) {
			after(5 * time.Second)
		}
		w.Fail(nil)
		after(within)
		if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
			t.Errorf("cache, from %s on (-server +cache):\n%s", at, diff)
		}
		if diff := cmp.Diff(w.state(t), states.state()); diff != "" {
			t.Errorf("handler (-server +handler):\n%s", diff)
		}
		if n := i.Status().Incidents[informer.WentBack]; n == 0 {
			t.Errorf("no incident: %+v", i.Status())
		}
		select {
		case err := <-waited:
			if !errors.Is(err, informer.ErrWentBack) {
				t.Errorf("who waits: %v", err)
			}
		default:
			t.Error("who waits for a version waits on")
		}
	})
}

// eventStates is a handler that builds the state from its events.
type eventStates struct{ all map[string]string }

func (s *eventStates) handle(_ context.Context, e event) error {
	if s.all == nil {
		s.all = map[string]string{}
	}
	if e.Type == informer.Deleted {
		delete(s.all, e.Key.Name)
	} else {
		s.all[e.Key.Name] = digest(e.New)
	}
	return nil
}

func (s *eventStates) state() map[string]string { return s.all }

// TestAfterAnOutageTheStateIsComparedOnce covers a server that kept its history.
func TestAfterAnOutageTheStateIsComparedOnce(t *testing.T) {
	for name, change := range map[string]func(w *server){
		"nothing happened":       func(*server) {},
		"objects were modified":  func(w *server) { w.Put("o1", 100); w.Put("new", 1) },
		"objects were deleted":   func(w *server) { w.Delete("o1"); w.Delete("o2") },
		"deleted and made again": func(w *server) { w.Delete("o1"); w.Put("o1", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := serverWith(30)
				w.SilentAhead = true
				play(t, w, func(i *informer.Informer[*thing]) {
					after(time.Second)
					before := len(w.Requests())
					w.Fail(listwatchtest.Faults(fault{Refuse: true}, fault{Refuse: true}))
					w.Restore(w.Save())
					change(w)
					after(time.Hour)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Error(diff)
					}
					s := i.Status()
					if s.Lists != 1 || s.Incidents[informer.WentBack]+s.Incidents[informer.Gap] != 0 {
						t.Errorf("status %+v", s)
					}
					var lists int
					for _, r := range kinds(w)[before:] {
						if strings.HasPrefix(r, "LIST") {
							lists++
						}
					}
					if lists != 1 && (lists != 2 || !strings.Contains(name, "deleted")) {
						t.Errorf("requests %q", kinds(w)[before:])
					}
				})
			})
		})
	}
}

func TestWithNoComparisonNothingIsListedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serverWith(30)
		w.SilentAhead = true
		play(t, w, func(*informer.Informer[*thing]) {
			after(time.Second)
			before := len(w.Requests())
			w.Fail(listwatchtest.Faults(fault{Refuse: true}, fault{Refuse: true}))
			after(time.Hour)
			for _, r := range kinds(w)[before:] {
				if strings.HasPrefix(r, "LIST") {
					t.Errorf("requests %q", kinds(w)[before:])
				}
			}
		}, informer.NoComparison())
	})
}

// TestAnEventThatContradictsTheStateLeadsToAList replaces the server, without an outage, by
// one with another history and a higher resource version.
func TestAnEventThatContradictsTheStateLeadsToAList(t *testing.T) {
	for name, shows := range map[string]func(w *server){
		"MODIFIED of an unknown object": func(w *server) { w.Put("unknown", 2) },
		"DELETED of an unknown object":  func(w *server) { w.Delete("unknown") },
		"DELETED of another UID":        func(w *server) { w.Delete("other") },
		"another UID":                   func(w *server) { w.Put("other", 3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := serverWith(10)
				w.SilentAhead = true
				w.Put("other", 1)
				play(t, w, func(i *informer.Informer[*thing]) {
					after(time.Second)
					copied := lose(w)
					after(time.Second)
					w.Restore(copied)
					w.Put("o1", 200)
					w.Put("unknown", 1)
					w.Delete("other")
					w.Put("other", 2)
					for n := range 10 {
						w.Put("o2", n)
					}
					after(time.Minute)
					shows(w)
					after(time.Second)
					if diff := cmp.Diff(w.state(t), cached(i)); diff != "" {
						t.Errorf("-server +cache:\n%s", diff)
					}
					if s := i.Status(); s.Incidents[informer.Gap] != 1 || s.Lists != 2 {
						t.Errorf("status %+v", s)
					}
				})
			})
		})
	}
}

// TestContradictingEventsLeadToAListAtMostEveryFiveMinutes, after a few immediate ones.
func TestContradictingEventsLeadToAListAtMostEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists int
		rv := 10
		s := listwatchtest.Script{
			OnList: func(context.Context, request, func([]byte) error) (metav1.ListMeta, error) {
				lists++
				return metav1.ListMeta{ResourceVersion: fmt.Sprint(rv)}, nil
			},
			OnWatch: func(ctx context.Context, r request, say func(...string)) error {
				for end := time.Now().Add(time.Duration(r.Seconds) * time.Second); time.Now().Before(end) &&
					ctx.Err() == nil; sleep(ctx, time.Second) {
					rv++
					say(listwatchtest.Frame("DELETED", object("never", 1, rv, 1)))
				}
				return nil
			},
		}
		i := scripted(s, informer.NoStreamingLists())
		run(t, i, func() { after(3 * time.Hour) })
		if lists < 5 || lists > 3*60/5+8 {
			t.Errorf("%d lists in 3 h", lists)
		}
	})
}

// TestAQuietServerWithoutBookmarksIsComparedAtMostEveryFiveMinutes, and one with bookmarks
// never.
func TestAQuietServerWithoutBookmarksIsComparedAtMostEveryFiveMinutes(t *testing.T) {
	for _, mute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := serverWith(3)
			w.Fail(func(request) fault { return fault{NoBookmarks: mute} })
			play(t, w, func(i *informer.Informer[*thing]) {
				after(24 * time.Hour)
				compared := 0
				for _, r := range kinds(w) {
					if strings.HasPrefix(r, "COMPARE") {
						compared++
					}
				}
				if s := i.Status(); s.Lists != 1 || compared > 24*12 || (compared == 0) == mute {
					t.Errorf("mute %t: %d comparisons, %+v", mute, compared, s)
				}
			})
		})
	}
}

// TestAListWithEndlessPagesFails also checks that the rate of such requests is bounded.
func TestAListWithEndlessPagesFails(t *testing.T) {
	item := []byte(object("a", 1, 5, 1))
	for name, next := range map[string]func(n int) (token string, items int){
		"the same token":                   func(int) (string, int) { return "x", 1 },
		"two tokens in turn":               func(n int) (string, int) { return fmt.Sprint(n % 2), 1 },
		"ever new tokens, no items":        func(n int) (string, int) { return fmt.Sprint(n), 0 },
		"ever new tokens, always one item": func(n int) (string, int) { return fmt.Sprint(n), 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				s := listwatchtest.Script{
					OnList: func(_ context.Context, _ request, each func([]byte) error) (metav1.ListMeta, error) {
						requests++
						token, items := next(requests)
						for range items {
							if err := each(item); err != nil {
								return metav1.ListMeta{}, err
							}
						}
						return metav1.ListMeta{ResourceVersion: "9", Continue: token}, nil
					},
				}
				i := scripted(s, informer.NoStreamingLists())
				run(t, i, func() { after(time.Hour) })
				if most := int(time.Hour / (800 * time.Millisecond)); requests > most {
					t.Errorf("%d requests in an hour", requests)
				}
				if s := i.Status(); s.RV != "" || s.Incidents[informer.Rejected] == 0 {
					t.Errorf("status %+v", s)
				}
				t.Logf("%d requests in an hour", requests)
			})
		})
	}
}

// TestAListOfManyPagesIsReadWithoutPauses, also if some of them are empty.
func TestAListOfManyPagesIsReadWithoutPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = 5000
		s := listwatchtest.Script{
			OnList: func(_ context.Context, r request, each func([]byte) error) (metav1.ListMeta, error) {
				n := 0
				_, _ = fmt.Sscan(r.Continue, &n)
				if n%5 == 0 {
					if err := each([]byte(object(fmt.Sprint("o", n), n+1, 5, n))); err != nil {
						return metav1.ListMeta{}, err
					}
				}
				meta := metav1.ListMeta{ResourceVersion: "9"}
				if n < pages {
					meta.Continue = fmt.Sprint(n + 1)
				}
				return meta, nil
			},
			OnWatch: func(ctx context.Context, _ request, _ func(...string)) error {
				<-ctx.Done()
				return nil
			},
		}
		i := scripted(s, informer.NoStreamingLists())
		run(t, i, func() {
			synctest.Wait() // no time passes
			if s := i.Status(); i.Len() != pages/5+1 || len(s.Incidents) != 0 {
				t.Errorf("%d objects, %+v", i.Len(), s)
			}
		})
	})
}

// TestEventsWithTheSameVersionAreAllApplied: an aggregated API server may commit several
// objects at one version. An event that repeats a deleted object of that version is dropped.
func TestEventsWithTheSameVersionAreAllApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := listwatchtest.Script{
			OnList: func(context.Context, request, func([]byte) error) (metav1.ListMeta, error) {
				return metav1.ListMeta{ResourceVersion: "10"}, nil
			},
			OnWatch: func(ctx context.Context, _ request, say func(...string)) error {
				say(listwatchtest.Frame("ADDED", object("a", 1, 11, 1)), listwatchtest.Frame("ADDED", object("b", 2, 11, 2)),
					listwatchtest.Frame("ADDED", object("c", 3, 11, 3)))
				say(listwatchtest.Frame("MODIFIED", object("a", 1, 12, 4)),
					listwatchtest.Frame("MODIFIED", object("b", 2, 12, 5)))
				sleep(ctx, time.Second)
				say(listwatchtest.Frame("DELETED", object("a", 1, 13, 4)), listwatchtest.Frame("DELETED", object("b", 2, 13, 5)),
					listwatchtest.Frame("ADDED", object("b", 4, 13, 6)))
				say(listwatchtest.Frame("ADDED", object("d", 5, 13, 7)), listwatchtest.Frame("ADDED", object("a", 1, 13, 4)),
					listwatchtest.Frame("ADDED", object("a", 1, 11, 1)))
				<-ctx.Done()
				return nil
			},
		}
		i := scripted(s, informer.NoStreamingLists())
		var lines []string
		i.Handle(func(_ context.Context, e event) error {
			lines = append(lines, fmt.Sprintf("%v %s %s", e.Type, e.Key.Name, e.RV))
			return nil
		}, informer.Every(100, informer.Block))
		run(t, i, func() {
			after(time.Minute)
			want := map[string]string{"b": "u4 rv=13 value=6", "c": "u3 rv=11 value=3", "d": "u5 rv=13 value=7"}
			if diff := cmp.Diff(want, cached(i)); diff != "" {
				t.Error(diff)
			}
			slices.Sort(lines)
			wantLines := []string{
				"Added a 11", "Added b 11", "Added b 13", "Added c 11", "Added d 13",
				"Deleted a 13", "Deleted b 13", "Modified a 12", "Modified b 12",
			}
			if diff := cmp.Diff(wantLines, lines); diff != "" {
				t.Error(diff)
			}
			if s := i.Status(); s.Incidents[informer.Stale] != 2 || s.Incidents[informer.Gap] != 0 {
				t.Errorf("status %+v", s)
			}
		})
	})
}

// TestA410AfterAShortWatchIsFollowedByAListAtOnce the first three times, and after a growing
// pause from then on.
func TestA410AfterAShortWatchIsFollowedByAListAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		var at []time.Time
		refuse := 4
		w.Fail(func(r request) fault {
			at = append(at, time.Now())
			if refuse--; refuse >= 0 {
				return fault{End: "410", After: 2} // the state, and then the 410
			}
			return fault{}
		})
		play(t, w, func(*informer.Informer[*thing]) { after(time.Hour) })
		if len(at) < 5 {
			t.Fatalf("%d requests", len(at))
		}
		for n := range 3 {
			if pause := at[n+1].Sub(at[n]); pause > 250*time.Millisecond {
				t.Errorf("the list after 410 number %d began after %v", n+1, pause)
			}
		}
		if pause := at[4].Sub(at[3]); pause < 800*time.Millisecond {
			t.Errorf("the one after the fourth began after %v", pause)
		}
	})
}

// TestWaitsReturnTheErrorOfRun at once; during a second Run they block again.
func TestWaitsReturnTheErrorOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Fail(func(request) fault { return fault{Status: 403, Reason: "Forbidden"} })
		i := w.informer(informer.Stop4xx())
		waits := map[string]func() error{
			"WaitSynced":   func() error { return i.WaitSynced(t.Context()) },
			"WaitRevision": func() error { return i.WaitRevision(t.Context(), "5") },
			"Until": func() error {
				_, err := i.Until(t.Context(), key("a"), func(*thing, bool) bool { return false })
				return err
			},
		}
		said := make(chan error, len(waits))
		for _, wait := range waits {
			go func() { said <- wait() }() // ends when the informer gives up
		}
		synctest.Wait()
		if err := i.Run(t.Context()); err == nil {
			t.Error("it did not give up")
		}
		for range waits {
			if err := <-said; err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("who waited: %v", err)
			}
		}
		for name, wait := range waits {
			if err := wait(); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%s afterwards: %v", name, err)
			}
		}
		w.Fail(nil)
		run(t, i, func() {
			synctest.Wait()
			if err := i.WaitSynced(t.Context()); err != nil {
				t.Errorf("when it runs again: %v", err)
			}
		})
	})
}
