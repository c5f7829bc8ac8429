package past_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tree(t testing.TB, text string) past.Tree {
	t.Helper()
	tree, err := past.Decode([]byte(text))
	if err != nil {
		t.Fatalf("decode a tree: %v", err)
	}
	return tree
}

func TestDifferencesNameTheFieldsThatChanged(t *testing.T) {
	for _, c := range []struct{ name, before, after, want string }{
		{"equal", `{"a":1,"b":[1,{"c":null}]}`, `{"b":[1,{"c":null}],"a":1}`, ""},
		{"a value", `{"spec":{"replicas":3}}`, `{"spec":{"replicas":5}}`, "spec.replicas 3→5"},
		{"added as a whole", `{}`, `{"spec":{"a":{"b":1}}}`, "+spec"},
		{
			"removed", `{"metadata":{"labels":{"example.com/a":"x"}}}`, `{"metadata":{"labels":{}}}`,
			"-metadata.labels[example.com/a] x",
		},
		{
			"an item by its key field", `{"containers":[{"name":"a","image":"x"},{"name":"b"}]}`,
			`{"containers":[{"name":"b"},{"name":"c"}]}`, "-containers[a], +containers[c]",
		},
		{
			"a field of an item", `{"containers":[{"name":"a","image":"x"},{"name":"b"}]}`,
			`{"containers":[{"name":"a","image":"y"},{"name":"b"}]}`, "containers[a].image x→y",
		},
		{
			"another order", `{"containers":[{"name":"a"},{"name":"b"}]}`, `{"containers":[{"name":"b"},{"name":"a"}]}`,
			"containers reordered",
		},
		{"items by place", `{"args":["a","b"]}`, `{"args":["a","c","d"]}`, "args[1] b→c, +args[2] d"},
		{
			"key fields that are not distinct", `{"x":[{"name":"a"},{"name":"a"}]}`, `{"x":[{"name":"a"},{"name":"b"}]}`,
			"x[1].name a→b",
		},
		{"another type", `{"a":{"b":1}}`, `{"a":[1]}`, "a"},
		{"null", `{"a":null}`, `{"a":""}`, `a null→""`},
		{"status last", `{"status":1,"z":1}`, `{"status":2,"z":2}`, "z 1→2, status 1→2"},
		{
			"control characters", `{"a":"x"}`, "{\"a\":\"\\u001b[31m\\nred\"}", "a x→·[31m·red",
		},
		{"large numbers", `{"a":9007199254740993}`, `{"a":9007199254740992}`, "a 9007199254740993→9007199254740992"},
	} {
		found := past.Compare(tree(t, c.before), tree(t, c.after))
		if got := past.Summary(found, 0); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if back := past.Compare(tree(t, c.after), tree(t, c.before)); len(back) != len(found) {
			t.Errorf("%s: %d differences, backwards %d", c.name, len(found), len(back))
		}
	}
	found := past.Compare(tree(t, `{"status":{"a":1}}`), tree(t, `{"status":{"a":2}}`))
	if !past.OnlyStatus(found) || past.OnlyStatus(nil) {
		t.Error("status")
	}
	many := past.Compare(tree(t, `{}`), tree(t, `{"a":1,"b":2,"c":3}`))
	if got := past.Summary(many, 1); got != "+a 1, 2 more" {
		t.Errorf("at most one: %s", got)
	}
}

// TestUnifiedDiffsArePatches applies the diffs of random texts with patch.
func TestUnifiedDiffsArePatches(t *testing.T) {
	patch, err := exec.LookPath("patch")
	if err != nil {
		patch = ""
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		before := randomText(r, r.IntN(60))
		after := edited(r, before)
		diff := past.Unified("a", "b", []byte(before), []byte(after))
		if got := applied(t, before, diff); got != after {
			t.Fatalf("seed %d: the diff makes\n%s\nof\n%s\ninstead of\n%s\ndiff:\n%s", seed, got, before, after, diff)
		}
		if patch == "" || seed >= 20 || len(diff) == 0 || before == "" || after == "" {
			continue
		}
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
		cmd := exec.CommandContext(t.Context(), patch, "-s", "--fuzz=0", file)
		cmd.Stdin = bytes.NewReader(diff)
		out, err := cmd.CombinedOutput()
		got, _ := os.ReadFile(file)
		if err != nil || string(got) != after {
			t.Fatalf("seed %d: patch: %v %s\n%s", seed, err, out, diff)
		}
	}
}

func randomText(r *rand.Rand, n int) string {
	var text strings.Builder
	for range n {
		fmt.Fprintf(&text, "%d\n", r.IntN(30))
	}
	if n > 0 && r.IntN(4) == 0 {
		text.WriteString("end")
	}
	return text.String()
}

