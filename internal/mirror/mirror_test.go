package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a mirror that runs until the returned function is called.
func open(t *testing.T, o mirror.Options) (*mirror.Mirror, func()) {
	t.Helper()
	m, err := mirror.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // it ends with the returned function
	return m, func() {
		stop()
		if err := errors.Join(<-ended, m.Close()); err != nil {
			t.Error(err)
		}
	}
}

func put(name string, rv kube.ResourceVersion) mirror.Change {
	return mirror.Change{Key: kube.Key{Name: name}, RV: rv, Object: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)}
}

func TestResourceVersionsAreFoundAgainAfterARestart(t *testing.T) {
	dir := t.TempDir()
	check := func(c *mirror.Collection) {
		t.Helper()
		for _, want := range []struct {
			rv    kube.ResourceVersion
			shown kube.ResourceVersion
		}{{100, 100}, {104, 100}, {105, 105}, {106, 105}, {107, 107}, {110, 120}, {150, 150}, {151, 160}, {160, 160}} {
			at, err := c.Position(want.rv, kube.ExpiredWatch)
			if err != nil {
				t.Errorf("Position(%d): %v", want.rv, err)
			} else if shown := c.Version(at); shown != want.shown && want.rv <= 110 {
				t.Errorf("Version(Position(%d)) = %d, want %d", want.rv, shown, want.shown)
			}
		}
		for _, rv := range []kube.ResourceVersion{99, 121, 149} {
			_, err := c.Position(rv, kube.ExpiredWatch)
			if _, is := errors.AsType[*kube.ExpiredError](err); !is {
				t.Errorf("Position(%d) = %v, want it expired", rv, err)
			}
		}
		_, err := c.Position(161, kube.ExpiredWatch)
		if _, is := errors.AsType[*kube.TooLargeResourceVersionError](err); !is {
			t.Errorf("Position(161) = %v, want it too large", err)
		}
	}
	m, end := open(t, mirror.Options{Dir: dir})
	c, err := m.Collection(t.Context(), "pods.v1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Replace(t.Context(), nil, []mirror.Change{put("a", 90), put("b", 80)}, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Append(t.Context(), []mirror.Change{put("a", 105), {Key: kube.Key{Name: "b"}, RV: 107}, put("c", 109)}, 120); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Replace(t.Context(), []kube.Key{{Name: "a"}}, []mirror.Change{put("d", 130)}, 150); err != nil {
		t.Fatal(err)
	}
	c.Progress(160)
	check(c)
	end()

	m, end = open(t, mirror.Options{Dir: dir})
	if c, err = m.Collection(t.Context(), "pods.v1"); err != nil {
		t.Fatal(err)
	}
	if c.Torn() || c.Reached() != 160 {
		t.Errorf("torn %t, reached %d; want a whole state at 160", c.Torn(), c.Reached())
	}
	check(c)
	page, err := m.Store().Read(t.Context(), store.Query{Start: "pods.v1/", End: store.PrefixEnd("pods.v1/")})
	if err != nil || len(page.Records) != 2 {
		t.Errorf("Read = %v, %v; want c and d", page.Records, err)
	}
	next, err := m.Rewrite(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.Replace(t.Context(), nil, []mirror.Change{put("z", 40)}, 50); err != nil {
		t.Fatal(err)
	}
	for _, rv := range []kube.ResourceVersion{49, 51, 160} {
		_, err := next.Position(rv, kube.ExpiredWatch)
		if e, is := errors.AsType[*kube.ExpiredError](err); !is || e.Reason != kube.ReasonReplaced {
			t.Errorf("Position(%d) = %v, want that the history was replaced", rv, err)
		}
	}
	end()
}
