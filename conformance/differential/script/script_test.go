package script_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/conformance/differential/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseReadsEveryCommand(t *testing.T) {
	got, err := script.Parse("all", `# a comment
full
case requests
GET $foos?limit=1
  Accept: application/json;as=Table
POST $foos
  Content-Type: application/json
  {"a":
   1}
& GET /later
~ PATCH /code
create foos n/f1 {"spec":{"color":"red"},"metadata":{"labels":{"x":"1"}}}
patch bars b1 {"spec":null}
delete foos n/f1
case streams
watch w /path?watch=1
  Accept: application/json
capture r1 .items[0].metadata.resourceVersion
compare r1 .metadata.resourceVersion
keep r2 .metadata.uid
edit r3 {"spec": null}
PUT $r3
  $r3
read w 2
read w 1 70s
quiet w 1500ms
end w
end w 2s
socket s /path
ping s
close s
await 200 /path
await 403 POST /path 20s
  {}
compact
forget
restart
crash
pause 3s
join
`)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	merge := []script.Field{{Name: "Content-Type", Value: "application/merge-patch+json"}}
	want := script.Script{Name: "all", Full: true, Cases: []script.Case{
		{Name: "requests", Steps: []script.Step{
			{
				Method: http.MethodGet, Path: "$foos?limit=1",
				Header: []script.Field{{Name: "Accept", Value: "application/json;as=Table"}},
			},
			{
				Method: http.MethodPost, Path: "$foos", Header: []script.Field{{Name: "Content-Type", Value: "application/json"}},
				Body: "{\"a\":\n1}",
			},
			{Method: http.MethodGet, Path: "/later", Later: true},
			{Method: http.MethodPatch, Path: "/code", CodeOnly: true},
			{
				Method: http.MethodPost, Path: "$api/namespaces/n/foos",
				Body: `{"apiVersion":"$group/v1","kind":"Foo","metadata":{"labels":{"x":"1"},"name":"f1"},` +
					`"spec":{"color":"red"}}`,
			},
			{Method: http.MethodPatch, Path: "$api/bars/b1", Header: merge, Body: `{"spec":null}`},
			{Method: http.MethodDelete, Path: "$api/namespaces/n/foos/f1"},
		}},
		{Name: "streams", Steps: []script.Step{
			{
				Verb: script.Watch, Name: "w", Path: "/path?watch=1",
				Header: []script.Field{{Name: "Accept", Value: "application/json"}},
			},
			{Verb: script.Capture, Name: "r1", Member: ".items[0].metadata.resourceVersion"},
			{Verb: script.Compare, Name: "r1", Member: ".metadata.resourceVersion"},
			{Verb: script.Keep, Name: "r2", Member: ".metadata.uid"},
			{Verb: script.Edit, Name: "r3", Body: `{"spec": null}`},
			{Method: http.MethodPut, Path: "$r3", Body: "$r3"},
			{Verb: script.Read, Name: "w", Frames: 2, Code: 2, Wait: 8 * time.Second},
			{Verb: script.Read, Name: "w", Frames: 1, Code: 1, Wait: 70 * time.Second},
			{Verb: script.Quiet, Name: "w", Wait: 1500 * time.Millisecond},
			{Verb: script.End, Name: "w", Wait: 15 * time.Second},
			{Verb: script.End, Name: "w", Wait: 2 * time.Second},
			{Verb: script.Socket, Name: "s", Path: "/path"},
			{Verb: script.Ping, Name: "s", Wait: 8 * time.Second},
			{Verb: script.Close, Name: "s"},
			{Verb: script.Await, Path: "/path", Code: 200, Frames: 200, Wait: 15 * time.Second},
			{
				Verb: script.Await, Method: http.MethodPost, Path: "/path", Body: "{}", Code: 403, Frames: 403,
				Wait: 20 * time.Second,
			},
			{Verb: script.Compact},
			{Verb: script.Forget},
			{Verb: script.Restart},
			{Verb: script.Crash},
			{Verb: script.Pause, Wait: 3 * time.Second},
			{Verb: script.Join},
		}},
	}}
	for i := range got.Cases {
		for j := range got.Cases[i].Steps {
			if s := &got.Cases[i].Steps[j]; s.Verb != script.Request && s.Method == http.MethodGet {
				s.Method = ""
			}
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(script.Step{}, "Line", "Text")); diff != "" {
		t.Errorf("parsed differently (-want +got):\n%s", diff)
	}
	if step := got.Cases[0].Steps[1]; step.Line != 6 || step.Text != "POST $foos" {
		t.Errorf("the second step says line %d %q, want 6 and its text", step.Line, step.Text)
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	for name, test := range map[string]struct {
		text, want string
	}{
		"nothing":               {"", "x:1: no case"},
		"a step first":          {"GET /", "x:1: a step before the first case"},
		"an empty case":         {"case a\ncase b\n", `x:2: case "a" has no step`},
		"an empty last case":    {"case a\nGET /\ncase b\n", `x:4: case "b" has no step`},
		"the same name twice":   {"case a\nGET /\ncase a\n", `x:3: a second case "a"`},
		"an unknown word":       {"case a\nput /", `x:2: unknown word "put"`},
		"a method without path": {"case a\nGET", "x:2: want METHOD path"},
		"too few words":         {"case a\nread w", "x:2: read wants more words"},
		"too many words":        {"case a\nclose w now", `x:2: close does not want "now"`},
		"a body that waits":     {"case a\nwatch w /\n  {}", "x:3: a body below a step that sends none"},
		"a header of a pause":   {"case a\npause 1s\n  A: b", "x:3: a header or body below a step that sends none"},
		"an indented line":      {"  A: b", "x:1: an indented line without a step above it"},
		"neither":               {"case a\nGET /\n  hello", `x:3: "hello" is neither a header nor a body`},
		"a late full":           {"case a\nGET /\nfull", "x:3: full is for the top of the file"},
		"no frames":             {"case a\nread w 0", "x:2: 0 is not a number of things"},
		"no time":               {"case a\npause 0s", "x:2: 0s is no time to wait"},
		"a bad member":          {"case a\ncapture x metadata", `x:2: "metadata" is not a member like .items[0].metadata.name`},
		"a bad object":          {"case a\ncreate foos n/f {", "x:2: the object: unexpected end of JSON input"},
		"a scope":               {"case a\ncreate bars n/b", "x:2: foos have a namespace, bars have none"},
		"a later pause":         {"case a\n& pause 1s", "x:2: & is for requests"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := script.Parse("x", test.text)
			var at *script.Error
			if !errors.As(err, &at) || err.Error() != test.want {
				t.Errorf("got error %v, want %s", err, test.want)
			}
		})
	}
}

func TestMemberFindsNestedFields(t *testing.T) {
	doc := []byte(`{"metadata":{"resourceVersion":"12"},"items":[{"a":1},{"a":12345678901234567890}]}`)
	for member, want := range map[string]string{
		".metadata.resourceVersion": "12", ".items[1].a": "12345678901234567890", ".items[0]": `{"a":1}`,
	} {
		if got, err := script.Member(doc, member); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", member, got, err, want)
		}
	}
	for _, member := range []string{".items[2]", ".metadata[0]", ".items.a", ".nothing", ""} {
		if got, err := script.Member(doc, member); err == nil {
			t.Errorf("%q is %q, want an error", member, got)
		}
	}
}

