package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/kube"
)

// TestAFutureWatchEndsAsOfAnotherHistory: a version above the newest was never given out, so it is
// from other data.
func TestAFutureWatchEndsAsOfAnotherHistory(t *testing.T) {
	t.Parallel()
	l := launch(t, gapless.Config{})
	for proto, query := range map[protocol]string{
		http1: "&allowWatchBookmarks=true", http2: "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
	} {
		t.Run(string(proto), func(t *testing.T) {
			t.Parallel()
			c := l.caller(t, proto)
			namespace := "of-http" + string(proto[5])
			c.namespace(namespace)
			rv := c.create(namespace, "a", "1").rv()
			path := "/api/v1/namespaces/" + namespace + "/configmaps?watch=1&timeoutSeconds=600"
			future := fmt.Sprint(number(t, rv) + 1000)
			s := c.watch(path + query + "&resourceVersion=" + future)
			f := s.next()
			if f.String() != "ERROR 410 Expired" ||
				!strings.HasPrefix(f.object.text("message"), "too old resource version: "+future+" (") ||
				f.object.text("details", "causes", "2", "reason") != "RemovedBy" ||
				f.object.text("details", "causes", "2", "message") != "Replaced" {
				t.Errorf("%q: %v", query, f)
			}
			s.end("")
			present := c.watch(path + "&resourceVersion=" + rv)
			next := c.relabel(namespace, "a", "2").rv()
			if got, want := present.take(1), "MODIFIED "+namespace+"/a@"+next; got != want {
				t.Errorf("a watch from the present shows %s, want %s", got, want)
			}
		})
	}
}

func TestBookmarksFollowTheRequestedInterval(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	w := launchHistory(t)
	c := w.caller(t, http2)
	often := c.watch(
		configMaps + "?watch=1&timeoutSeconds=5&allowWatchBookmarks=true&bookmarkIntervalSeconds=1&resourceVersion=" +
			w.moments["d"])
	never := c.watch(configMaps + "?watch=1&timeoutSeconds=5&bookmarkIntervalSeconds=1&resourceVersion=" + w.moments["d"])
	frames, err := often.rest()
	if err != nil {
		t.Fatalf("read the rest: %v", err)
	}
	if len(frames) < 2 { // 3 on an idle machine; upstream's cadence has 1
		t.Errorf("%d bookmarks in 5 s", len(frames))
	}
	for _, f := range frames {
		if f.String() != "BOOKMARK@"+w.moments["d"] {
			t.Errorf("frame %s", f)
		}
	}
	never.end("")
}

// delta is the query of a watch that may begin with a delta.
const delta = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&gaplessDelta=true&resourceVersion="

// deltaSince is what the end of the initial events says of them.
func (f frame) deltaSince() string {
	return f.object.text("metadata", "annotations", kube.DeltaAnnotation)
}

