package compare_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/conformance/differential/compare"
	"github.com/gapless-io/gapless/conformance/differential/play"
	"github.com/gapless-io/gapless/conformance/differential/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answered is the result of a request.
func answered(line int, method, body string) play.Result {
	return play.Result{
		Case: "c", Step: script.Step{Line: line, Method: method, Text: method},
		Answer: &play.Answer{Code: 200, Header: http.Header{}, Body: []byte(body)},
	}
}

// values are the facts of a transcript by their parts.
func values(results ...play.Result) map[string]string {
	out := map[string]string{}
	for _, f := range compare.Facts(play.Transcript{Results: results}) {
		out[f.Part] = f.Value
	}
	return out
}

func TestResourceVersionsAreNamedAfterTheirWrites(t *testing.T) {
	made := answered(1, http.MethodPost, `{"kind":"Foo","metadata":{"resourceVersion":"100"}}`)
	changed := answered(2, http.MethodPatch, `{"kind":"Foo","metadata":{"resourceVersion":"105"}}`)
	token := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":103,"start":"/p1\u0000"}`))
	got := values(made, changed, answered(3, http.MethodGet, `{"kind":"FooList",
		"metadata":{"resourceVersion":"107","continue":"`+token+`"},
		"items":[{"kind":"Foo","metadata":{"resourceVersion":"105"}},{"kind":"Foo","metadata":{"resourceVersion":"102"}},
		{"kind":"Foo","metadata":{"resourceVersion":"99"}},{"kind":"Foo","metadata":{"resourceVersion":"900000"}}]}`))
	for part, want := range map[string]string{
		"body.metadata.resourceVersion":          "as of line 2",
		"body.metadata.continue":                 `meta.k8s.io/v1 from "p1\x00" as of line 1`,
		"body.items[0].metadata.resourceVersion": "of line 2",
		"body.items[1].metadata.resourceVersion": "after line 1",
		"body.items[2].metadata.resourceVersion": "before all",
		"body.items[3].metadata.resourceVersion": "in the future",
	} {
		if got[part] != want {
			t.Errorf("%s is %q, want %q", part, got[part], want)
		}
	}
}

func TestVaryingValuesAreReplacedBySymbols(t *testing.T) {
	const one, two = "0f0e0d0c-0102-0304-0506-0708090a0b0c", "1f0e0d0c-0102-0304-0506-0708090a0b0c"
	got := values(answered(1, http.MethodPost, `{"kind":"Foo","metadata":{"resourceVersion":"100"}}`),
		answered(2, http.MethodGet, `{"kind":"Status","message":"Too large resource version: 999, current: 100 of `+one+`",
		"details":{"uid":"`+two+`","retryAfterSeconds":1},"at":"2026-11-21T10:00:00Z","host":"127.0.0.1:4711",
		"generateName":"f-","name":"f-bcdfg","rows":[{"cells":["f1","5s"]}]}`))
	for part, want := range map[string]string{
		"body.message":          "Too large resource version: as of line 1, current: as of line 1 of <uid-2.2>",
		"body.details.uid":      "<uid-2.1>",
		"body.at":               "<time>",
		"body.host":             "<address>",
		"body.name":             "f-<5 letters>",
		"body.rows[0].cells[0]": "f1",
		"body.rows[0].cells[1]": "<age>",
		"body form":             "indented",
	} {
		if got[part] != want {
			t.Errorf("%s is %q, want %q", part, got[part], want)
		}
	}
}