func edited(r *rand.Rand, before string) string {
	var out strings.Builder
	for line := range strings.Lines(before) {
		switch r.IntN(12) {
		case 0:
		case 1:
			out.WriteString("new\n" + line)
		case 2:
			out.WriteString("other\n")
		default:
			out.WriteString(line)
		}
	}
	return out.String() + randomText(r, r.IntN(3))
}

// applied is what a unified diff makes of a text; it fails if the equal lines are not those of the text.
func applied(t *testing.T, before string, diff []byte) string {
	t.Helper()
	var old []string
	for line := range strings.Lines(before) {
		old = append(old, line)
	}
	var out strings.Builder
	at := 0
	marked := strings.ReplaceAll(string(diff), "\n\\ No newline at end of file\n", "\x00\n")
	for line := range strings.Lines(marked) {
		line = strings.ReplaceAll(line, "\x00\n", "")
		switch line[0] {
		case '@':
			var from, n int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d", &from, &n); err != nil {
				if _, err := fmt.Sscanf(line, "@@ -%d", &from); err != nil {
					t.Fatal(line)
				}
				n = 1
			}
			if n > 0 {
				from--
			}
			for ; at < from; at++ {
				out.WriteString(old[at])
			}
		case ' ', '-':
			if strings.HasPrefix(line, "---") {
				continue
			}
			if at >= len(old) || old[at] != line[1:] {
				t.Fatalf("line %q is not there", line)
			}
			if at++; line[0] == ' ' {
				out.WriteString(line[1:])
			}
		case '+':
			if !strings.HasPrefix(line, "+++") {
				out.WriteString(line[1:])
			}
		}
	}
	return out.String() + strings.Join(old[at:], "")
}

func TestALargeTextIsCompared(t *testing.T) {
	var a, b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&a, "%d\n", i%1000)
		fmt.Fprintf(&b, "%d\n", (i+7)%999)
	}
	if diff := past.Unified("a", "b", []byte(a.String()), []byte(b.String())); applied(t, a.String(), diff) != b.String() {
		t.Error("the diff is wrong")
	}
}

