package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

const (
	allConfigMaps = "/api/v1/configmaps"
	whole         = "default-b/d default/a default/b"
)

// listRow is a row of the table of resource versions for LIST, or for GET when it names
// an object.
type listRow struct {
	name, query string
	code        int
	rv, keys    string // of an answer 200
	more        bool   // there is a continue token
	remaining   float64
	reason      string // of another answer
	message     string // a part of it
}

func listRows() []listRow {
	const tooLarge = "Timeout: Too large resource version: {future}, current: {d}"
	ok, bad, invalid, late := http.StatusOK, http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusGatewayTimeout
	return []listRow{
		{name: "unset", query: "", code: ok, rv: "{d}", keys: whole},
		{name: "zero", query: "resourceVersion=0", code: ok, rv: "{d}", keys: whole},
		{name: "not older", query: "resourceVersion={a}", code: ok, rv: "{d}", keys: whole},
		{name: "limit", query: "limit=2", code: ok, rv: "{d}", keys: "default-b/d default/a", more: true, remaining: 1},
		{name: "limit that is enough", query: "limit=3", code: ok, rv: "{d}", keys: whole},
		{name: "negative limit", query: "limit=-1", code: ok, rv: "{d}", keys: whole},
		{name: "limit with selector", query: "limit=1&labelSelector=x%3D1", code: ok, rv: "{d}", keys: "default-b/d", more: true},
		{name: "limit at zero", query: "resourceVersion=0&limit=1", code: ok, rv: "{d}", keys: whole},
		{
			name: "legacy exact", query: "resourceVersion={c}&limit=2", code: ok, rv: "{c}", keys: "default/a default/b",
			more: true, remaining: 1,
		},
		{
			name: "exact", query: "resourceVersion={c}&resourceVersionMatch=Exact", code: ok, rv: "{c}",
			keys: "default/a default/b default/c",
		},
		{
			name: "exact after delete", query: "resourceVersion={gone}&resourceVersionMatch=Exact", code: ok, rv: "{gone}",
			keys: "default/a default/b",
		},
		{
			name: "exact before all", query: "resourceVersion={empty}&resourceVersionMatch=Exact", code: ok, rv: "{empty}",
			keys: "",
		},
		{name: "exact before the store", query: "resourceVersion=1&resourceVersionMatch=Exact", code: ok, rv: "1", keys: ""},
		{
			name: "exact with limit", query: "resourceVersion={b}&resourceVersionMatch=Exact&limit=1", code: ok, rv: "{b}",
			keys: "default/a", more: true, remaining: 1,
		},
		{
			name: "exact with selector", query: "resourceVersion={b}&resourceVersionMatch=Exact&labelSelector=x%3D2", code: ok,
			rv: "{b}", keys: "",
		},
		{
			name: "exact unset", query: "resourceVersionMatch=Exact", code: invalid, reason: "Invalid",
			message: "resourceVersionMatch is forbidden unless resourceVersion is provided",
		},
		{
			name: "exact zero", query: "resourceVersion=0&resourceVersionMatch=Exact", code: invalid, reason: "Invalid",
			message: `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`,
		},
		{
			name: "match not older", query: "resourceVersion={a}&resourceVersionMatch=NotOlderThan", code: ok, rv: "{d}",
			keys: whole,
		},
		{
			name: "match not older with limit", query: "resourceVersion={a}&resourceVersionMatch=NotOlderThan&limit=1", code: ok,
			rv: "{d}", keys: "default-b/d", more: true, remaining: 2,
		},
		{
			name: "match not older than zero", query: "resourceVersion=0&resourceVersionMatch=NotOlderThan", code: ok, rv: "{d}",
			keys: whole,
		},
		{
			name: "match not older unset", query: "resourceVersionMatch=NotOlderThan", code: invalid, reason: "Invalid",
			message: "resourceVersionMatch is forbidden unless resourceVersion is provided",
		},
		{
			name: "other match", query: "resourceVersion={a}&resourceVersionMatch=Bogus", code: invalid, reason: "Invalid",
			message: `Unsupported value: "Bogus": supported values: "Exact", "NotOlderThan", ""`,
		},
		{
			name: "initial events", query: "sendInitialEvents=true", code: invalid, reason: "Invalid",
			message: "sendInitialEvents is forbidden for list",
		},
		{name: "future", query: "resourceVersion={future}", code: late, reason: "Timeout", message: tooLarge},
		{
			name: "future exact", query: "resourceVersion={future}&resourceVersionMatch=Exact", code: late, reason: "Timeout",
			message: tooLarge,
		},
		{
			name: "future legacy exact", query: "resourceVersion={future}&limit=1", code: late, reason: "Timeout",
			message: tooLarge,
		},
		{
			name: "future match", query: "resourceVersion={future}&resourceVersionMatch=NotOlderThan", code: late,
			reason: "Timeout", message: tooLarge,
		},
		{
			name: "no number", query: "resourceVersion=abc", code: bad, reason: "BadRequest",
			message: `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing ` +
				`"abc": invalid syntax`,
		},
		{name: "negative", query: "resourceVersion=-5", code: bad, reason: "BadRequest", message: "invalid resource version"},
		{
			name: "timeoutSeconds", query: "timeoutSeconds=abc", code: bad, reason: "BadRequest",
			message: `strconv.ParseInt: parsing "abc": invalid syntax`,
		},
		{
			name: "timeout", query: "timeout=abc", code: bad, reason: "BadRequest",
			message: `invalid timeout specified in the request URL - time: invalid duration "abc"`,
		},
		{
			name: "field", query: "fieldSelector=spec.a%3D1", code: bad, reason: "BadRequest",
			message: `"spec.a" is not a known field selector: only "metadata.name", "metadata.namespace"`,
		},
		{
			name: "label", query: "labelSelector=!!", code: bad, reason: "BadRequest",
			message: "unable to parse requirement: found '!', expected: identifier",
		},
		{name: "name", query: "fieldSelector=metadata.name%3Da", code: ok, rv: "{d}", keys: "default/a"},
		{name: "labels", query: "labelSelector=x+in+(2,3)", code: ok, rv: "{d}", keys: "default/b"},
	}
}

