package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// watchRow is a row of the table of resource versions for WATCH: what a watch of 2 s shows.
type watchRow struct {
	name, path, query string
	frames            string
	refused           listRow // instead, if its code is set
}

func watchRows() []watchRow {
	const (
		state  = "ADDED default-b/d@{d}, ADDED default/a@{a}, ADDED default/b@{b2}"
		end    = ", END@{d}"
		afterA = "ADDED default/b@{b}, ADDED default/c@{c}, MODIFIED default/b@{b2}, DELETED default/c@{gone}, " +
			"ADDED default-b/d@{d}"
		initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		marks   = "&allowWatchBookmarks=true"
	)
	invalid := func(message string) listRow {
		return listRow{code: http.StatusUnprocessableEntity, reason: "Invalid", message: message}
	}
	return []watchRow{
		{name: "unset", query: "", frames: state},
		{name: "unset with bookmarks", query: marks, frames: state + end},
		{name: "zero", query: "resourceVersion=0", frames: state},
		{name: "zero with bookmarks", query: "resourceVersion=0" + marks, frames: state + end},
		{name: "after", query: "resourceVersion={a}", frames: afterA},
		{name: "after with bookmarks", query: "resourceVersion={a}" + marks, frames: afterA},
		{name: "after the last", query: "resourceVersion={d}" + marks, frames: ""},
		{name: "future", query: "resourceVersion={future}", frames: "ERROR 410 Expired"},
		{name: "initial", query: initial, frames: state},
		{name: "initial with bookmarks", query: initial + marks, frames: state + end},
		{name: "initial at zero", query: "resourceVersion=0" + initial + marks, frames: state + end},
		{name: "initial not older", query: "resourceVersion={a}" + initial + marks, frames: state + end},
		{name: "initial future", query: "resourceVersion={future}" + initial + marks, frames: "ERROR 504 Timeout"},
		{name: "no initial", query: "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", frames: ""},
		{
			name: "no initial at zero", query: "resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
			frames: "",
		},
		{
			name: "no initial after", query: "resourceVersion={b2}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
			frames: "DELETED default/c@{gone}, ADDED default-b/d@{d}",
		},
		{name: "limit and continue", query: "resourceVersion={gone}&limit=1&continue=nonsense", frames: "ADDED default-b/d@{d}"},
		{
			name: "label", query: "resourceVersion={a}&labelSelector=x%3D1",
			frames: "ADDED default/b@{b}, ADDED default/c@{c}, DELETED default/b@{b2}, DELETED default/c@{gone}, " +
				"ADDED default-b/d@{d}",
		},
		{name: "label that comes", query: "resourceVersion={a}&labelSelector=x%3D2", frames: "ADDED default/b@{b2}"},
		{
			name: "name", query: "resourceVersion={a}&fieldSelector=metadata.name%3Db",
			frames: "ADDED default/b@{b}, MODIFIED default/b@{b2}",
		},
		{name: "initial with label", query: "labelSelector=x%3D2" + marks, frames: "ADDED default/b@{b2}" + end},
		{
			name: "namespace", path: configMaps, query: "resourceVersion={c}",
			frames: "MODIFIED default/b@{b2}, DELETED default/c@{gone}",
		},
		{name: "namespace that is behind", path: configMaps, query: "resourceVersion={gone}" + marks, frames: "BOOKMARK@{d}"},
		{name: "heartbeat", query: "timeoutSeconds=3&resourceVersion={d}" + marks, frames: "BOOKMARK@{d}"},
		{
			name: "deprecated path", path: "/api/v1/watch/namespaces/default/configmaps", query: "resourceVersion={c}",
			frames: "MODIFIED default/b@{b2}, DELETED default/c@{gone}",
		},
		{
			name: "deprecated path of one", path: "/api/v1/watch/namespaces/default/configmaps/b", query: "resourceVersion={a}",
			frames: "ADDED default/b@{b}, MODIFIED default/b@{b2}",
		},
		{
			name: "deprecated path of one that is selected too", path: "/api/v1/watch/namespaces/default/configmaps/b",
			query: "resourceVersion={b}&fieldSelector=metadata.name%3Db", frames: "MODIFIED default/b@{b2}",
		},
		{
			name: "deprecated path of one, and another one", path: "/api/v1/watch/namespaces/default/configmaps/b",
			query: "fieldSelector=metadata.name%3Dc",
			refused: listRow{
				code: http.StatusBadRequest, reason: "BadRequest",
				message: "fieldSelector metadata.name doesn't match requested name",
			},
		},
		{
			name: "deprecated path of one, and no name", path: "/api/v1/watch/namespaces/default/configmaps/b",
			query: "fieldSelector=metadata.namespace%3Ddefault",
			refused: listRow{
				code: http.StatusBadRequest, reason: "BadRequest",
				message: "fieldSelector metadata.name doesn't match requested name",
			},
		},
		{name: "negative timeout", query: "timeoutSeconds=-1", frames: ""},
		{
			name: "initial without match", query: "sendInitialEvents=true",
			refused: invalid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
		},
		{
			name: "match without initial", query: "resourceVersion={a}&resourceVersionMatch=NotOlderThan",
			refused: invalid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
		},
		{
			name: "other match", query: "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion={a}",
			refused: invalid(`Unsupported value: "Exact": supported values: "NotOlderThan"`),
		},
		{
			name: "match and continue", query: "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
			refused: invalid("resourceVersionMatch is forbidden when continue is provided"),
		},
		{
			name: "no number", query: "resourceVersion=abc",
			refused: listRow{code: http.StatusBadRequest, reason: "BadRequest", message: `parsing "abc": invalid syntax`},
		},
		{
			name: "field", query: "fieldSelector=spec.a%3D1",
			refused: listRow{
				code: http.StatusBadRequest, reason: "BadRequest",
				message: `"spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"`,
			},
		},
	}
}

