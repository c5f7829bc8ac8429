package fault_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gapless-io/gapless/fault"
)

// states leaves what actions keep out of comparisons.
func states() cmp.Option {
	return cmpopts.IgnoreUnexported(fault.ShortHistory{}, fault.Stale{})
}

func TestRulesAreReadAsJSONAndYAMLAndInOneLine(t *testing.T) {
	want := fault.Rule{
		Name: "expire",
		Match: fault.Match{
			Verbs: []string{"watch"}, Resources: []string{"pods", "deployments.apps"}, Namespaces: []string{"team-*"},
			UserAgents: []string{"kubectl/*"}, Every: 3, Probability: 0.5, After: time.Second, Until: time.Minute,
		},
		Action: &fault.Gone{As: "http"}, Count: 2,
	}
	for name, text := range map[string]string{
		"JSON": `{"name":"expire","match":{"verbs":["watch"],"resources":["pods","deployments.apps"],"namespaces":["team-*"],` +
			`"userAgents":["kubectl/*"],` +
			`"every":3,"probability":0.5,"after":"1s","until":"1m"},"action":"gone","with":{"as":"http"},"count":2}`,
		"YAML": `
- name: expire
  match:
    verbs: [watch]
    resources: [pods, deployments.apps]
    namespaces: [team-*]
    userAgents: [kubectl/*]
    every: 3
    probability: 0.5
    after: 1s
    until: 1m
  action: gone
  with: {as: http}
  count: 2
`,
	} {
		rules, err := fault.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]fault.Rule{want}, rules, states()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	short, err := fault.ParseShort(
		"gone,name=expire,verbs=watch,resources=pods|deployments.apps,namespaces=team-*,userAgents=kubectl/*,every=3,probability=0.5,after=1s,until=1m,as=http,count=2")
	if err != nil {
		t.Fatalf("parse the rule: %v", err)
	}
	if diff := cmp.Diff(want, short, states()); diff != "" {
		t.Errorf("in one line: %s", diff)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	again, err := fault.Parse(text)
	if diff := cmp.Diff([]fault.Rule{want}, again, states()); diff != "" || err != nil {
		t.Errorf("written as %s and read again: %v %s", text, err, diff)
	}
}

func TestWrongRulesAreRefusedWithTheReason(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "there is no action",
		`{action: gone, mach: {}}`:    "/0/mach: there is no such field",
		`{action: gone, Action: cut}`: "no such field",
		`{action: vanish}`: `there is no action "vanish"; ` +
			`the actions are gone, `,
		`{action: gone, with: {shape: http}}`: "with (the parameters of gone): " +
			"/shape: there is no such field",
		`{action: gone, with: {as: ftp}}`:               "want frame, http, empty or close",
		`{action: gone, with: [1]}`:                     "want an object",
		`{action: gone, match: {nth: 1, every: 2}}`:     "set one of them",
		`{action: gone, match: {nth: 1}, count: 2}`:     "nth is one request",
		`{action: gone, match: {nth: -1}}`:              "count from 1",
		`{action: gone, match: {nth: two}}`:             "/0/match/nth: want int",
		`{action: gone, match: {probability: 1.5}}`:     "want a number from 0 to 1",
		`{action: gone, match: {probability: 0}}`:       "no request can match",
		`{action: gone, match: {probability: .nan}}`:    "read the rules",
		`{action: gone, match: {after: 2s, until: 1s}}`: "not later than after",
		`{action: gone, match: {after: -2s}}`:           "cannot be negative",
		`{action: gone, match: {after: 5}}`:             "want a text like",
		`{action: gone, match: {verbs: [wach]}}`: `there is no verb "wach"; the ` +
			`verbs are get, list`,
		`{action: duplicate, match: {verbs: [list]}}`: `can do nothing to ` +
			`"list", only to watch`,
		`{action: conflict, match: {verbs: [create]}}`:                           `can do nothing to "create"`,
		`{action: gone, match: {resources: [Pods]}}`:                             "want a plural in lower case",
		`{action: gone, match: {resources: [apps/deployments]}}`:                 "want a plural in lower case",
		`{action: delay, with: {for: 1s}, match: {verbs: [create], names: [x]}}`: "has no name in its path",
		`{action: gone, match: {names: [""]}}`:                                   "cannot be empty",
		`{action: gone, count: -1}`:                                              "count cannot be negative",
		`{action: gone, name: "a b"}`:                                            "want at most 63 letters",
		`{action: delay}`:                                                        "set with.for or with.event",
		`{action: delay, with: {for: soon}}`:                                     "/for: time: invalid duration",
		`{action: throttle}`:                                                     "want a number above 0",
		`{action: restart}`:                                                      "set count or match.nth",
		`{action: restart, count: 1, with: {for: 1s, store: same}}`:              "remove one of for and store",
		`{action: restart, count: 1, with: {for: 1h}}`:                           "want at most 10m0s",
		`{action: too-many-requests, with: {retryAfter: 1500ms}}`:                "want whole seconds",
		`{action: stale, with: {behind: 2, resourceVersion: 5}}`:                 "set one of them",
		`{action: definition, with: {do: remove}}`: "want the name of a " +
			"CustomResourceDefinition",
		`{action: definition, with: {do: edit, name: a.b}}`:    "an edit needs a JSON merge patch",
		`{action: gone, action: cut}`:                          "already set",
		`[{action: gone}, {action: cut, with: {how: softly}}]`: "rule 2 (cut)",
		`{action: delay, with: {for: 1s}, match: {verbs: [watch], subresources: [status]}}`: "match.subresources: a watch is " +
			"not about a subresource",
		`{action: gone, match: {subresources: [status]}}`: "a list or watch is not " +
			"about a subresource",
		`{action: cut, match: {verbs: [post], resources: [pods]}}`: "match.verbs: a post " +
			"is about no resource",
		`{action: cut, match: {verbs: [put, head], names: [x]}}`:             "a put or head is about no resource",
		`{action: gone, with: {as: close}, match: {verbs: [list]}}`:          "a list is answered with HTTP 410",
		`{action: gone, with: {frames: 2}, match: {verbs: [list]}}`:          "a list is answered with HTTP 410",
		`{action: gone, with: {as: http, frames: 2}}`:                        "no event can precede",
		`{action: cut, with: {how: mid-frame}, match: {verbs: [get]}}`:       "add the verb watch",
		`{action: silence, with: {frames: 1}, match: {verbs: [create]}}`:     "add the verb watch",
		`{action: silence, with: {frames: -1}}`:                              "cannot be negative",
		`{action: internal-error, with: {frames: 1}, match: {verbs: [get]}}`: "add the verb watch",
		`{action: delay, with: {event: 1s}, match: {verbs: [list]}}`:         "add the verb watch",
		`{action: split, with: {writes: 1}}`:                                 "want a number from 2 to 10000",
		`{action: large-frame, with: {bytes: 99999999}}`:                     "at most 64 MiB",
		`{action: short-watch, with: {for: -1s}}`:                            "cannot be negative",
		`{action: lost-answer, match: {verbs: [watch]}}`:                     `can do nothing to "watch"`,
		`{action: lost-answer, with: {how: mid-frame}}`:                      "want clean or reset",
		`{action: store-write}`:                                              "set with.fail to before or after",
		`{action: store-write, with: {fail: often}}`:                         "want before or after",
		`{action: store-write, with: {fail: after}, match: {verbs: [get]}}`:  `can do nothing to "get"`,
		`{action: store-write, with: {fail: after, writes: -1}}`:             "cannot be negative",
		`{action: stale, with: {behind: 200000}}`:                            "want at most 100000",
		`{action: restart, count: 1, with: {store: newer}}`:                  "want same, wiped or older",
		`{action: undecodable, with: {how: type, frames: -1}}`:               "want type or syntax",
		"[]":            "there is no rule",
		"# none\n":      "there is no rule",
		"\t":            "read the rules as YAML",
		`"gone"`:        "/0: want",
		`- - action: x`: "/0: want",
	} {
		if rules, err := fault.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n gives %v, %v\nwant %q", text, rules, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                           "there is no action",
		"gone,count":                 "want KEY=VALUE",
		"gone,verbs=watch,verbs=get": "given twice",
		"gone,color=red":             "/color: there is no such field",
		"gone,count=many":            "/0/count: want int",
	} {
		if _, err := fault.ParseShort(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
	if _, err := fault.Parse(make([]byte, fault.MaxRulesBytes+1)); err == nil {
		t.Error("a text that is too large is read")
	}
}

func TestParameterThatIsCalledLikeAKeyIsGivenInOneLine(t *testing.T) {
	r, err := fault.ParseShort("definition,name=rule,with.name=widgets.example.com,do=remove,nth=1")
	want := fault.Rule{
		Name: "rule", Match: fault.Match{Nth: 1}, Action: &fault.Definition{Name: "widgets.example.com", Do: "remove"},
	}
	if diff := cmp.Diff(want, r); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestSetRefusesWhatItCannotDo(t *testing.T) {
	s := fault.New(1)
	if err := s.Add(fault.Rule{Name: "a", Action: &fault.Gone{}}); err != nil {
		t.Fatalf("add: %v", err)
	}
	for want, r := range map[string]fault.Rule{
		"there is a rule with this name": {Name: "a", Action: &fault.Cut{}},
		"there is no action":             {},
		"nobody can restart":             {Action: &fault.Restart{Store: fault.WipedStore}, Count: 1},
	} {
		if err := s.Add(fault.Rule{Name: "other", Action: &fault.Cut{}}, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("add gives %v, want %q", err, want)
		}
		if n := len(s.Rules()); n != 1 {
			t.Fatalf("%d rules after a refusal", n)
		}
	}
	if s.Remove("b") || !s.Remove("a") || len(s.Rules()) != 0 {
		t.Error("removal")
	}
}

// FuzzParse: what is read can be written and read again, and is then the same.
func FuzzParse(f *testing.F) {
	f.Add(`{action: gone, match: {verbs: [watch], probability: 0.5, after: 1s}, with: {as: http}, count: 1}`)
	f.Add(`[{"action":"definition","with":{"name":"a.b","do":"edit","patch":{"spec":{"x":[1,2.5,null]}}}}]`)
	for _, k := range fault.Kinds() {
		f.Add("- action: " + k.Name)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := fault.Parse([]byte(text))
		if err != nil {
			return
		}
		written, err := json.Marshal(rules)
		if err != nil {
			t.Fatalf("write %q: %v", text, err)
		}
		again, err := fault.Parse(written)
		if err != nil {
			t.Fatalf("%q is written as %s, which gives %v", text, written, err)
		}
		if diff := cmp.Diff(rules, again, states(), cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%q changes:\n%s", text, diff)
		}
	})
}

// FuzzParseShort: no line makes it panic, and what it returns a set takes.
func FuzzParseShort(f *testing.F) {
	f.Add("gone,verbs=watch,resources=pods|deployments.apps,count=1,as=http")
	f.Add("delay,for=1s,names=a*,probability=0.25")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := fault.ParseShort(text)
		if err != nil || strings.Contains(text, "restart") { // for which there must be a host
			return
		}
		if err := fault.New(1).Add(r); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