// asked is a request of a table, and its answer.
type asked struct {
	wire protocol
	row  listRow
	path string

	reply reply
	err   error
}

// ask sends every row over both protocols, all at once, because some answers
// take their 3 s.
func (w *knownHistory) ask(path string, rows []listRow) []*asked {
	w.t.Helper()
	var all []*asked
	var wg sync.WaitGroup
	for _, proto := range []protocol{http1, http2} {
		c := w.caller(w.t, proto)
		for _, row := range rows {
			a := &asked{wire: proto, row: row, path: path + "?" + w.in(row.query)}
			all = append(all, a)
			wg.Go(func() { a.reply, a.err = c.try(w.t.Context(), http.MethodGet, a.path, "") })
		}
	}
	wg.Wait()
	return all
}

func TestListFollowsTheTableOfResourceVersions(t *testing.T) {
	t.Parallel()
	w := launchHistory(t)
	for _, a := range w.ask(allConfigMaps, listRows()) {
		t.Run(string(a.wire)+"/"+a.row.name, func(t *testing.T) {
			switch {
			case a.err != nil:
				t.Fatal(a.err)
			case a.row.code != http.StatusOK:
				checkStatus(t, w, a.row, a.reply)
				if kind := a.reply.tree(t).text("details", "kind"); a.row.reason == "Invalid" && kind != "ListOptions" {
					t.Errorf("the details are those of %q, want ListOptions", kind)
				}
			default:
				checkList(t, w, a.row, a.reply)
			}
		})
	}
}

func checkList(t *testing.T, w *knownHistory, row listRow, r reply) {
	t.Helper()
	if r.code != row.code {
		t.Fatalf("code %d, want %d: %s", r.code, row.code, r.body)
	}
	list := r.tree(t)
	if got := list.rv(); got != w.in(row.rv) {
		t.Errorf("resourceVersion %s, want %s", got, w.in(row.rv))
	}
	if got := list.keys(); got != row.keys {
		t.Errorf("items %q, want %q", got, row.keys)
	}
	if row.keys == "" && !strings.Contains(string(r.body), `"items":[]`) {
		t.Errorf("no items are not []: %s", r.body)
	}
	if got := list.text("metadata", "continue") != ""; got != row.more {
		t.Errorf("continue token: %v, want %v", got, row.more)
	}
	if got, _ := list.at("metadata", "remainingItemCount").(float64); got != row.remaining {
		t.Errorf("remainingItemCount %v, want %v", got, row.remaining)
	}
}

