package differential_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
	"github.com/gapless-io/gapless/conformance/differential/compare"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
	"github.com/gapless-io/gapless/conformance/oracle"
)

// quiet makes a resource with one write, to which nothing happens any more, and a
// busy one next to it, whose history is removed again and again.
const quiet = `case before
create foos n/f1 {"spec":{"color":"red"}}
capture r .metadata.resourceVersion
watch idle $foos?watch=1&resourceVersion=$r
create bars b1
patch bars b1 {"spec":{"a":1}}
compact
patch bars b1 {"spec":{"a":2}}
patch bars b1 {"spec":{"a":3}}
compact
create bars b2
delete bars b2
compact
quiet idle 500ms
close idle
`

// resume is a client that reconnects with the last resource version it saw, and the next
// write.
const resume = `await 200 $foos
case after
watch w $foos?watch=1&resourceVersion=$r
patch foos n/f1 {"spec":{"color":"blue"}}
read w 1
`

const edit = `~ PATCH $crds/foos.$group
  Content-Type: application/merge-patch+json
  {"spec":{"names":{"shortNames":["fo"]}}}
# Until the controllers have seen it.
pause 2s
`

// TestBetter shows, side by side, what upstream does not and gapless does. Each
// script's last case is judged.
func TestBetter(t *testing.T) {
	t.Parallel()
	const expired, next = "2×200 ERROR", "2×200 MODIFIED"
	tests := []struct{ name, text, upstream, gapless string }{
		{"a quiet resource does not expire while caches live", quiet + resume, next, next},
		{"a quiet resource does not expire by compactions and a restart", quiet + "restart\n" + resume, expired, next},
		{"a quiet resource does not expire by compactions and a crash", quiet + "crash\n" + resume, expired, next},
		{"a quiet resource does not expire by an edit of its definition", quiet + edit + resume, expired, next},
		{
			"history survives a restart", `case before
create foos n/f1
capture r .metadata.resourceVersion
patch foos n/f1 {"spec":{"size":1}}
delete foos n/f1
restart
await 200 $foos
case after
watch w $foos?watch=1&resourceVersion=$r
read w 2
`, "200 ERROR clean", "200 MODIFIED DELETED",
		},
		{
			"history survives an edit of the definition", `case before
create foos n/f1
capture r .metadata.resourceVersion
patch foos n/f1 {"spec":{"size":1}}
delete foos n/f1
` + edit + `await 200 $foos
case after
watch w $foos?watch=1&resourceVersion=$r
read w 2
`, "200 ERROR clean", "200 MODIFIED DELETED",
		},
		{
			"an edit of the definition cuts no watch", `case before
create foos n/f1
capture r .metadata.resourceVersion
watch w $foos?watch=1&resourceVersion=$r
` + edit + `await 200 $foos
case after
patch foos n/f1 {"spec":{"size":1}}
read w 1
`, "200 clean", "200 MODIFIED",
		},
		{
			"a bookmark that is pending comes when the watch begins", `case before
create foos n/f1
capture r .metadata.resourceVersion
create foos a/g1
# A consistent list waits until upstream's cache has seen g1.
await 200 $foos
case after
watch w $foos?watch=1&resourceVersion=$r&allowWatchBookmarks=1&timeoutSeconds=4
end w
`, "200 clean", "200 BOOKMARK clean",
		},
	}
	p := newPair(t, build(t))
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := script.Parse("better", test.text)
			if err != nil {
				t.Fatalf("parse: %v", err)
			}
			upstream, gapless := p.play(t, s, fmt.Sprintf("better%d.example.com", i))
			for _, got := range []struct {
				who, want string
				is        play.Transcript
			}{{"upstream", test.upstream, upstream}, {"gapless", test.gapless, gapless}} {
				if saw := compare.Summary("after", got.is); saw != got.want || got.is.Stopped != "" {
					t.Errorf("%s: %s (%s), want %s", got.who, saw, got.is.Stopped, got.want)
				}
			}
			t.Logf("upstream: %s; gapless: %s", test.upstream, test.gapless)
		})
	}
}

