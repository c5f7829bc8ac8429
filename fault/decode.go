package fault

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"sigs.k8s.io/yaml"
)

// MaxRulesBytes bounds a text with rules.
const MaxRulesBytes = 1 << 20

// ruleForm is a rule as text.
type ruleForm struct {
	Name   string         `json:"name,omitzero"`
	Match  *matchForm     `json:"match,omitzero"`
	Action string         `json:"action"`
	With   jsontext.Value `json:"with,omitzero"`
	Count  int            `json:"count,omitzero"`
}

// matchForm is a Match as text. A probability of 0 differs from none.
type matchForm struct {
	Verbs        []string      `json:"verbs,omitempty"`
	Resources    []string      `json:"resources,omitempty"`
	Subresources []string      `json:"subresources,omitempty"`
	Namespaces   []string      `json:"namespaces,omitempty"`
	Names        []string      `json:"names,omitempty"`
	UserAgents   []string      `json:"userAgents,omitempty"`
	Nth          int           `json:"nth,omitzero"`
	Every        int           `json:"every,omitzero"`
	Probability  *float64      `json:"probability,omitzero"`
	After        time.Duration `json:"after,omitzero"`
	Until        time.Duration `json:"until,omitzero"`
}

// strict refuses unknown members, and reads and writes durations as Go does.
func strict() json.Options {
	return json.JoinOptions(
		json.RejectUnknownMembers(true),
		json.WithUnmarshalers(json.UnmarshalFunc(func(text []byte, d *time.Duration) error {
			var s string
			if err := json.Unmarshal(text, &s); err != nil {
				return fmt.Errorf("%s is no duration: want a text like \"500ms\" or \"2m\"", text)
			}
			var err error
			*d, err = time.ParseDuration(s)
			return err
		})),
		json.WithMarshalers(json.MarshalFunc(func(d time.Duration) ([]byte, error) {
			return []byte(`"` + d.String() + `"`), nil
		})),
	)
}

// Parse reads rules as JSON or YAML: one rule, or a list of them. Fields and actions that are
// not known, and rules that contradict themselves, are errors that say where they are.
func Parse(text []byte) ([]Rule, error) {
	if len(text) > MaxRulesBytes {
		return nil, fmt.Errorf("the rules have %d bytes: at most %d are read", len(text), MaxRulesBytes)
	}
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("read the rules as YAML or JSON: %w", err)
	}
	if body = bytes.TrimSpace(body); string(body) == "null" || string(body) == "[]" {
		return nil, errors.New("there is no rule: want one, or a list of them")
	}
	if !bytes.HasPrefix(body, []byte("[")) {
		body = append(append([]byte("["), body...), ']')
	}
	var forms []ruleForm
	if err := json.Unmarshal(body, &forms, strict()); err != nil {
		return nil, fmt.Errorf("read the rules: %w", plain(err))
	}
	var rules []Rule
	var wrong []error
	for i := range forms {
		r, err := forms[i].rule()
		if err == nil {
			err = r.check(anyHost{})
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("rule %s: %w", forms[i].label(i), err))
		}
		rules = append(rules, r)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return rules, nil
}

// anyHost is a host that can do everything: whether there is one is known only by a set.
type anyHost struct{}

// Backup implements faulthost.Host.
func (anyHost) Backup() error { return nil }

// Restart implements faulthost.Host.
func (anyHost) Restart(string) error { return nil }

func (f *ruleForm) label(i int) string {
	if f.Name != "" {
		return f.Name
	}
	return fmt.Sprintf("%d (%s)", i+1, f.Action)
}

