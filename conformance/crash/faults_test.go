//go:build linux

package crash_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/conformance/crash/program"
)

// faults are rules by which answers are lost, connections are reset and refused, and writes fail
// before and after they are done.
const faults = `[
{"match":{"verbs":["create"],"probability":0.05},"action":"lost-answer"},
{"match":{"verbs":["create"],"probability":0.05},"action":"cut","with":{"how":"reset"}},
{"match":{"verbs":["create"],"probability":0.05},"action":"store-write","with":{"fail":"before"}},
{"match":{"verbs":["create"],"probability":0.05},"action":"store-write","with":{"fail":"after"}},
{"match":{"verbs":["create"],"probability":0.05},"action":"unavailable"},
{"match":{"verbs":["create"],"nth":20},"action":"restart","with":{"for":"50ms"}}]`

// TestFaultsAndRestartsDuringAShortageLoseNothing makes requests fail by rules and kills the server,
// while it has no disk space or no file handles: what was acknowledged is there, and what was
// refused is not.
func TestFaultsAndRestartsDuringAShortageLoseNothing(t *testing.T) {
	disk := smallDisk(t)
	ballast := filepath.Join(disk, "ballast")
	s := newSite(t, program.Config{
		DataDir: filepath.Join(disk, "data"), Flags: []string{"--enable-faults", "--faults-seed", "1"},
	})
	w := &writers{site: s, outcomes: map[string]outcome{}}
	for round := range 3 {
		w.during(func() {
			w.inject()
			w.wait(50, done)
			if round == 0 {
				if err := s.server.TakeHandles(); err != nil {
					t.Fatalf("take handles: %v", err)
				}
				w.wait(50, "")
				if err := s.server.GiveHandles(); err != nil {
					t.Fatalf("give handles: %v", err)
				}
			} else {
				s.until("readyz says that writes are refused", func() bool {
					fill(t, ballast)
					return strings.Contains(string(s.get("/readyz").Body), "[-]"+writesCheck)
				})
				w.wait(50, "")
			}
			if round == 2 {
				w.kill(ballast)
				w.inject()
			}
			if err := os.Remove(ballast); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			w.wait(50, done)
		})
		w.check(fmt.Sprintf("round %d", round+1))
	}
	s.c = s.client(program.HTTP1)
	if a := s.c.Do(t.Context(), http.MethodDelete, "/faults", nil); a.Code != http.StatusOK {
		t.Errorf("remove the rules: %s", a)
	}
	s.until("writes are accepted", func() bool { return s.write().Code == http.StatusCreated })
	s.until("readyz is ok", func() bool { return s.get("/readyz").Code == http.StatusOK })
}

// outcome is what is known of a write.
type outcome string

const (
	done    outcome = "done"
	refused outcome = "refused" // with 503: for want of space or handles, or by a rule
	unknown outcome = "unknown" // no answer, or a 500 of the store
)

// writers write objects of different names at the same time.
type writers struct {
	*site

	mu sync.Mutex
	// mu guards outcomes, by name.
	outcomes map[string]outcome
}

// during runs the writers beside do.
func (w *writers) during(do func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	defer all.Wait() // also when do ends the test
	defer cancel()
	for range 4 {
		c := w.client(program.HTTP1)
		all.Go(func() {
			for ctx.Err() == nil {
				w.write(ctx, c)
			}
		})
	}
	do()
}

func (w *writers) write(ctx context.Context, c *program.Client) {
	w.mu.Lock()
	name := fmt.Sprintf("w%05d", len(w.outcomes))
	w.outcomes[name] = unknown
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Second) // a server without handles accepts no connection
	defer cancel()
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"x":%q}}`,
		name, strings.Repeat("x", 16<<10))
	a := c.Do(ctx, http.MethodPost, configMaps, []byte(body))
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a.Code {
	case http.StatusCreated:
		w.outcomes[name] = done
	case http.StatusServiceUnavailable:
		w.outcomes[name] = refused
	case 0, http.StatusInternalServerError:
	default:
		w.t.Errorf("a write is answered with %s", a)
	}
}

func (w *writers) count(o outcome) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, other := range w.outcomes {
		if o == "" || o == other {
			n++
		}
	}
	return n
}

// wait waits for so many more writes with an outcome; "" is any.
func (w *writers) wait(n int, o outcome) {
	w.t.Helper()
	before := w.count(o)
	w.until(fmt.Sprintf("%d more writes, %q", n, o), func() bool { return w.count(o) >= before+n })
}

// inject adds the rules, or fails the test.
func (w *writers) inject() {
	w.t.Helper()
	c := w.client(program.HTTP1)
	w.until("the rules are added", func() bool {
		a := c.Do(w.t.Context(), http.MethodDelete, "/faults", nil)
		if a.Code == http.StatusOK {
			a = c.Do(w.t.Context(), http.MethodPost, "/faults", []byte(faults))
		}
		if a.Code >= 400 {
			w.t.Fatalf("add the rules: %s", a)
		}
		return a.Code == http.StatusOK
	})
}

// kill kills the server and starts it again. On a full file system it may serve, or not start:
// then there is space first.
func (w *writers) kill(ballast string) {
	w.t.Helper()
	if err := w.server.Kill(); err != nil {
		w.t.Fatalf("kill server: %v", err)
	}
	if w.server.Start(w.t.Context()) == nil {
		return
	}
	if err := os.Remove(ballast); err != nil {
		w.t.Fatalf("remove a file: %v", err)
	}
	if err := w.server.Start(w.t.Context()); err != nil {
		w.t.Fatalf("start server: %v", err)
	}
}

// check compares a LIST with what is known. What is not known becomes known.
func (w *writers) check(when string) {
	w.t.Helper()
	w.c = w.client(program.HTTP1)
	var there []string
	w.until("the server lists", func() bool {
		a := w.get(configMaps)
		if a.Code != http.StatusOK {
			return false
		}
		for _, item := range w.list().Items {
			there = append(there, item.Metadata.Name)
		}
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := map[outcome]int{}
	for name, o := range w.outcomes {
		counts[o]++
		is := slices.Contains(there, name)
		if o != unknown && is != (o == done) {
			w.t.Errorf("%s: %s was %s, is there %t", when, name, o, is)
		}
		w.outcomes[name] = refused
		if is {
			w.outcomes[name] = done
		}
	}
	w.t.Logf("%s: %v", when, counts)
}
