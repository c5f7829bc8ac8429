package gaplesstest_test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gapless-io/gapless/gaplesstest"
)

var servers = flag.Int("servers", 40, "servers one after the other in TestServersLeaveNothingBehind")

// open returns the file descriptors of this process, and the entries of the directory for
// temporary files.
func open(t *testing.T) (descriptors, files []string) {
	t.Helper()
	for dir, into := range map[string]*[]string{"/proc/self/fd": &descriptors, os.TempDir(): &files} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Skipf("this system does not list what is open: %v", err)
		}
		for _, e := range entries {
			name, _ := os.Readlink(filepath.Join(dir, e.Name()))
			*into = append(*into, e.Name()+" "+name)
		}
	}
	return descriptors, files
}

// TestServersLeaveNothingBehind is alone while it runs, and goleak looks for goroutines at the
// end of all tests.
func TestServersLeaveNothingBehind(t *testing.T) { //nolint:paralleltest // others open files
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Setenv("TMPDIR", t.TempDir())
	for round := range *servers {
		t.Run("server", func(t *testing.T) {
			s := gaplesstest.New(t)
			create(t, client(t, s.RESTConfig()), "a")
		})
		if round > 0 && round < *servers-1 {
			continue
		}
		// The first server opens what all of them share.
		descriptors, files := open(t)
		if round == 0 {
			t.Cleanup(func() {
				after, left := open(t)
				more := func() bool { return len(after) > len(descriptors) || len(left) > len(files) }
				// A client closes its end of a connection when it has read that the server closed the other one.
				for deadline := time.Now().Add(10 * time.Second); more() && time.Now().Before(deadline); after, left = open(t) {
					<-time.After(10 * time.Millisecond)
				}
				if more() {
					t.Errorf("after %d servers there are the descriptors %q, before %q; the files %q, before %q",
						*servers, after, descriptors, left, files)
				}
			})
		}
	}
}

// TestFiftyServersAtOnce holds their memory to the bound of 1 GiB. It is alone while it runs.
func TestFiftyServersAtOnce(t *testing.T) { //nolint:paralleltest // memory is measured
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const at, most, each = 50, 1 << 30, 15 << 20
	before := memory()
	for range at {
		s := gaplesstest.New(t)
		create(t, client(t, s.RESTConfig()), "a")
	}
	after := memory()
	var all runtime.MemStats
	runtime.ReadMemStats(&all)
	t.Logf("%d KiB each, %d MiB in all", (after-before)/at>>10, (all.Sys-all.HeapReleased)>>20)
	if used := all.Sys - all.HeapReleased; used > most {
		t.Errorf("%d servers use %d MiB", at, used>>20)
	}
	if one := (after - before) / at; one > each {
		t.Errorf("a server uses %d KiB when it is idle", one>>10)
	}
}

// memory returns what is in use, heap and stacks, in bytes.
func memory() uint64 {
	runtime.GC()
	runtime.GC() // what has a finalizer is gone after the second one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
