//go:build unix

package apiserver_test

import (
	"net/http"
	"net/url"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

// liveHeap is how many bytes of the heap were in use when garbage was collected last.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	runtime.GC()
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// TestListsOfThePastNeedLittleMemory reads lists of 10 000 objects of 3 KB, each of which has changed since: as pages of a
// thousand, and as a whole.
func TestListsOfThePastNeedLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const objects, most = 10_000, 32 << 20
	log, err := revlog.Open(t.Context(), revlog.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	d := openServerOn(t, log, nil)
	w := pastWriter{log: log, kind: pastKinds()[1], revisions: make([]int64, objects)}
	w.write(t, 0)
	at := "at=" + url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano))
	w.write(t, 1)
	pages := d.pagesOf(t, w.kind.path, 1000, at)
	whole := []string{w.kind.path + "?" + at}
	for _, c := range []struct {
		name, header string
		pages        []string
	}{
		{"json", acceptJSON, pages},
		{"json, whole", acceptJSON, whole},
		{"gzip", "Accept-Encoding: gzip", pages},
		{"protobuf", protobufAccepted, pages},
		{"protobuf, whole", protobufAccepted, whole},
		{"table", acceptTable, pages},
	} {
		idle, top, writes := liveHeap(), int64(0), 0
		for _, page := range c.pages {
			// The server waits meanwhile: nothing is garbage that was made while it was collected.
			w := &sink{header: http.Header{}, lines: func([]byte) {
				if writes++; writes%8 == 1 {
					top = max(top, liveHeap())
				}
			}}
			if d.api.ServeHTTP(w, get(t, page, c.header)); w.status != http.StatusOK || writes == 0 {
				t.Fatalf("%s: %d after %d writes", page, w.status, writes)
			}
		}
		t.Logf("%s: %d KiB more than the %d KiB when idle, %d KiB remain",
			c.name, (top-idle)>>10, idle>>10, (liveHeap()-idle)>>10)
		if top-idle > most {
			t.Errorf("%s: %d bytes more than when idle", c.name, top-idle)
		}
	}
}
