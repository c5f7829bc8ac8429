package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// writesToFail returns one request of each verb that writes. The first one meets the
// failure, and its outcome is unknown.
func writesToFail() [][]string {
	return [][]string{
		{http.MethodPost, configMaps, configMapBody("new", "1")},
		{http.MethodPut, configMaps + "/a", configMapBody("a", "9")},
		{http.MethodPatch, configMaps + "/a", `{"data":{"x":"9"}}`, "Content-Type: application/merge-patch+json"},
		{http.MethodDelete, configMaps + "/a", ""},
		{http.MethodDelete, configMaps, ""},
	}
}

// TestFailedSyncRefusesWritesAndServesReads lets a disk fail in the way that
// leaves its state unknown.
func TestFailedSyncRefusesWritesAndServesReads(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"sync"} {
		t.Run(op, func(t *testing.T) {
			fs := &failingFS{FS: disk.NewMemory()}
			a := assemble(t, revlog.Options{FS: fs})
			c := a.caller(t)
			first := c.create("default", "a", "1").rv()
			second := c.relabel("default", "a", "2").rv()
			open := c.watch(configMaps + "?watch=1&timeoutSeconds=1&resourceVersion=" + second)
			before := string(c.do(http.MethodGet, configMaps, "").body)

			fs.fail(syscall.EIO, op)
			refusedWrites(t, c, "input/output error")
			fs.fail(nil) // what the disk says from now on is not to be trusted
			refusedWrites(t, c, "restart")
			for path, want := range map[string]int{
				"/livez": 500, "/readyz": 500, "/livez/storage-durable": 500, "/readyz/storage-writes": 500, "/livez/etcd": 200,
			} {
				if r := c.do(http.MethodGet, path, ""); r.code != want {
					t.Errorf("%s: %d %s, want %d", path, r.code, r.body, want)
				}
			}

			if after := string(c.do(http.MethodGet, configMaps, "").body); after != before {
				t.Errorf("a refused write is seen:\n%s, before it was\n%s", after, before)
			}
			exact := c.must(http.StatusOK, http.MethodGet, configMaps+"?resourceVersionMatch=Exact&resourceVersion="+first, "")
			if exact.text("items", "0", "data", "x") != "1" {
				t.Errorf("the state of %s is %v", first, exact)
			}
			c.watch(configMaps + "?watch=1&timeoutSeconds=1&resourceVersion=" + first).end("MODIFIED default/a@" + second)
			open.end("")
			c.must(http.StatusNotFound, http.MethodGet, configMaps+"/new", "")

			if err := a.stop(); !poisoned(err) {
				t.Errorf("the log ends with %v, want the failure of its disk", err)
			}
			again := assemble(t, revlog.Options{FS: fs}).caller(t)
			if o := again.must(http.StatusOK, http.MethodGet, configMaps+"/a", ""); o.rv() != second {
				t.Errorf("after a restart a is at %s, want %s", o.rv(), second)
			}
			again.create("default", "after", "1")
		})
	}
}

// TestWritesResumeAfterTransientDiskErrors lets writes into files fail, which loses
// nothing: only the first of them may have an unknown outcome.
func TestWritesResumeAfterTransientDiskErrors(t *testing.T) {
	t.Parallel()
	fs := &failingFS{FS: disk.NewMemory()}
	a := assemble(t, revlog.Options{FS: fs})
	c := a.caller(t)
	c.create("default", "a", "1")
	before := string(c.do(http.MethodGet, configMaps, "").body)
	health := func(livez, readyz, writes int) {
		t.Helper()
		for path, want := range map[string]int{
			"/livez": livez, "/readyz": readyz, "/readyz/storage-writes": writes, "/readyz/storage-durable": 200,
		} {
			if r := c.do(http.MethodGet, path, ""); r.code != want {
				t.Errorf("%s: %d %s, want %d", path, r.code, r.body, want)
			}
		}
	}
	health(200, 200, 200)
	fs.fail(syscall.EIO, "write")
	for i, w := range writesToFail() {
		r := c.do(w[0], w[1], w[2], w[3:]...)
		if want := []int{http.StatusInternalServerError, http.StatusServiceUnavailable}[min(i, 1)]; r.code != want {
			t.Errorf("%s %s: %d %s, want %d", w[0], w[1], r.code, r.body, want)
		}
	}
	health(200, 500, 500)
	fs.fail(nil)
	for until := time.Now().Add(time.Minute); c.do(http.MethodGet, "/readyz", "").code != http.StatusOK; {
		if time.Now().After(until) {
			t.Fatal("the server is not ready a minute after its disk works again, without writes")
		}
		<-time.After(20 * time.Millisecond)
	}
	health(200, 200, 200)
	if after := string(c.do(http.MethodGet, configMaps, "").body); after != before {
		t.Errorf("a refused write is seen:\n%s, before it was\n%s", after, before)
	}
	c.create("default", "after", "1")
	if err := a.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	again := assemble(t, revlog.Options{FS: fs}).caller(t)
	again.must(http.StatusOK, http.MethodGet, configMaps+"/after", "")
	again.must(http.StatusNotFound, http.MethodGet, configMaps+"/new", "")
}