// TestWatchFollowsTheTableOfResourceVersions opens all watches at once and reads
// each to its end.
func TestWatchFollowsTheTableOfResourceVersions(t *testing.T) {
	t.Parallel()
	w := launchHistory(t)
	type watched struct {
		wire   protocol
		row    watchRow
		frames []frame
		reply  reply
		err    error
	}
	var all []*watched
	var wg sync.WaitGroup
	for _, proto := range []protocol{http1, http2} {
		c := w.caller(t, proto)
		for _, row := range watchRows() {
			one := &watched{wire: proto, row: row}
			all = append(all, one)
			if row.path == "" {
				row.path = allConfigMaps
			}
			path := row.path + "?watch=true&" + w.in(row.query)
			if !strings.Contains(path, "timeoutSeconds") {
				path += "&timeoutSeconds=2"
			}
			wg.Go(func() {
				if row.refused.code != 0 {
					one.reply, one.err = c.try(t.Context(), http.MethodGet, path, "")
					return
				}
				s, err := c.follow(t.Context(), path)
				if one.err = err; err == nil {
					one.frames, one.err = s.rest()
					s.close()
				}
			})
		}
	}
	wg.Wait()
	for _, one := range all {
		t.Run(string(one.wire)+"/"+one.row.name, func(t *testing.T) {
			if one.err != nil {
				t.Fatal(one.err)
			}
			if one.row.refused.code != 0 {
				checkStatus(t, w, one.row.refused, one.reply)
			} else if got := words(one.frames); got != w.in(one.row.frames) {
				t.Errorf("frames are\n%s, want\n%s", got, w.in(one.row.frames))
			}
		})
	}
}

// eachWire runs a test over both protocols, each with a history of its own.
func eachWire(t *testing.T, test func(t *testing.T, w *knownHistory, c *caller)) {
	t.Parallel()
	for _, proto := range []protocol{http1, http2} {
		t.Run(string(proto), func(t *testing.T) {
			w := launchHistory(t)
			test(t, w, w.caller(t, proto))
		})
	}
}

func TestWatchRespondsBeforeTheFirstEvent(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		for _, accept := range []string{"application/json", "application/json;stream=watch", "*/*"} {
			resp, err := c.send(t.Context(), http.MethodGet, configMaps+"?watch=1&resourceVersion="+w.moments["d"], "",
				"Accept: "+accept)
			if err != nil {
				t.Fatalf("send: %v", err)
			}
			for name, want := range map[string]string{
				"Content-Type": "application/json", "Cache-Control": "no-cache, private", "Content-Length": "",
			} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if chunked := len(resp.TransferEncoding) == 1 && resp.TransferEncoding[0] == "chunked"; chunked != (c.wire == http1) {
				t.Errorf("Transfer-Encoding is %v", resp.TransferEncoding)
			}
			if resp.Header.Get("Audit-Id") == "" {
				t.Error("no Audit-Id")
			}
			if err := resp.Body.Close(); err != nil {
				t.Errorf("close body: %v", err)
			}
		}
		if r := c.do(http.MethodGet, configMaps+"?watch=1", "", "Accept: application/yaml"); r.code != http.StatusNotAcceptable {
			t.Errorf("a watch in YAML gives %d: %s", r.code, r.body)
		}
		r := c.do(http.MethodGet, configMaps+"?watch=1", "", "Accept: text/plain")
		checkStatus(t, w,
			listRow{
				code: http.StatusNotAcceptable, reason: "NotAcceptable",
				message: "only the following media types are accepted: application/json, application/yaml, " +
					"application/vnd.kubernetes.protobuf",
			}, r)
	})
}

