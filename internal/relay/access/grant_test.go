package access_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
)

// run runs an Access until the test ends.
func run(t *testing.T, a *access.Access) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }() // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
}

// often asks each 20 ms.
func often(mode access.Mode, stale time.Duration) access.Config {
	return access.Config{Mode: mode, Allowed: 20 * time.Millisecond, Denied: 20 * time.Millisecond, Stale: stale}
}

func grant(t *testing.T, a *access.Access, token, verb string) *access.Grant {
	t.Helper()
	u := callerOf(t, a, token)
	if err := a.Authorize(t.Context(), u, configMaps(verb)); err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	g, err := a.Grant(u, configMaps(verb))
	if err != nil {
		t.Fatalf("grant: %v", err)
	}
	return g
}

// untilAsked waits until upstream was asked n more times.
func untilAsked(t *testing.T, a *access.Access, n int) {
	t.Helper()
	for want := asked(t, a) + n; asked(t, a) < want; {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("upstream is not asked")
		}
	}
}

func TestAWatchEndsWhenItsUserMayNotWatchAnyMore(t *testing.T) {
	u := relaytest.New(t)
	for _, mode := range []access.Mode{access.Reviews, access.Passthrough} {
		a := open(t, u, often(mode, time.Hour))
		run(t, a)
		const many = 200
		var grants [many]*access.Grant
		for i := range grants {
			grants[i] = grant(t, a, "token-watcher", "watch")
		}
		other := grant(t, a, "token-root", "watch")
		untilAsked(t, a, 4)
		for i, g := range grants {
			if err := g.Err(); err != nil {
				t.Fatalf("%s: grant %d: %v", mode, i, err)
			}
		}
		u.Revoke(t, "watcher")
		for _, g := range grants {
			<-g.Refused()
			if text := `User "watcher" cannot watch resource "configmaps" in API group "" in the namespace "shop"`; code(
				g.Err()) != http.StatusForbidden || !strings.Contains(g.Err().Error(), text) {
				t.Fatalf("%s: %v", mode, g.Err())
			}
			g.Close()
		}
		untilAsked(t, a, 2)
		if err := other.Err(); err != nil {
			t.Errorf("%s: another user's watch: %v", mode, err)
		}
		other.Close()
		u.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: watcher, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watcher}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: watcher}]