func TestManagedFieldsAreComparedByManager(t *testing.T) {
	entry := func(manager, subresource string) string {
		return `{"manager":"` + manager + `","operation":"Update","subresource":"` + subresource +
			`","time":"2026-11-21T10:00:00Z"}`
	}
	for _, order := range []string{
		entry("b", "") + "," + entry("a", "status") + "," + entry("a", ""),
		entry("a", "") + "," + entry("b", "") + "," + entry("a", "status"),
	} {
		got := values(answered(1, http.MethodGet, `{"kind":"Foo","metadata":{"managedFields":[`+order+`]}}`))
		for part, want := range map[string]string{
			"body.metadata.managedFields[0].manager": "a", "body.metadata.managedFields[1].subresource": "status",
			"body.metadata.managedFields[2].manager": "b",
			"body.metadata.managedFields[2].time":    "<time>",
		} {
			if got[part] != want {
				t.Errorf("%s is %q, want %q", part, got[part], want)
			}
		}
	}
}

// stream is the result of reading one.
func stream(frames ...play.Frame) play.Result {
	return play.Result{Case: "c", Step: script.Step{Verb: script.Read, Line: 9, Text: "read"}, Frames: frames}
}

func frame(at, deadline time.Duration, raw string) play.Frame {
	return play.Frame{Moment: play.Moment{SinceAction: at, SinceOpen: at, Deadline: deadline}, Raw: []byte(raw)}
}