func TestWatchSendsSelectorTransitions(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		s := c.watch(configMaps + "?watch=1&labelSelector=x%3D1&resourceVersion=" + w.moments["d"])
		rvs := []any{c.create("default", "f", "1").rv(), c.relabel("default", "f", "2").rv()}
		c.relabel("default", "f", "3") // out of sight
		rvs = append(rvs, c.relabel("default", "f", "1").rv())
		c.remove("default", "f")
		rvs = append(rvs, c.current())
		added, left := s.next(), s.next()
		if left.object.text("data", "x") != "1" || left.object.text("metadata", "labels", "x") != "1" {
			t.Errorf("what left the selection is shown as %v, want the last that was in it", left.object)
		}
		back, gone := s.next(), s.next()
		if gone.object.text("data", "x") != "1" || gone.object.text("metadata", "uid") != added.object.text("metadata", "uid") {
			t.Errorf("what was deleted is shown as %v, want its last content", gone.object)
		}
		want := fmt.Sprintf("ADDED default/f@%s, DELETED default/f@%s, ADDED default/f@%s, DELETED default/f@%s", rvs...)
		if got := words([]frame{added, left, back, gone}); got != want {
			t.Errorf("frames are %s, want %s", got, want)
		}
	})
}

func TestUnchangedObjectCausesNoEvent(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		s := c.watch(configMaps + "?watch=1&resourceVersion=" + w.moments["d"])
		if got := c.relabel("default", "b", "2").rv(); got != w.moments["b2"] {
			t.Errorf("an update that changes nothing has resourceVersion %s, want %s", got, w.moments["b2"])
		}
		rv := c.relabel("default", "b", "3").rv()
		if got := s.take(1); got != "MODIFIED default/b@"+rv {
			t.Errorf("the first event is %s", got)
		}
	})
}

// compact forgets everything that may be compacted.
func (l *launched) compact(t *testing.T, upTo string) {
	t.Helper()
	if _, err := l.Compact(t.Context(), kube.ResourceVersion(number(t, upTo))); err != nil {
		t.Fatalf("compact: %v", err)
	}
}

func TestExpiredWatchEndsWithA410Frame(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		w.compact(t, w.moments["d"])
		s := c.watch(allConfigMaps + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + w.moments["a"])
		f := s.next()
		want := fmt.Sprintf("too old resource version: %s (%s)", w.moments["a"], w.moments["gone"])
		if f.String() != "ERROR 410 Expired" || f.object.text("kind") != "Status" || f.object.text("message") != want {
			t.Errorf("frame %v, want 410 with message %q", f.object, want)
		}
		if cause := f.object.text("details",
			"causes", "0", "message"); !strings.Contains(cause, w.moments["gone"]) ||
			!strings.Contains(cause, "removed on request") {
			t.Errorf("cause %q does not say from where on history is kept, and why", cause)
		}
		s.end("")
		again := c.watch(allConfigMaps + "?watch=1&timeoutSeconds=1&resourceVersion=" + w.moments["gone"])
		again.end("ADDED default-b/d@" + w.moments["d"]) // it needs nothing that was removed
	})
}

func TestQuietResourceDoesNotExpire(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		w.compact(t, w.moments["d"])
		s := c.watch("/api/v1/secrets?watch=1&timeoutSeconds=1&resourceVersion=1")
		s.end("")
		list := c.must(http.StatusOK, http.MethodGet,
			"/api/v1/secrets?resourceVersionMatch=Exact&resourceVersion="+w.moments["a"], "")
		if list.rv() != w.moments["a"] || list.keys() != "" {
			t.Errorf("the quiet resource at %s is %q at %s", w.moments["a"], list.keys(), list.rv())
		}
	})
}