// rule returns the rule that the form describes.
func (f *ruleForm) rule() (Rule, error) {
	r := Rule{Name: f.Name, Count: f.Count}
	if m := f.Match; m != nil {
		r.Match = Match{
			Verbs: m.Verbs, Resources: m.Resources, Subresources: m.Subresources, Namespaces: m.Namespaces, Names: m.Names,
			UserAgents: m.UserAgents, Nth: m.Nth, Every: m.Every, After: m.After, Until: m.Until,
		}
		if m.Probability != nil {
			if r.Match.Probability = *m.Probability; r.Match.Probability == 0 {
				return r, errors.New("match.probability is 0, so no request can match: remove it to match all")
			}
		}
	}
	if f.Action == "" {
		return r, errors.New("there is no action: name one of those in docs/faults.md")
	}
	k, err := kindNamed(f.Action)
	if err != nil {
		return r, err
	}
	if with := bytes.TrimSpace(f.With); len(with) > 0 && with[0] != '{' {
		return r, errors.New("with: want an object with the parameters of the action")
	}
	if r.Action, err = k.decode(f.With); err != nil {
		return r, fmt.Errorf("with (the parameters of %s): %w", f.Action, plain(err))
	}
	return r, nil
}

// plain removes what only a Go programmer understands from an error of the decoder.
func plain(err error) error {
	semantic, is := errors.AsType[*json.SemanticError](err)
	if !is {
		return err
	}
	where := string(semantic.JSONPointer)
	switch {
	case errors.Is(semantic.Err, json.ErrUnknownName):
		return fmt.Errorf("%s: there is no such field", where)
	case semantic.Err != nil:
		return fmt.Errorf("%s: %w", where, semantic.Err)
	case semantic.GoType != nil:
		return fmt.Errorf("%s: want %v, but it is %s", where, semantic.GoType, string(semantic.JSONValue))
	}
	return err
}

// MarshalJSON returns the rule as Parse reads it. An action of the program itself has only a
// name there.
func (r Rule) MarshalJSON() ([]byte, error) {
	with, err := parametersOf(r.Action)
	if err != nil {
		return nil, err
	}
	m := &matchForm{
		Verbs: r.Match.Verbs, Resources: r.Match.Resources, Subresources: r.Match.Subresources, Namespaces: r.Match.Namespaces,
		Names: r.Match.Names, UserAgents: r.Match.UserAgents, Nth: r.Match.Nth, Every: r.Match.Every,
		After: r.Match.After, Until: r.Match.Until,
	}
	if p := r.Match.Probability; p != 0 {
		m.Probability = &p
	}
	return json.Marshal(ruleForm{Name: r.Name, Match: m, Action: actionName(r.Action), With: with, Count: r.Count}, strict())
}

// ParseShort reads a rule in one line, for command lines: the name of the action, and
// KEY=VALUE behind commas. The keys are the rule's and match's, with | between several values,
// and the parameters of the action, with "with." before them if they are called like a key:
//
//	gone,verbs=watch,resources=pods|deployments.apps,count=1,as=http
func ParseShort(text string) (Rule, error) {
	action, rest, _ := strings.Cut(text, ",")
	form := map[string]any{"action": strings.TrimSpace(action)}
	match, with := map[string]any{}, map[string]any{}
	for rest != "" {
		var pair string
		pair, rest, _ = strings.Cut(rest, ",")
		key, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		if !found || key == "" {
			return Rule{}, fmt.Errorf("%q: want KEY=VALUE between commas, like gone,verbs=watch,count=1", pair)
		}
		into := with
		set := scalar(value)
		if parameter, is := strings.CutPrefix(key, "with."); is { // one that is called like a field of the rule
			with[parameter] = set
			continue
		}
		switch key {
		case "name":
			into, set = form, value
		case "count":
			into = form
		case "verbs", "resources", "subresources", "namespaces", "names", "userAgents":
			into, set = match, strings.Split(value, "|")
		case "nth", "every", "probability", "after", "until":
			into = match
		}
		if _, twice := into[key]; twice {
			return Rule{}, fmt.Errorf("%s is given twice: put | between several values", key)
		}
		into[key] = set
	}
	form["match"], form["with"] = match, with
	body, err := json.Marshal(form)
	if err != nil {
		return Rule{}, fmt.Errorf("read %q: %w", text, err)
	}
	rules, err := Parse(body)
	if err != nil {
		return Rule{}, err
	}
	return rules[0], nil
}

// scalar returns a number or a truth value where the text is one.
func scalar(text string) any {
	if v := jsontext.Value(text); v.IsValid() {
		switch v.Kind() { //nolint:exhaustive // all other values are texts
		case '0', 't', 'f':
			return v
		}
	}
	return text
}