func TestPatchedAppliesAMergePatch(t *testing.T) {
	for _, test := range [][3]string{
		{
			`{"a":{"b":1,"c":12345678901234567890},"d":[1]}`, `{"a":{"b":null,"e":{"f":null,"g":2}},"d":[]}`,
			`{"a":{"c":12345678901234567890,"e":{"g":2}},"d":[]}`,
		},
		{`not JSON`, `{"a":1}`, `{}`},
		{`[]`, `{"a":1}`, `{}`},
		{`{"kind":"Status"}`, `{"a":1}`, `{}`},
	} {
		if got, err := script.Patched([]byte(test[0]), test[1]); err != nil || got != test[2] {
			t.Errorf("%s after %s is %s, %v; want %s", test[0], test[1], got, err, test[2])
		}
	}
	if _, err := script.Patched([]byte(`{}`), `{"a":`); err == nil {
		t.Error("a broken patch is no error")
	}
}

func TestExpandReplacesVariables(t *testing.T) {
	value := func(name string) (string, bool) {
		v, ok := map[string]string{"r1": "100", "c": "abc"}[name]
		return v, ok
	}
	for text, want := range map[string]string{"a$r1/${r1+5}&${r1-1}": "a100/105&99", "${c}x$c": "abcxabc", "$": "$", "$R": "$R"} {
		if got, err := script.Expand(text, value); err != nil || got != want {
			t.Errorf("%q became %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"$none", "${c+1}", "${none-1}"} {
		if got, err := script.Expand(text, value); err == nil {
			t.Errorf("%q became %q, want an error", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../testdata/scripts/*.txt")
	if err != nil {
		f.Fatalf("look for files: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatalf("read a file: %v", err)
		}
		f.Add(string(text))
	}
	f.Add("case a\n& GET /\n  A: b\n  {\n  }\n")
	f.Add("case a\nread w 1 1s\n\tx")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := script.Parse("x", text)
		if err != nil {
			return
		}
		lines := strings.Split(text, "\n")
		for _, c := range got.Cases {
			if len(c.Steps) == 0 {
				t.Errorf("case %q has no step", c.Name)
			}
			for _, s := range c.Steps {
				if s.Line < 1 || s.Line > len(lines) || !strings.HasPrefix(lines[s.Line-1], s.Text) {
					t.Errorf("the step %q is not at line %d", s.Text, s.Line)
				}
				if s.Member != "" {
					_, _ = script.Member([]byte(`{"a":[1]}`), s.Member) // must not panic
				}
			}
		}
	})
}