func TestExpiredListGets410(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		w.compact(t, w.moments["d"])
		gone := listRow{
			code: http.StatusGone, reason: "Expired", message: "The resourceVersion for the provided list is too old.",
		}
		checkStatus(t, w, gone,
			c.do(http.MethodGet, allConfigMaps+"?resourceVersionMatch=Exact&resourceVersion="+w.moments["a"], ""))
		checkStatus(t, w, gone, c.do(http.MethodGet, allConfigMaps+"?limit=1&resourceVersion="+w.moments["a"], ""))
		if list := c.must(http.StatusOK, http.MethodGet, allConfigMaps+"?resourceVersion="+w.moments["a"],
			""); list.keys() != whole {
			t.Errorf("not older than what is compacted: %s", list.keys())
		}
	})
}

func TestExpiredContinueTokenReturnsAUsableOne(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		token := c.must(http.StatusOK, http.MethodGet, allConfigMaps+"?limit=1", "").text("metadata", "continue")
		c.create("default", "aa", "1")
		last := c.relabel("default", "b", "7").rv()
		w.compact(t, last)
		r := c.do(http.MethodGet, allConfigMaps+"?limit=1&continue="+url.QueryEscape(token), "")
		checkStatus(t, w,
			listRow{
				code: http.StatusGone, reason: "Expired",
				message: "use the continue token in this response to retrieve the remainder",
			}, r)
		next := r.tree(t).text("metadata", "continue")
		if rv, start, err := wire.DecodeContinue(next); rv != -1 || start != "default-b/d\x00" || err != nil {
			t.Errorf("the token is at %d and %q (%v), want -1 after default-b/d", rv, start, err)
		}
		page := c.must(http.StatusOK, http.MethodGet, allConfigMaps+"?limit=1&continue="+url.QueryEscape(next), "")
		if page.keys() != "default/a" || page.rv() != last {
			t.Errorf("the remainder begins with %s at %s, want default/a at %s", page.keys(), page.rv(), last)
		}
		c.create("default", "ab", "1")
		rest := c.must(http.StatusOK, http.MethodGet,
			allConfigMaps+"?continue="+url.QueryEscape(page.text("metadata", "continue")), "")
		if rest.keys() != "default/aa default/b" || rest.rv() != last {
			t.Errorf("the pages after are %s at %s, want those of %s", rest.keys(), rest.rv(), last)
		}
	})
}

func TestDrainEndsWatchesWithABookmark(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		marked := c.watch(configMaps + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + w.moments["d"])
		plain := c.watch(allConfigMaps + "?watch=1&resourceVersion=" + w.moments["gone"])
		last := c.create("default-b", "elsewhere", "1").rv()
		if got, want := plain.take(2), fmt.Sprintf("ADDED default-b/d@%s, ADDED default-b/elsewhere@%s",
			w.moments["d"], last); got != want {
			t.Errorf("the watch shows %s, want %s", got, want)
		}
		w.stop()
		marked.end("BOOKMARK@" + last)
		plain.end("")
	})
}

func TestTimeoutEndsWatchesWithABookmark(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		rv := w.moments["d"]
		for range 10 {
			s := c.watch(configMaps + "?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=" + rv)
			rv = c.must(http.StatusOK, http.MethodPatch, "/api/v1/namespaces/default-b/configmaps/d",
				fmt.Sprintf(`{"data":{"x":%q}}`, rv),
				"Content-Type: application/merge-patch+json").rv()
			frames, err := s.rest()
			if err != nil {
				t.Fatalf("read the rest: %v", err)
			}
			if len(frames) == 0 {
				continue // the write came after the end
			}
			if got := words(frames); got != "BOOKMARK@"+rv {
				t.Errorf("the watch ends with %s, want a bookmark at %s", got, rv)
			}
			return
		}
		t.Error("no watch ends with a bookmark")
	})
}

// TestWatcherFollowsManyWritesInOrder reads one watch while others are opened
// and left, and finds each change once.
func TestWatcherFollowsManyWritesInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		s := c.watch(configMaps + "?watch=1&resourceVersion=" + w.moments["d"])
		var want []string
		for i := range 50 {
			o := c.create("default", fmt.Sprintf("n%02d", i), "1")
			want = append(want, "ADDED "+o.key()+"@"+o.rv())
			c.watch(configMaps + "?watch=1&resourceVersion=" + o.rv()).close()
		}
		if got := s.take(len(want)); got != strings.Join(want, ", ") {
			t.Errorf("frames are %s, want %s", got, strings.Join(want, ", "))
		}
	})
}