// TestBetterNoColdCache edits a definition again and again, while a client lists and
// watches as fast as it can.
func TestBetterNoColdCache(t *testing.T) {
	t.Parallel()
	p := newPair(t, build(t))
	for name, server := range map[string]play.Server{"upstream": p.upstream, "gapless": p.gapless} {
		if err := define(t.Context(), server, "cold.example.com"); err != nil {
			t.Fatalf("define: %v", err)
		}
		codes := askWhileEdited(t, server, "cold.example.com")
		t.Logf("%s answered %v", name, codes)
		refused := codes[http.StatusTooManyRequests] > 0
		if name == "gapless" && (refused || len(codes) != 1 || codes[http.StatusOK] == 0) {
			t.Errorf("gapless answered %v, want nothing but 200", codes)
		}
		if name == "upstream" && !refused {
			t.Errorf("upstream answered %v, no 429: the comparison is not one any more", codes)
		}
	}
}

// askWhileEdited counts the codes of lists and watches during edits, of which there
// are more until one is refused, but not many.
func askWhileEdited(t *testing.T, server play.Server, group string) map[int]int {
	t.Helper()
	codes := map[int]int{}
	const fewest, most, asked = 6, 12, 60
	for i := 0; i < fewest || i < most && codes[http.StatusTooManyRequests] == 0; i++ {
		body := fmt.Sprintf(`{"spec":{"names":{"shortNames":["f%d"]}}}`, i)
		patch(t, server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/foos."+group, body)
		for range asked {
			for _, query := range []string{"", "?watch=1&timeoutSeconds=-1"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
					server.Target().URL+"/apis/"+group+"/v1/foos"+query, http.NoBody)
				if err != nil {
					t.Fatalf("make a request: %v", err)
				}
				code, _, err := send(server.Target(), req)
				if err != nil {
					t.Fatalf("send: %v", err)
				}
				codes[code]++
			}
		}
	}
	return codes
}

// patch merges a body into an object, which must be accepted.
func patch(t *testing.T, server play.Server, path, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.Target().URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	if code, answer, err := send(server.Target(), req); err != nil || code != http.StatusOK {
		t.Fatalf("PATCH %s: %d %s %v", path, code, answer, err)
	}
}

// TestBetterSlowReader opens a watch, does not read it while a lot is written, and
// reads it then.
func TestBetterSlowReader(t *testing.T) {
	t.Parallel()
	const objects, bytesEach = 300, 100 << 10 // more than sockets and upstream's queues hold
	p := newPair(t, build(t))
	seen := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for name, server := range map[string]play.Server{"upstream": p.upstream, "gapless": p.gapless} {
		if err := define(t.Context(), server, "slow.example.com"); err != nil {
			t.Fatalf("define: %v", err)
		}
		wg.Go(func() {
			n, err := readLate(t.Context(), server, objects, bytesEach)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[name] = n
		})
	}
	wg.Wait()
	t.Logf("of %d events a reader that slept saw: %v", objects, seen)
	if seen["gapless"] != objects {
		t.Errorf("gapless delivered %d events, want all %d", seen["gapless"], objects)
	}
	if seen["upstream"] >= objects {
		t.Errorf("upstream delivered %d events: the comparison is not one any more", seen["upstream"])
	}
}