func TestDeltaHasTheChangesAndIsMarked(t *testing.T) {
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		for range 3 {
			w.moments["b2"] = c.relabel("default", "b", "2").rv()
			w.moments["b2"] = c.relabel("default", "b", "3").rv()
		}
		now := w.moments["b2"]
		for _, row := range []struct{ query, frames string }{
			{allConfigMaps + delta + "{b}", "ADDED default-b/d@{d}, MODIFIED default/b@" + now},
			{allConfigMaps + delta + "{c}", "DELETED default/c@{gone}, ADDED default-b/d@{d}, MODIFIED default/b@" + now},
			{allConfigMaps + delta + "{a}", "ADDED default-b/d@{d}, ADDED default/b@" + now},
			{configMaps + delta + "{gone}", "MODIFIED default/b@" + now},
			{configMaps + delta + "{c}&labelSelector=x%3D1", "DELETED default/b@" + "{left}" + ", DELETED default/c@{gone}"},
			{configMaps + delta + "{c}&labelSelector=x%3D3", "ADDED default/b@" + now},
			{configMaps + delta + "{c}&fieldSelector=metadata.name%3Da", ""},
			{configMaps + delta + now, ""},
		} {
			w.moments["left"] = fmt.Sprint(number(t, w.moments["c"]) + 1) // where b got its second label
			since := row.query[strings.LastIndex(row.query, "resourceVersion=")+len("resourceVersion="):]
			since, _, _ = strings.Cut(since, "&")
			s := c.watch(w.in(row.query))
			var got []frame
			for f := s.next(); ; f = s.next() {
				if got = append(got, f); strings.HasPrefix(f.String(), "END@") {
					break
				}
			}
			end := got[len(got)-1]
			if frames := words(got[:len(got)-1]); frames != w.in(row.frames) || end.String() != "END@"+now ||
				end.deltaSince() != w.in(since) {
				t.Errorf("%s shows %s and %v, want %s and a delta to %s", w.in(row.query), frames, end, w.in(row.frames), now)
			}
			s.close()
		}
		// Metadata only, and what follows the delta.
		s := c.watch(w.in(configMaps+delta+"{gone}"), "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
		if got := s.next(); got.String() != "MODIFIED default/b@"+now || got.object.text("kind") != "PartialObjectMetadata" ||
			got.object.at("data") != nil {
			t.Errorf("the delta of metadata begins with %v", got)
		}
		if end := s.next(); end.String() != "END@"+now || end.deltaSince() != w.moments["gone"] {
			t.Errorf("the delta of metadata ends with %v", end)
		}
		if next := c.create("default", "e", "1").rv(); s.take(1) != "ADDED default/e@"+next {
			t.Error("the watch does not go on after the delta")
		}
	})
}

func TestDeltaFallsBackToTheWholeState(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	eachWire(t, func(t *testing.T, w *knownHistory, c *caller) {
		const state = "ADDED default-b/d@{d}, ADDED default/a@{a}, ADDED default/b@{b2}, END@{d}"
		for _, rv := range []string{"0", "", "1"} { // "1" is before the store began, where nothing was
			s := c.watch(allConfigMaps + delta + rv)
			frames := []frame{s.next(), s.next(), s.next(), s.next()}
			if rv == "1" {
				if got := words(
					frames); got != w.in("ADDED default/a@{a}, ADDED default/b@{b2}, ADDED default-b/d@{d}, END@{d}") ||
					frames[3].deltaSince() != "1" {
					t.Errorf("since 1: %s, %v", got, frames[3])
				}
				continue
			}
			if got := words(frames); got != w.in(state) || frames[3].deltaSince() != "" {
				t.Errorf("since %q: %s, %v", rv, got, frames[3])
			}
		}
		w.compact(t, w.moments["d"])
		s := c.watch(w.in(allConfigMaps + delta + "{a}"))
		frames := []frame{s.next(), s.next(), s.next(), s.next()}
		if got := words(frames); got != w.in(state) || frames[3].deltaSince() != "" {
			t.Errorf("behind the floor: %s, %v", got, frames[3])
		}
	})
}

