package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// faultDependents is how many objects a test's collection deletes: their records fill several
// segments of 16 KiB.
const faultDependents = 400

// toCollect creates an owner with dependents, and a namespace with content.
func toCollect(c *caller) {
	ref := reference(c.create("default", "owner", "1"), true)
	crowd(8, faultDependents, func(i int) { c.owned("default", fmt.Sprintf("d%d", i), "", ref) })
	c.namespace("doomed")
	crowd(8, 50, func(i int) { c.create("doomed", fmt.Sprintf("n%d", i), "1") })
	c.create("kube-system", "witness", "1")
}

// witness writes an object that is not collected. It is long, so that it does not fit into
// what is left of a segment.
func witness(c *caller) reply {
	body := fmt.Sprintf(`{"metadata":{"name":"witness"},"data":{"x":%q,"at":"%d"}}`,
		strings.Repeat("x", 16<<10), time.Now().UnixNano())
	return c.do(http.MethodPut, "/api/v1/namespaces/kube-system/configmaps/witness", body)
}

// collected waits until nothing of that is left.
func collected(c *caller) {
	c.t.Helper()
	for _, path := range []string{configMaps, "/api/v1/namespaces/doomed/configmaps"} {
		until(c.t, path+" is empty", time.Minute, func() bool {
			return c.must(http.StatusOK, http.MethodGet, path+"?limit=1", "").keys() == ""
		})
	}
	c.gone("/api/v1/namespaces/doomed")
}

// health requires what the checks answer.
func health(c *caller, want map[string]int) {
	c.t.Helper()
	for path, code := range want {
		if r := c.do(http.MethodGet, path, ""); r.code != code {
			c.t.Errorf("%s: %d %s, want %d", path, r.code, r.body, code)
		}
	}
}

// oneTryEach fails when a worker of the collector has tried again while it could not succeed.
func oneTryEach(t *testing.T, a *assembled) {
	t.Helper()
	const workers = 64
	if n := a.garbage.Stats().Errors; n > workers {
		t.Errorf("%d writes of the collector failed, more than it has workers", n)
	}
}

// TestControllersGoOnAfterAShortage lets a disk refuse writes in the middle of a collection
// and of the deletion of a namespace, for a cause that passes.
func TestControllersGoOnAfterAShortage(t *testing.T) {
	t.Parallel()
	for name, shortage := range map[string]struct {
		err        error
		op, policy string
	}{
		"full disk":            {syscall.ENOSPC, "create", "Background"},
		"full while allocated": {syscall.ENOSPC, "allocate", "Foreground"},
		"no file handles":      {syscall.EMFILE, "create", "Foreground"},
		"failed writes":        {syscall.EIO, "write", "Background"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := &failingFS{FS: disk.NewMemory()}
			options := revlog.Options{FS: fs, SegmentBytes: 16 << 10}
			a := assemble(t, options)
			c := a.caller(t)
			toCollect(c)
			// The two deletions by the client are to succeed; it repeats them.
			fs.failAfter(3, shortage.err, shortage.op)
			for _, path := range []string{"/api/v1/namespaces/doomed", configMaps + "/owner"} {
				until(t, path+" is deleted", time.Minute, func() bool {
					r := c.do(http.MethodDelete, path+"?propagationPolicy="+shortage.policy, "")
					if r.code < http.StatusInternalServerError {
						return true
					}
					fs.failAfter(3, shortage.err, shortage.op)
					return false
				})
			}
			until(t, "writes are refused", time.Minute, func() bool { return witness(c).code == http.StatusServiceUnavailable })
			health(c, map[string]int{
				"/livez": 200, "/readyz": 500, "/readyz/storage-writes": 500, "/readyz/storage-durable": 200,
			})
			for range 100 {
				if r := witness(c); r.code != http.StatusServiceUnavailable {
					t.Fatalf("a write meanwhile is answered by %d %s", r.code, r.body)
				}
			}
			oneTryEach(t, a)
			fs.fail(nil)
			collected(c)
			until(t, "the server is ready", time.Minute, func() bool {
				return c.do(http.MethodGet, "/readyz", "").code == http.StatusOK
			})
			if err := a.stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			collected(assemble(t, options).caller(t))
		})
	}
}

// TestControllersGoOnAfterAFailedSync lets a sync fail in the middle of a
// collection: nothing is deleted from then on, until a restart.
func TestControllersGoOnAfterAFailedSync(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"Background", "Foreground", "Orphan"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			fs := &failingFS{FS: disk.NewMemory()}
			a := assemble(t, revlog.Options{FS: fs})
			c := a.caller(t)
			toCollect(c)
			c.must(http.StatusOK, http.MethodDelete, configMaps+"/owner?propagationPolicy="+policy, "")
			fs.fail(errors.New("injected"), "sync")
			until(t, "a sync has failed", time.Minute, func() bool {
				c.do(http.MethodDelete, "/api/v1/namespaces/doomed", "")
				return a.log.Durable() != nil
			})
			fs.fail(nil) // what the disk says from now on is not to be trusted
			health(c, map[string]int{
				"/livez": 500, "/readyz": 500, "/livez/storage-durable": 500, "/readyz/storage-writes": 500, "/livez/etcd": 200,
			})
			before := c.must(http.StatusOK, http.MethodGet, configMaps, "").rv()
			if r := witness(c); r.code != http.StatusInternalServerError || !strings.Contains(string(r.body), "restart") {
				t.Errorf("a write is answered by %d %s", r.code, r.body)
			}
			if after := c.must(http.StatusOK, http.MethodGet, configMaps, "").rv(); after != before {
				t.Errorf("the state goes from %s to %s while writes are refused", before, after)
			}
			oneTryEach(t, a)
			if err := a.stop(); !poisoned(err) {
				t.Errorf("the log ends with %v, want the failure of its disk", err)
			}

			a = assemble(t, revlog.Options{FS: fs})
			c = a.caller(t)
			c.do(http.MethodDelete, "/api/v1/namespaces/doomed", "") // the first one may not have been written
			c.gone(configMaps + "/owner")
			if policy == "Orphan" {
				list := c.must(http.StatusOK, http.MethodGet, configMaps, "")
				items, _ := list.at("items").([]any)
				for _, item := range items {
					if o, is := item.(map[string]any); is && owners(tree(o)) != "" {
						t.Fatalf("%s still has the owners %s", tree(o).key(), owners(tree(o)))
					}
				}
				if len(items) != faultDependents {
					t.Errorf("%d of %d orphans are there", len(items), faultDependents)
				}
				c.must(http.StatusOK, http.MethodDelete, configMaps, "")
			}
			collected(c)
			health(c, map[string]int{"/livez": 200, "/readyz": 200})
		})
	}
}