`)
	}
}

// TestAQuestionOfManyWatchesIsAskedOnceAPeriod compares with how long it took.
func TestAQuestionOfManyWatchesIsAskedOnceAPeriod(t *testing.T) {
	u := relaytest.New(t)
	cfg := often(access.Reviews, time.Hour)
	a := open(t, u, cfg)
	for range 5000 {
		defer grant(t, a, "token-jane", "watch").Close()
	}
	before, began := asked(t, a), time.Now()
	run(t, a)
	untilAsked(t, a, 5)
	if got, most := asked(t, a)-before, int(time.Since(began)/cfg.Allowed)+2; got > most {
		t.Errorf("upstream was asked %d times in %s, want at most %d", got, time.Since(began), most)
	}
}

func TestAWatchGoesOnWhileUpstreamIsAway(t *testing.T) {
	u := relaytest.New(t)
	for _, mode := range []access.Mode{access.Reviews, access.Passthrough} {
		a := open(t, u, often(mode, time.Hour))
		run(t, a)
		g := grant(t, a, "token-jane", "watch")
		u.Cut()
		untilAsked(t, a, 1)
		if err := g.Err(); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		u.Mend()
		g.Close()
	}
}

// TestAWatchGoesOnThoughItsDecisionWasDropped has one whose decision is not kept: there were too many.
func TestAWatchGoesOnThoughItsDecisionWasDropped(t *testing.T) {
	u := relaytest.New(t)
	for stale, ends := range map[time.Duration]bool{time.Hour: false, 0: true} {
		a := open(t, u, often(access.Reviews, stale))
		jane := callerOf(t, a, "token-jane")
		u.Cut()
		g, err := a.Grant(jane, configMaps("watch"))
		if err != nil {
			t.Fatalf("grant: %v", err)
		}
		run(t, a)
		if ends {
			<-g.Refused()
		} else {
			untilAsked(t, a, 2)
		}
		if got := code(g.Err()); got != map[bool]int{false: http.StatusOK, true: http.StatusServiceUnavailable}[ends] {
			t.Errorf("stale %s: %v", stale, g.Err())
		}
		g.Close()
		u.Mend()
	}
}

func TestAWatchEndsWhenUpstreamIsAwayForLonger(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, often(access.Reviews, 100*time.Millisecond))
	run(t, a)
	g := grant(t, a, "token-jane", "watch")
	defer g.Close()
	u.Cut()
	<-g.Refused()
	if err := g.Err(); code(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "what jane may still do") {
		t.Error(err)
	}
}

func TestAGrantThatIsClosedIsNotAskedFor(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, often(access.Reviews, time.Hour))
	closed, open := grant(t, a, "token-jane", "watch"), grant(t, a, "token-root", "watch")
	defer open.Close()
	closed.Close()
	u.Revoke(t, "jane")
	run(t, a)
	untilAsked(t, a, 3)
	if err := closed.Err(); err != nil {
		t.Errorf("it was asked for: %v", err)
	}
}

func TestPassthroughEndsAWatchWhoseTokenDoesNotCountAnyMore(t *testing.T) {
	u := relaytest.New(t)
	token := u.ServiceAccountToken(t)
	a := open(t, u, often(access.Passthrough, time.Hour))
	run(t, a)
	g := grant(t, a, token, "watch")
	defer g.Close()
	untilAsked(t, a, 2)
	u.DeleteServiceAccount(t)
	<-g.Refused()
	if code(g.Err()) != http.StatusUnauthorized {
		t.Error(g.Err())
	}
}

func TestPassthroughKnowsWhoUpstreamHasAccepted(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, asking(access.Passthrough, time.Hour))
	known := func(token string) int {
		_, err := a.Known(request(t, token))
		return code(err)
	}
	for _, token := range []string{"token-jane", "guess"} {
		if err := a.Authorize(t.Context(), callerOf(t, a, token), auth.Attributes{Verb: "get", Path: "/version"}); err != nil {
			t.Fatalf("what is open to everybody: %v", err)
		}
		if got := known(token); got != http.StatusServiceUnavailable {
			t.Errorf("%s was never allowed to read a resource, and is %d", token, got)
		}
	}
	if err := a.Authorize(t.Context(), callerOf(t, a, "token-jane"), configMaps("list")); err != nil {
		t.Fatalf("authorize: %v", err)
	}
	if err := a.Authorize(t.Context(), callerOf(t, a, "guess"), configMaps("list")); code(err) != http.StatusUnauthorized {
		t.Errorf("an unknown token: %v", err)
	}
	u.Cut()
	if jane, guess, nobody := known("token-jane"), known("guess"), known(""); jane != http.StatusOK ||
		guess != http.StatusServiceUnavailable || nobody != http.StatusUnauthorized {
		t.Errorf("jane %d, an unknown token %d, nobody %d", jane, guess, nobody)
	}
}

func TestPassthroughPassesImpersonationOn(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, lasting(access.Passthrough))
	for token, want := range map[string]int{"token-root": http.StatusOK, "token-jane": http.StatusForbidden} {
		r := request(t, token, "Impersonate-User", "lister", "Impersonate-Group", "lister")
		as, err := a.Authenticate(r)
		if err != nil {
			t.Fatalf("authenticate: %v", err)
		}
		if len(r.Header) != 0 {
			t.Errorf("headers are left that the server would take for its own: %v", r.Header)
		}
		if got := code(a.Authorize(t.Context(), as, configMaps("list"))); got != want {
			t.Errorf("%s as lister may list: %d", token, got)
		}
		// The lister may not, whoever runs as lister.
		if got := code(a.Authorize(t.Context(), as, configMaps("watch"))); got != http.StatusForbidden {
			t.Errorf("%s as lister may watch: %d", token, got)
		}
		if plain := callerOf(t, a, token); plain.GetName() == as.GetName() ||
			!strings.HasPrefix(plain.GetName(), access.ReaderPrefix) {
			t.Errorf("%s is %s, and %s as lister", token, plain.GetName(), as.GetName())
		}
	}
}

// TestPassthroughAsksNothingThatDoesSomething: other requests pass without being decided here.
func TestPassthroughAsksNothingThatDoesSomething(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, lasting(access.Passthrough))
	root := callerOf(t, a, "token-root")
	for _, attributes := range []auth.Attributes{
		configMaps("create"), configMaps("delete"), configMaps("deletecollection"), configMaps("impersonate"),
		{Verb: "post", Path: "/api"},
		{Verb: "get", Resource: configMaps("").Resource, Version: "v1", Namespace: "shop", Name: "a", Subresource: "proxy"},
	} {
		if err := a.Authorize(t.Context(), root, attributes); code(err) != http.StatusForbidden || asked(t, a) != 0 {
			t.Errorf("%+v: %v, %d requests", attributes, err, asked(t, a))
		}
	}
	if err := a.Authorize(t.Context(), root, named(configMaps("list"), "", "x")); code(err) != http.StatusBadRequest {
		t.Errorf("a wrong selector is answered %v, not as upstream does", err)
	}
}