func TestExtensionsRefuseInvalidOptions(t *testing.T) {
	t.Parallel()
	w := launchHistory(t)
	c := w.caller(t, http2)
	const (
		initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
		marks   = "&allowWatchBookmarks=true"
	)
	invalid := func(query, message string) listRow {
		return listRow{query: query, code: http.StatusUnprocessableEntity, reason: "Invalid", message: message}
	}
	bad := func(query, message string) listRow {
		return listRow{query: query, code: http.StatusBadRequest, reason: "BadRequest", message: message}
	}
	for _, row := range []listRow{
		invalid("watch=1&bookmarkIntervalSeconds=0", "bookmarkIntervalSeconds: Invalid value: 0: must be between 1 and 3600"),
		invalid("watch=1&bookmarkIntervalSeconds=3601"+marks, "must be between 1 and 3600"),
		invalid("watch=1&bookmarkIntervalSeconds=-9223372036854775808"+marks, "must be between 1 and 3600"),
		bad("watch=1&bookmarkIntervalSeconds=9223372036854775808"+marks, "value out of range"),
		bad("watch=1&bookmarkIntervalSeconds=1m", "invalid syntax"),
		bad("watch=1&bookmarkIntervalSeconds=", "invalid syntax"),
		invalid("gaplessDelta=true", "gaplessDelta is forbidden for list"),
		invalid("watch=1&gaplessDelta=true"+marks+"&resourceVersion={a}", "gaplessDelta requires sendInitialEvents=true"),
		invalid("watch=1&gaplessDelta=true&resourceVersion={a}"+initial, "gaplessDelta requires allowWatchBookmarks=true"),
		invalid("watch=1&gaplessDelta=true"+marks+"&resourceVersion={a}&sendInitialEvents=true",
			"sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
		bad("watch=1&gaplessDelta=true"+marks+initial+"&resourceVersion=-1", "invalid resource version"),
	} {
		checkStatus(t, w, row, c.do(http.MethodGet, allConfigMaps+"?"+w.in(row.query), ""))
	}
	if r := c.do(http.MethodGet, configMaps+"?bookmarkIntervalSeconds=soon", ""); r.code != http.StatusOK {
		t.Errorf("a list, of which it says nothing: %d %s", r.code, r.body)
	}
	checkStatus(t, w, invalid("", "gaplessDelta is forbidden for list"),
		c.do(http.MethodDelete, configMaps+"?"+url.Values{"gaplessDelta": {"1"}}.Encode(), ""))
	if got := c.must(http.StatusOK, http.MethodGet, configMaps, "").keys(); got != "default/a default/b" {
		t.Errorf("what was refused has deleted: %s are left", got)
	}
}

// TestShardsOfACollectionAreListedAndWatched is KEP-5866 on the wire.
func TestShardsOfACollectionAreListedAndWatched(t *testing.T) {
	t.Parallel()
	w := launchHistory(t)
	c := w.caller(t, http1)
	const lower, upper = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
		"shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')"
	for i := range 20 {
		c.create("default", fmt.Sprintf("n%02d", i), "1")
	}
	whole := c.must(http.StatusOK, http.MethodGet, configMaps, "")
	if whole.at("metadata", "shardInfo") != nil {
		t.Errorf("a whole list has %v", whole.at("metadata"))
	}
	in := map[string]string{}
	for _, selector := range []string{lower, upper} {
		query := "?shardSelector=" + url.QueryEscape(selector)
		list := c.must(http.StatusOK, http.MethodGet, configMaps+query, "")
		for key := range strings.FieldsSeq(list.keys()) {
			if in[key] != "" {
				t.Errorf("%s is in both shards", key)
			}
			in[key] = selector
		}
		for name, accept := range map[string]string{
			"objects": "Accept: application/json", "table": acceptTable,
			"metadata": "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
		} {
			if got := c.must(http.StatusOK, http.MethodGet, configMaps+query+"&limit=1", "",
				accept); got.text("metadata", "shardInfo", "selector") != selector ||
				got.at("metadata", "remainingItemCount") != nil {
				t.Errorf("%s: metadata %v", name, got.at("metadata"))
			}
		}
		s := c.watch(configMaps + query + "&watch=1&allowWatchBookmarks=true")
		var keys []string
		for f := s.next(); f.kind == "ADDED"; f = s.next() {
			keys = append(keys, f.object.key())
		}
		if got := strings.Join(keys, " "); got != list.keys() {
			t.Errorf("the watch of %s begins with %s, want %s", selector, got, list.keys())
		}
	}
	if got := len(strings.Fields(whole.keys())); len(in) != got {
		t.Errorf("the shards have %d objects, want %d", len(in), got)
	}
	for _, bad := range []string{"x", "shardRange(object.metadata.name, '0x0000000000000000', '0x8000000000000000')"} {
		row := listRow{code: http.StatusBadRequest, reason: "BadRequest", message: "invalid shard selector: "}
		for _, query := range []string{"", "&watch=1", "&watch=1&resourceVersion={a}"} {
			checkStatus(t, w, row, c.do(http.MethodGet, configMaps+"?shardSelector="+url.QueryEscape(bad)+w.in(query), ""))
		}
		checkStatus(t, w, row, c.do(http.MethodDelete, configMaps+"?shardSelector="+url.QueryEscape(bad), ""))
	}
}