// refusedWrites sends one write of each kind; all are answered with 500 and why.
func refusedWrites(t *testing.T, c *caller, why string) {
	t.Helper()
	for _, w := range writesToFail() {
		r := c.do(w[0], w[1], w[2], w[3:]...)
		status := r.tree(t)
		if r.code != http.StatusInternalServerError || status.text("reason") != "InternalError" ||
			!strings.Contains(status.text("message"), why) {
			t.Errorf("%s %s: %d %s, want 500 with %q", w[0], w[1], r.code, r.body, why)
		}
	}
}

// TestFullDiskRefusesWritesUntilThereIsSpace follows a watch over a time without
// space: it shows what was acknowledged and nothing else.
func TestFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	fs := &failingFS{FS: disk.NewMemory()}
	a := assemble(t, revlog.Options{FS: fs, SegmentBytes: 16 << 10})
	c := a.caller(t)
	open := c.watch(configMaps + "?watch=1&resourceVersion=" + c.current())
	var want []string
	refused := 0
	write := func(n int) {
		name := fmt.Sprintf("n%03d", n)
		r := c.do(http.MethodPost, configMaps, configMapBody(name, strings.Repeat("x", 60)))
		switch {
		case r.code == http.StatusCreated:
			want = append(want, "ADDED default/"+name+"@"+r.tree(t).rv())
		case r.code != http.StatusServiceUnavailable || !strings.Contains(r.tree(t).text("message"), "no space left"):
			t.Fatalf("write %d: %d %s", n, r.code, r.body)
		default:
			refused++
			c.must(http.StatusNotFound, http.MethodGet, configMaps+"/"+name, "")
		}
	}
	for n := range 150 {
		switch n {
		case 20:
			fs.fail(syscall.ENOSPC, "create", "allocate")
		case 120:
			fs.fail(nil)
			if refused == 0 {
				t.Fatal("a full disk refuses nothing")
			}
		}
		was := refused
		if write(n); n >= 120 && refused > was {
			t.Fatalf("write %d is refused although there is space", n)
		}
	}
	if got := open.take(len(want)); got != strings.Join(want, ", ") {
		t.Errorf("the watch shows\n%s, want\n%s", got, strings.Join(want, ", "))
	}
	list := c.must(http.StatusOK, http.MethodGet, configMaps, "")
	if items, _ := list.at("items").([]any); len(items) != len(want) {
		t.Errorf("%d objects are there, %d were acknowledged", len(items), len(want))
	}
	if err := a.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	again := assemble(t, revlog.Options{FS: fs, SegmentBytes: 16 << 10}).caller(t)
	if after := again.must(http.StatusOK, http.MethodGet, configMaps, ""); after.keys() != list.keys() {
		t.Errorf("after a restart there are %s, want %s", after.keys(), list.keys())
	}
}

// TestAcknowledgedWritesSurviveADiskFailure makes the disk fail during
// concurrent writes, and checks every acknowledged write afterwards.
func TestAcknowledgedWritesSurviveADiskFailure(t *testing.T) {
	t.Parallel()
	fs := &failingFS{FS: disk.NewMemory()}
	a := assemble(t, revlog.Options{FS: fs})
	c := a.caller(t)
	const writers, before = 8, 40
	var mu sync.Mutex
	acknowledged := map[string]string{} // name → resourceVersion
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("w%d-%d", w, i)
				r, err := c.try(t.Context(), http.MethodPost, configMaps, configMapBody(name, "1"))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if r.code != http.StatusCreated {
					if r.code != http.StatusInternalServerError {
						t.Errorf("%s: %d %s", name, r.code, r.body)
					}
					return
				}
				o, err := r.decode()
				if err != nil {
					t.Errorf("decode: %v", err)
				}
				mu.Lock()
				acknowledged[name] = o.rv()
				if len(acknowledged) == before {
					fs.fail(syscall.EIO, "sync")
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := a.stop(); !poisoned(err) {
		t.Fatalf("the log ends with %v, want the failure of its disk", err)
	}
	fs.fail(nil)
	again := assemble(t, revlog.Options{FS: fs}).caller(t)
	for name, rv := range acknowledged {
		if o := again.must(http.StatusOK, http.MethodGet, configMaps+"/"+name, ""); o.rv() != rv {
			t.Errorf("%s is at %s, was acknowledged at %s", name, o.rv(), rv)
		}
	}
	t.Logf("%d writes were acknowledged and are there", len(acknowledged))
}