func checkStatus(t *testing.T, w *knownHistory, row listRow, r reply) {
	t.Helper()
	if r.code != row.code {
		t.Fatalf("code %d, want %d: %s", r.code, row.code, r.body)
	}
	status := r.tree(t)
	if status.text("kind") != "Status" || status.text("status") != "Failure" || status.at("code") != float64(row.code) ||
		status.text("reason") != row.reason {
		t.Errorf("status %s, want code %d, reason %s", r.body, row.code, row.reason)
	}
	if !strings.Contains(status.text("message"), w.in(row.message)) {
		t.Errorf("message %q, want %q in it", status.text("message"), w.in(row.message))
	}
	if row.code == http.StatusGatewayTimeout {
		if r.header.Get("Retry-After") != "1" || status.text("details", "causes", "0", "reason") != "ResourceVersionTooLarge" {
			t.Errorf("Retry-After %q, cause %v", r.header.Get("Retry-After"), status.at("details", "causes"))
		}
	}
}

func TestGetFollowsTheTableOfResourceVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	w := launchHistory(t)
	for _, a := range w.ask(configMaps+"/b", []listRow{
		{query: "", code: http.StatusOK, rv: "{b2}"},
		{query: "resourceVersion=0", code: http.StatusOK, rv: "{b2}"},
		{query: "resourceVersion=1", code: http.StatusOK, rv: "{b2}"},
		{query: "resourceVersion={b}", code: http.StatusOK, rv: "{b2}"},
		{query: "resourceVersion={d}", code: http.StatusOK, rv: "{b2}"},
		{
			query: "resourceVersion={future}", code: http.StatusGatewayTimeout, reason: "Timeout",
			message: "Too large resource version: {future}, current: {d}",
		},
		{
			query: "resourceVersion=abc", code: http.StatusBadRequest, reason: "BadRequest",
			message: `parsing "abc": invalid syntax`,
		},
		{query: "resourceVersionMatch=any", code: http.StatusOK, rv: "{b2}"},
		{query: "watch=true&timeoutSeconds=1", code: http.StatusOK, rv: "{b2}"}, // a named watch is a GET
	}) {
		t.Run(string(a.wire)+"/"+a.row.query, func(t *testing.T) {
			switch {
			case a.err != nil:
				t.Fatal(a.err)
			case a.row.code != http.StatusOK:
				checkStatus(t, w, a.row, a.reply)
			case a.reply.code != http.StatusOK:
				t.Fatalf("code %d: %s", a.reply.code, a.reply.body)
			default:
				if o := a.reply.tree(t); o.rv() != w.in(a.row.rv) || o.key() != "default/b" {
					t.Errorf("%s at %s, want default/b at %s", o.key(), o.rv(), w.in(a.row.rv))
				}
			}
		})
	}
}

func TestPagesAreConsistentDuringWrites(t *testing.T) {
	t.Parallel()
	for _, proto := range []protocol{http1, http2} {
		t.Run(string(proto), func(t *testing.T) {
			t.Parallel()
			w := launchHistory(t)
			c := w.caller(t, proto)
			first := c.must(http.StatusOK, http.MethodGet, allConfigMaps+"?limit=1", "")
			c.create("default", "aa", "1")
			c.remove("default", "a")
			page := "&continue=" + url.QueryEscape(first.text("metadata", "continue"))
			second := c.must(http.StatusOK, http.MethodGet, allConfigMaps+"?resourceVersion=0&limit=1"+page, "")
			if second.rv() != first.rv() || second.keys() != "default/a" || second.at("metadata", "remainingItemCount") != 1.0 {
				t.Errorf("second page at %s has %s, want default/a at %s, and one more", second.rv(), second.keys(), first.rv())
			}
			rest := c.must(http.StatusOK, http.MethodGet,
				allConfigMaps+"?continue="+url.QueryEscape(second.text("metadata", "continue")), "")
			if rest.rv() != first.rv() || rest.keys() != "default/b" || rest.text("metadata", "continue") != "" {
				t.Errorf("the rest at %s is %s, want default/b at %s", rest.rv(), rest.keys(), first.rv())
			}
			for _, row := range []listRow{
				{
					query: "resourceVersion={d}" + page, code: http.StatusBadRequest, reason: "BadRequest",
					message: "specifying resource version is not allowed when using continue",
				},
				{
					query: "resourceVersion={d}&resourceVersionMatch=Exact" + page, code: http.StatusUnprocessableEntity,
					reason: "Invalid", message: "resourceVersionMatch is forbidden when continue is provided",
				},
			} {
				checkStatus(t, w, row, c.do(http.MethodGet, allConfigMaps+"?"+w.in(row.query), ""))
			}
		})
	}
}
