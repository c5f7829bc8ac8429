package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// churn writes other resources than foos, and forgets all of it.
func (l *restartable) churn(t *testing.T, round int) {
	t.Helper()
	for i := range 20 {
		l.create("default", "busy", fmt.Sprintf("%d-%d", round, i))
		l.relabel("default", "busy", "again")
		l.remove("default", "busy")
	}
	l.server.compact(t, l.current())
}

// TestIdleWatchSurvivesCompactionRestartAndDefinitionEdit follows a custom
// resource that is quiet by a plain watch, as an old client does: without
// bookmarks it reconnects each time with the resourceVersion of the last event,
// while other resources write and all that can be compacted is. The watch that
// stays open is not affected either.
func TestIdleWatchSurvivesCompactionRestartAndDefinitionEdit(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	l := launchRestartable(t)
	l.define(false, false, false)
	begin := l.current()
	old := l.foo("one", "1").rv()
	last, round := old, 0
	resume := func(after string) {
		t.Helper()
		for _, query := range []string{"", "&timeoutSeconds=300", "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"} {
			s := l.watch(foos + "?watch=1&resourceVersion=" + last + query)
			round++
			o := l.foo(fmt.Sprint("new-", round), "1")
			if got, want := s.take(1), "ADDED "+o.key()+"@"+o.rv(); got != want {
				t.Fatalf("after %s the watch from %s shows %s, want %s", after, last, got, want)
			}
			last = o.rv()
			s.close()
		}
		// The first client is still away: nothing that it needs is gone.
		if got := l.watch(foos + "?watch=1&resourceVersion=" + begin).take(1 + round); !strings.HasPrefix(got,
			"ADDED default/one@"+old+", ADDED default/new-1@") {
			t.Fatalf("after %s the watch from the beginning shows %s", after, got)
		}
		if got := l.must(http.StatusOK, http.MethodGet, foos+"?resourceVersionMatch=Exact&resourceVersion="+old,
			""); got.keys() != "default/one" || got.rv() != old {
			t.Fatalf("after %s the state at %s is %s at %s", after, old, got.keys(), got.rv())
		}
	}
	open := l.watch(foos + "?watch=1&timeoutSeconds=300&resourceVersion=" + last)
	for i := range 5 {
		l.churn(t, i)
	}
	resume("five compactions")
	if got := open.take(1); !strings.HasPrefix(got, "ADDED default/new-1@") {
		t.Errorf("the watch that stayed open shows %s", got)
	}
	open.close()
	l.restart(t)
	resume("a restart")
	l.churn(t, 5)
	l.define(true, true, false)
	resume("an edit of the definition")
	l.churn(t, 6)
	l.restart(t)
	l.define(true, true, true)
	l.churn(t, 7)
	resume("all of it")
}

// TestExactReadsReturnEveryPastState reads the state after each of many
// writes, whole and in pages, also after a restart, an edit of the definition and
// a compaction of what came before.
func TestExactReadsReturnEveryPastState(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	const seed = 1
	r := rand.New(rand.NewPCG(seed, seed))
	l := launchRestartable(t)
	l.define(false, false, false)
	type moment struct{ rv, keys string }
	var moments []moment
	state := map[string]string{}
	write := func(n int) {
		t.Helper()
		for range n {
			name := fmt.Sprintf("f%d", r.IntN(8))
			if _, has := state[name]; has && r.IntN(3) == 0 {
				l.must(http.StatusOK, http.MethodDelete, foos+"/"+name, "")
				delete(state, name)
			} else {
				state[name] = l.foo(name, fmt.Sprint(r.IntN(1000))).rv()
			}
			var keys []string
			for name, rv := range state {
				keys = append(keys, name+"@"+rv)
			}
			slices.Sort(keys)
			moments = append(moments, moment{l.must(http.StatusOK, http.MethodGet, foos, "").rv(), strings.Join(keys, " ")})
			l.create("default", "other", "1") // moves the store's revision
			l.remove("default", "other")
		}
	}
	check := func(when string) {
		t.Helper()
		for _, m := range moments {
			for _, limit := range []string{"", "&limit=3"} {
				if got := l.exact(t, foos+"?resourceVersionMatch=Exact&resourceVersion="+m.rv+limit, m.rv); got != m.keys {
					t.Fatalf("%s the state at %s is %q (%s), want %q", when, m.rv, got, limit, m.keys)
				}
			}
		}
	}
	write(40)
	check("at once")
	l.restart(t)
	write(40)
	check("after a restart")
	l.define(true, true, true)
	write(10)
	check("after an edit of the definition")
	half := moments[len(moments)/2]
	l.server.compact(t, half.rv)
	moments = moments[len(moments)/2:]
	check("after a compaction")
	l.restart(t)
	check("after all of it")
}

// exact follows a list through its pages and returns "name@rv name@rv"; every page
// must be of one resourceVersion.
func (c *caller) exact(t *testing.T, path, rv string) string {
	t.Helper()
	var keys []string
	for next := path; next != ""; {
		page := c.must(http.StatusOK, http.MethodGet, next, "")
		if page.rv() != rv {
			t.Fatalf("%s is of %s, want %s", next, page.rv(), rv)
		}
		items, _ := page.at("items").([]any)
		for _, item := range items {
			o, _ := item.(map[string]any)
			keys = append(keys, tree(o).text("metadata", "name")+"@"+tree(o).rv())
		}
		next = ""
		if token := page.text("metadata", "continue"); token != "" {
			at, _, _ := strings.Cut(path, "?")
			next = at + "?limit=3&continue=" + url.QueryEscape(token)
		}
	}
	return strings.Join(keys, " ")
}

// TestNoWatchEndsWithoutAFrameWithinTwoSeconds ends watches right after their
// start by what the server chooses: it drains, or the resource goes away. Some
// clients take an end without a frame within 2 s for a 410 (fabric8 7.8, its issue 7896).
func TestNoWatchEndsWithoutAFrameWithinTwoSeconds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(l *launched, c *caller){
		"drain": func(l *launched, _ *caller) { l.stop() },
		"definition deleted": func(_ *launched, c *caller) {
			c.must(http.StatusOK, http.MethodDelete, definitions+"/foos.t.example.com", "")
		},
	} {
		for _, proto := range []protocol{http1, http2} {
			t.Run(name+" "+string(proto), func(t *testing.T) {
				t.Parallel()
				l := launch(t, gapless.Config{})
				c := l.caller(t, proto)
				c.define(false, false, false)
				rv := c.current()
				began := time.Now()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s, err := c.follow(ctx, foos+"?watch=1&resourceVersion="+rv)
				if err != nil {
					t.Fatalf("follow: %v", err)
				}
				defer s.close()
				end(l, l.caller(t, http1))
				frames, err := s.rest()
				if took := time.Since(began); err != nil || len(frames) == 0 && took < 2*time.Second {
					t.Errorf("the watch ended after %v with %s, %v", took, words(frames), err)
				}
			})
		}
	}
}