// readLate counts the events that a reader gets that begins to read when all is
// written. The watch ends when the server ends it or when all are there.
func readLate(ctx context.Context, server play.Server, objects, bytesEach int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	to := server.Target()
	const path = "/apis/slow.example.com/v1/namespaces/n/foos"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.URL+path+"?watch=1&resourceVersion=0&timeoutSeconds=45",
		http.NoBody)
	if err != nil {
		return 0, err
	}
	if to.Token != "" {
		req.Header.Set("Authorization", "Bearer "+to.Token)
	}
	transport := &http.Transport{TLSClientConfig: to.TLS}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text := strings.Repeat("x", bytesEach)
	for i := range objects {
		object := map[string]any{
			"apiVersion": "slow.example.com/v1", "kind": "Foo",
			"metadata": map[string]any{"name": fmt.Sprintf("f%d", i)}, "spec": map[string]any{"text": text},
		}
		if err := post(ctx, to, path, object); err != nil {
			return 0, err
		}
	}
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for n := 0; n < objects; {
		line, err := lines.ReadBytes('\n')
		if bytes.HasPrefix(line, []byte(`{"type":"ADDED"`)) && json.Valid(line) {
			n++
		}
		if err != nil { // however it ended
			return n, nil
		}
	}
	return objects, nil
}

// TestBetterExactReads reads at every version of an object, after upstream's own
// compactor has run a few times. It removes what is older than its interval, which
// is 5 minutes by default and here is 1 s; gapless has its default, which is a day.
func TestBetterExactReads(t *testing.T) {
	t.Parallel()
	reference, err := oracle.Start(t.Context(), oracle.Options{
		Dir: t.TempDir(), NoSync: true, Flags: []string{"--etcd-compaction-interval=1s"},
	})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := reference.Stop(); err != nil {
			t.Errorf("stop the reference server: %v", err)
		}
	})
	servers := map[string]play.Server{"upstream": &upstream{server: reference}, "gapless": newProgram(t, build(t))}
	for name, server := range servers {
		if err := define(t.Context(), server, "exact.example.com"); err != nil {
			t.Fatalf("define: %v", err)
		}
		versions := writeVersions(t, server)
		codes := map[int]int{}
		read := func() bool {
			clear(codes)
			for i, rv := range versions {
				code, size := exact(t, server, rv)
				codes[code]++
				if code == http.StatusOK && size != fmt.Sprint(i) {
					t.Errorf("%s: at %s the size is %s, want %d", name, rv, size, i)
				}
			}
			return codes[http.StatusGone] > 0
		}
		if name == "upstream" { // its watch cache learns of compactions each 15 s
			harness.Eventually(t, "upstream has compacted a version", read)
		} else {
			read()
		}
		t.Logf("%s answered %d exact lists: %v", name, len(versions), codes)
		if name == "gapless" && codes[http.StatusOK] != len(versions) {
			t.Errorf("gapless answered %v, want nothing but 200", codes)
		}
	}
}

// writeVersions writes an object several times and returns its resource versions.
func writeVersions(t *testing.T, server play.Server) []string {
	t.Helper()
	const path = "/apis/exact.example.com/v1/namespaces/n/foos"
	if err := post(t.Context(), server.Target(), path, map[string]any{
		"apiVersion": "exact.example.com/v1", "kind": "Foo", "metadata": map[string]any{"name": "f1"},
		"spec": map[string]any{"size": 0},
	}); err != nil {
		t.Fatalf("post: %v", err)
	}
	var versions []string
	for i := range 20 {
		if i > 0 {
			patch(t, server, path+"/f1", fmt.Sprintf(`{"spec":{"size":%d}}`, i))
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.Target().URL+path+"/f1", http.NoBody)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		_, answer, err := send(server.Target(), req)
		if err != nil {
			t.Fatalf("send: %v", err)
		}
		rv, err := script.Member(answer, ".metadata.resourceVersion")
		if err != nil {
			t.Fatalf("member: %v", err)
		}
		versions = append(versions, rv)
	}
	return slices.Compact(versions)
}

// exact lists at a resource version and returns the code and the object's size.
func exact(t *testing.T, server play.Server, rv string) (int, string) {
	t.Helper()
	url := server.Target().URL + "/apis/exact.example.com/v1/namespaces/n/foos?resourceVersionMatch=Exact&resourceVersion=" + rv
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	code, answer, err := send(server.Target(), req)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	size, err := script.Member(answer, ".items[0].spec.size")
	if code == http.StatusOK && err != nil {
		t.Error(err)
	}
	return code, size
}