func TestFramesAreClassifiedByTime(t *testing.T) {
	const bookmark = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`
	const end = `{"type":"BOOKMARK","object":{"metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}}`
	const added = `{"type":"ADDED","object":{}}`
	for name, test := range map[string]struct {
		frame play.Frame
		want  string
	}{
		"an event":                  {frame(10*time.Millisecond, 0, added), "at once"},
		"an event after the wait":   {frame(3100*time.Millisecond, 0, added), "after 3 s"},
		"an event in between":       {frame(2100*time.Millisecond, 0, added), "after 2s"},
		"an event near the end":     {frame(4*time.Second, 5*time.Second, added), "after 3 s"},
		"a bookmark near the end":   {frame(6700*time.Millisecond, 8*time.Second, bookmark), "before the deadline"},
		"the initial one near it":   {frame(10*time.Millisecond, time.Second, end), "at once"},
		"a bookmark after a minute": {frame(61*time.Second, 75*time.Second, bookmark), "each minute"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := values(stream(test.frame))["frame 1 when"]; got != test.want {
				t.Errorf("it came %q, want %q", got, test.want)
			}
		})
	}
}

func TestConsecutiveBookmarksCountAsTheLastOne(t *testing.T) {
	bookmark := func(at time.Duration, rv string) play.Frame {
		return frame(at, 75*time.Second, `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"`+rv+`"}}}`)
	}
	made := answered(1, http.MethodPost, `{"metadata":{"resourceVersion":"5"}}`)
	changed := answered(2, http.MethodPost, `{"metadata":{"resourceVersion":"7"}}`)
	got := values(made, changed,
		stream(bookmark(time.Millisecond, "5"), bookmark(4*time.Second, "5"), bookmark(60*time.Second, "5"),
			bookmark(74*time.Second, "7")))
	if got["frames"] != "2" || got["frame 1 when"] != "each minute" ||
		got["frame 2.object.metadata.resourceVersion"] != "as of line 2" {
		t.Errorf("%s frames, the first came %s, the second is %s; want 2, that of the minute and the last",
			got["frames"], got["frame 1 when"], got["frame 2.object.metadata.resourceVersion"])
	}
}

func TestDifferencesListsEachFactOfOneSideOnly(t *testing.T) {
	one := play.Transcript{Results: []play.Result{answered(3, http.MethodGet, `{"a":1,"b":2,"same":{"x":[]}}`)}}
	two := play.Transcript{Results: []play.Result{answered(3, http.MethodGet, `{"same":{"x":[]},"a":3,"c":{}}`)}}
	got := compare.Differences("s", one, two)
	at := compare.Difference{Script: "s", Case: "c", Line: 3, Text: http.MethodGet}
	want := []compare.Difference{at, at, at}
	want[0].Part, want[0].Upstream, want[0].Gapless = "body.a", "1", "3"
	want[1].Part, want[1].Upstream, want[1].Gapless = "body.b", "2", "(none)"
	want[2].Part, want[2].Upstream, want[2].Gapless = "body.c", "(none)", "{}"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if again := compare.Differences("s", one, one); len(again) != 0 {
		t.Errorf("a transcript differs from itself: %v", again)
	}
}

const entries = `# a comment
id one
class better
what W
upstream U
gapless G
why Y
where s | a case | body.* | 1 | 3
where t

id two
class other
what W2
upstream U2
gapless G2
why Y2
where * | * | header Vary
`

func TestTableAccountsForDifferences(t *testing.T) {
	table, err := compare.ParseTable(entries)
	if err != nil {
		t.Fatalf("parse table: %v", err)
	}
	first := compare.Difference{Script: "s", Case: "a case", Part: "body.a.b", Upstream: "1", Gapless: "3"}
	vary := compare.Difference{Script: "x", Part: "header Vary"}
	for name, test := range map[string]struct {
		difference compare.Difference
		want       string
	}{
		"all five":      {first, "one"},
		"any value":     {vary, "two"},
		"another part":  {compare.Difference{Script: "s", Case: "a case", Part: "code", Upstream: "1", Gapless: "3"}, ""},
		"another value": {compare.Difference{Script: "s", Case: "a case", Part: "body.a", Upstream: "1", Gapless: "4"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if entry, ok := table.Find(test.difference); entry.ID != test.want || ok != (test.want != "") {
				t.Errorf("found %q, %v; want %q", entry.ID, ok, test.want)
			}
		})
	}
	stale := table.Stale([]compare.Difference{first}, []string{"s", "x"})
	if want := []string{"two: * | * | header Vary"}; !cmp.Equal(stale, want) {
		t.Errorf("stale are %q, want %q: one was seen, and t was not played", stale, want)
	}
	want := "\n**better**\n\n- W. *Upstream:* U. *gapless:* G; Y.\n\n**other**\n\n- W2. *Upstream:* U2. *gapless:* G2; Y2.\n"
	if diff := cmp.Diff(want, table.Markdown()); diff != "" {
		t.Errorf("the table for people (-want +got):\n%s", diff)
	}
}

func TestLongItemsOfThePageAreBrokenOutsideOfCode(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("word ", 20))
	table := compare.Table{Entries: []compare.Deliberate{
		{Class: compare.Other, What: words, Upstream: "`a b`, `" + words + "`", Gapless: words, Why: "Y"},
	}}
	want := "\n**better**\n\n\n**other**\n\n- " + words + ". *Upstream:* `a b`,\n  `" + words + "`. *gapless:* word\n  " +
		strings.TrimPrefix(words, "word ") + "; Y.\n"
	if diff := cmp.Diff(want, table.Markdown()); diff != "" {
		t.Errorf("the page has (-want +got):\n%s", diff)
	}
}

func TestParseTableRefusesIncompleteRows(t *testing.T) {
	for name, text := range map[string]string{
		"no reason":         strings.Replace(entries, "why Y\n", "", 1),
		"a class for worse": strings.Replace(entries, "class better", "class worse", 1),
		"the same twice":    strings.Replace(entries, "id two", "id one", 1),
		"nowhere":           strings.Replace(entries, "where * | * | header Vary\n", "", 1),
		"an unknown word":   "hello there",
		"too many parts":    strings.Replace(entries, "where t", "where a|b|c|d|e|f", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := compare.ParseTable(text); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestSummaryIsShort(t *testing.T) {
	s := stream(frame(0, 0, `{"type":"ADDED","object":{}}`), frame(0, 0, `{"type":"ADDED","object":{}}`),
		frame(0, 0, `{"type":"ERROR","object":{}}`))
	s.Ending = &play.Ending{How: "clean"}
	transcript := play.Transcript{Results: []play.Result{answered(1, http.MethodGet, `{}`), s}}
	if got, want := compare.Summary("c", transcript), "200 2×ADDED ERROR clean"; got != want {
		t.Errorf("the summary is %q, want %q", got, want)
	}
}
