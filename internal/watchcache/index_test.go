package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/kube"
)

// follow collects what a cursor returns until ctx ends.
//
//nolint:contextcheck // the cursor is made within the test, and read within ctx
func (f *fixture) follow(ctx context.Context, sel watchcache.Selection) (seen *[]string, ended chan error) {
	cursor, lines, done := f.cursor(100, sel), []string{}, make(chan error, 1)
	go func() { // ends with the cursor
		for {
			events, err := cursor.Next(ctx)
			if err != nil {
				done <- err
				return
			}
			lines = append(lines, brief(events)...)
		}
	}()
	return &lines, done
}

func selecting(t *testing.T, namespace, name, label, field string) watchcache.Selection {
	t.Helper()
	sel := watchcache.Selection{Namespace: namespace, Name: name}
	var err error
	if sel.Labels, err = labels.Parse(label); err != nil {
		t.Fatalf("parse the selector: %v", err)
	}
	if sel.Fields, err = fields.ParseSelector(field); err != nil {
		t.Fatalf("parse the selector: %v", err)
	}
	return sel
}

func TestChangeWakesOnlyMatchingCursors(t *testing.T) {
	for name, c := range map[string]struct {
		sel  func(t *testing.T, i int) watchcache.Selection
		puts []thing
		want []string
	}{
		"namespace": {
			func(t *testing.T, i int) watchcache.Selection {
				return selecting(t, fmt.Sprintf("ns-%d", i), "", "", "")
			},
			[]thing{{namespace: "ns-7", name: "x"}},
			[]string{"ADDED 101 ns-7/x"},
		},
		"name": {
			func(t *testing.T, i int) watchcache.Selection {
				return selecting(t, "", fmt.Sprintf("n-%d", i), "", "")
			},
			[]thing{{namespace: "a", name: "n-7"}},
			[]string{"ADDED 101 a/n-7"},
		},
		"namespace and name": {
			func(t *testing.T, i int) watchcache.Selection {
				return selecting(t, "a", fmt.Sprintf("n-%d", i), "", "")
			},
			[]thing{{namespace: "a", name: "n-7"}, {namespace: "b", name: "n-7"}},
			[]string{"ADDED 101 a/n-7"},
		},
		"label, also when it changes": {
			func(t *testing.T, i int) watchcache.Selection {
				return selecting(t, "", "", fmt.Sprintf("app in (v-%d)", i), "")
			},
			[]thing{{name: "x", app: "v-7"}, {name: "x", app: "other"}},
			[]string{"ADDED 101 x", "DELETED 102 x"},
		},
		"field, also when it changes": {
			func(t *testing.T, i int) watchcache.Selection {
				return selecting(t, "", "", "", fmt.Sprintf("spec.node=v-%d", i))
			},
			[]thing{{name: "x", node: "v-7"}, {name: "x", node: "other"}},
			[]string{"ADDED 101 x", "DELETED 102 x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, watchcache.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				var seen []*[]string
				var ends []chan error
				for i := range 20 {
					s, ended := f.follow(ctx, c.sel(t, i))
					seen, ends = append(seen, s), append(ends, ended)
				}
				synctest.Wait()
				before := f.cache.Stats().Woken
				for i, put := range c.puts {
					f.put(kube.ResourceVersion(101+i), put)
					synctest.Wait()
				}
				if woken := f.cache.Stats().Woken - before; woken != int64(len(c.want)) {
					t.Errorf("%d cursors were woken, want %d", woken, len(c.want))
				}
				cancel()
				for i, s := range seen {
					if err := <-ends[i]; !errors.Is(err, context.Canceled) {
						t.Errorf("cursor %d ended with %v", i, err)
					}
					var want []string
					if i == 7 {
						want = c.want
					}
					if diff := cmp.Diff(append([]string{}, want...), *s); diff != "" {
						t.Errorf("cursor %d: %s", i, diff)
					}
				}
			})
		})
	}
}

func TestPositionOfAWaitingCursorPassesEntriesThatDoNotMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The window is far smaller than what happens: only the index can know.
		f := newFixture(t, watchcache.Config{MaxEntries: 16})
		cursor := f.cursor(100, selecting(t, "", "", "app=mine", ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := cursor.Next(ctx)
			ended <- err
		}()
		synctest.Wait()
		before := f.cache.Stats().Woken
		for rv := kube.ResourceVersion(101); rv <= 400; rv++ {
			f.put(rv, thing{name: "x", app: fmt.Sprint(rv)})
			synctest.Wait()
		}
		if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if got := cursor.Position(); got != 400 {
			t.Errorf("position %d, want 400", got)
		}
		if s := f.cache.Stats(); s.Woken != before || s.HistoryReads != 0 {
			t.Errorf("%d wakings, %d reads of history", s.Woken-before, s.HistoryReads)
		}
	})
}

func TestCursorEndsAfterTheLastEntryOfItsResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		seen, ended := f.follow(t.Context(), watchcache.Selection{})
		_, other := f.follow(t.Context(), selecting(t, "", "", "app=other", ""))
		synctest.Wait()
		f.put(101, thing{name: "x"})
		f.cache.End(102)
		f.clock.Publish(200) // not the resource's any more
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("ended with %v", err)
		}
		if err := <-other; !errors.Is(err, io.EOF) {
			t.Errorf("a cursor that saw nothing ended with %v", err)
		}
		if diff := cmp.Diff([]string{"ADDED 101 x"}, *seen); diff != "" {
			t.Error(diff)
		}
		late := f.cursor(100, watchcache.Selection{})
		if got := next(t, late); len(got) != 1 {
			t.Errorf("afterwards: %v", brief(got))
		}
		if _, err := late.Next(t.Context()); !errors.Is(err, io.EOF) || late.Position() != 102 {
			t.Errorf("%v at %d, want io.EOF at 102", err, late.Position())
		}
	})
}

func TestInterruptMakesCursorsCheckForTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, watchcache.Config{})
		cursor, over := f.cursor(100, watchcache.Selection{}), false
		cursor.Until(func() bool { return over })
		ended := make(chan error, 1)
		go func() {
			_, err := cursor.Next(t.Context())
			ended <- err
		}()
		synctest.Wait()
		f.cache.Interrupt()
		synctest.Wait()
		over = true
		select {
		case err := <-ended:
			t.Fatalf("ended before it was over: %v", err)
		default:
		}
		f.cache.Interrupt()
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("ended with %v", err)
		}
	})
}