func TestTimesAreReadAsPeopleWriteThem(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	now := time.Date(2026, 10, 25, 15, 30, 0, 0, berlin) // summer time has ended at 3
	for text, want := range map[string]string{
		"14:05":                "2026-10-25T14:05:00+01:00",
		"01:30":                "2026-10-25T01:30:00+02:00",
		"14:05:07":             "2026-10-25T14:05:07+01:00",
		"2h":                   "2026-10-25T13:30:00+01:00",
		"1d":                   "2026-10-24T16:30:00+02:00", // 24 hours
		"1d12h":                "2026-10-24T04:30:00+02:00",
		"2026-10-24":           "2026-10-24T00:00:00+02:00",
		"2026-10-24 14:05":     "2026-10-24T14:05:00+02:00",
		"2026-10-24T14:05:00Z": "2026-10-24T16:05:00+02:00",
		"2026-10-24T14:05:00":  "2026-10-24T14:05:00+02:00",
		"15:31":                "in the future: it is 2026-10-25T15:30:00+01:00 now; write the date too if it was on another day",
		"2027-01-01":           "in the future",
		"-2h":                  "is no time",
		"yesterday":            "is no time: write 14:05 for today",
		"":                     "is no time",
		"99999999999d":         "is no time",
		"0001-01-01T00:00:00Z": "is before 1970",
		"36500d":               "is before 1970",
	} {
		at, err := past.ParseTime(text, now)
		got := at.In(berlin).Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if m, err := past.ParseMoment("1000000042", now); err != nil || m.RV != 1000000042 {
		t.Errorf("a resourceVersion: %v %v", m, err)
	}
}

const managed = `{"metadata":{"managedFields":[
 {"manager":"kubectl","operation":"Apply","time":"2026-11-25T14:00:00Z","fieldsV1":{"f:spec":{"f:replicas":{}}}},
 {"manager":"hpa","operation":"Update","subresource":"scale","time":"2026-11-25T13:00:00Z","fieldsV1":{"f:spec":{
  "f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}}}}}}}}]},
 "spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","image":"a"}]}}}}`

func TestAuthorsAreThoseWhoseFieldsMoved(t *testing.T) {
	before := tree(t, managed)
	later := tree(t, strings.Replace(managed, "13:00:00", "14:00:01", 1))
	if got := past.Names(past.Authors(before, later, nil)); got != "hpa (Update scale)" {
		t.Errorf("by time: %s", got)
	}
	same := tree(t, strings.Replace(managed, `"image":"a"`, `"image":"b"`, 1))
	if got := past.Names(past.Authors(before, same, past.Compare(before, same))); got != "hpa (Update scale)" {
		t.Errorf("twice in one second: %s", got)
	}
	if got := past.Names(past.Authors(nil, before, nil)); got != "kubectl (Apply), hpa (Update scale)" {
		t.Errorf("a new object: %s", got)
	}
}

func TestBlameNamesTheVersionOfEachLine(t *testing.T) {
	var b past.Blame
	b.Begin(tree(t, managed))
	one := &past.Version{ResourceVersion: 1}
	two := &past.Version{ResourceVersion: 2}
	b.Change(tree(t, `{"metadata":{"labels":{"a":"x"}},"spec":{"replicas":4,"template":{"spec":{"containers":[
		{"name":"new","args":["a"]},{"name":"web","image":"a"}]}}}}`), one)
	b.Change(tree(t, `{"metadata":{"labels":{"a":"x"}},"spec":{"replicas":4,"text":"a\nb\nc\n","template":{"spec":{"containers":[
		{"name":"new","args":["a","b"]},{"name":"web","image":"a"}]}}}}`), two)
	lines, err := b.Lines(func(t past.Tree) past.Tree { return t })
	if err != nil {
		t.Fatalf("show the lines: %v", err)
	}
	var got []string
	for _, l := range lines {
		by := "-"
		switch {
		case l.Version != nil:
			by = l.Version.ResourceVersion.String()
		case l.Before != nil:
			by = l.Before.Manager
		case l.Field:
			by = "?"
		}
		got = append(got, by+" "+l.Text)
	}
	want := []string{
		"- metadata:", "-   labels:", "1     a: x", "- spec:", "1   replicas: 4", "-   template:", "-     spec:",
		"-       containers:", "-       - args:", "1         - a", "2         - b", "1         name: new",
		"hpa       - image: a", "?         name: web", "2   text: |", "2     a", "2     b", "2     c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBlameTakesAnyOrderOfChanges: a page may lack the creation after a deletion.
func TestBlameTakesAnyOrderOfChanges(t *testing.T) {
	one, two := tree(t, `{"a":"1"}`), tree(t, `{"a":"2"}`)
	events := map[string]past.Event{
		"ADDED": {Object: one}, "MODIFIED": {Object: two, Previous: one}, "DELETED": {Object: two},
	}
	for _, order := range [][]string{
		{"MODIFIED"},
		{"DELETED"},
		{"DELETED", "MODIFIED"},
		{"ADDED", "DELETED", "MODIFIED"},
		{"MODIFIED", "DELETED", "ADDED"},
		{"ADDED", "ADDED"},
	} {
		var b past.Blame
		for i, kind := range order {
			e := events[kind]
			e.Type, e.ResourceVersion = kind, kube.ResourceVersion(i)+1
			b.Take(&e)
		}
		last := order[len(order)-1]
		if !b.Found() || b.Exists() == (last == "DELETED") {
			t.Errorf("%v: found %v, exists %v", order, b.Found(), b.Exists())
		}
		lines, err := b.Lines(func(t past.Tree) past.Tree { return t })
		if err != nil || last != "DELETED" && (len(lines) != 1 || lines[0].Version == nil ||
			lines[0].Version.ResourceVersion != kube.ResourceVersion(len(order))) {
			t.Errorf("%v: %+v, %v", order, lines, err)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	secret := tree(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"annotations":{"a":"b",
		"kubectl.kubernetes.io/last-applied-configuration":"{hunter2}","example.com/applied":"hunter2`+strings.Repeat(" ",
		256)+`"}},
		"data":{"a":"aHVudGVyMg==","b":"aHVudGVyMg==","c":""}}`)
	m := past.NewMasker()
	shown, err := json.Marshal(m.Mask(secret))
	if err != nil || strings.Contains(string(shown), "hunter2") || strings.Contains(string(shown), "aHVud") {
		t.Errorf("%v %s", err, shown)
	}
	data, _ := m.Mask(secret)["data"].(past.Tree)
	if data["a"] != data["b"] || data["a"] == data["c"] || !strings.HasPrefix(fmt.Sprint(data["a"]), "(7 bytes, hash ") {
		t.Errorf("%v", data)
	}
	if original, _ := secret["data"].(past.Tree); original["a"] != "aHVudGVyMg==" {
		t.Error("the original was changed")
	}
	other, _ := past.NewMasker().Mask(secret)["data"].(past.Tree)
	if other["a"] == data["a"] {
		t.Error("the hash tells the value to who can guess it")
	}
}

func TestCleanLeavesWhatAUserWrites(t *testing.T) {
	job := tree(t, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a","uid":"u","resourceVersion":"1","generation":1,
		"managedFields":[],"creationTimestamp":"x","ownerReferences":[{"uid":"o"}],"labels":{"batch.kubernetes.io/controller-uid":"u"},
		"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}},
		"spec":{"selector":{},"template":{"metadata":{"labels":{"controller-uid":"u","a":"b"}}}},"status":{"active":1}}`)
	got, err := json.Marshal(past.Clean(job))
	want := `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if past.Text(job, "metadata", "uid") != "u" {
		t.Error("the original was changed")
	}
}
