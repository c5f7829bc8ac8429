package script

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var memberStep = regexp.MustCompile(`^(?:\.([A-Za-z0-9_/-]+)|\[(\d+)\])`)

// splitMember takes .metadata.name and .items[0] apart.
func splitMember(member string) ([]any, error) {
	var steps []any
	for rest := member; rest != ""; {
		m := memberStep.FindStringSubmatch(rest)
		switch {
		case m == nil:
			return nil, fmt.Errorf("%q is not a member like .items[0].metadata.name", member)
		case m[2] != "":
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return nil, err
			}
			steps = append(steps, n)
		default:
			steps = append(steps, m[1])
		}
		rest = rest[len(m[0]):]
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("an empty member")
	}
	return steps, nil
}

// Member returns a member of a JSON document as text. A document that has no such
// member is an error.
func Member(document []byte, member string) (string, error) {
	steps, err := splitMember(member)
	if err != nil {
		return "", err
	}
	dec := json.NewDecoder(strings.NewReader(string(document)))
	dec.UseNumber()
	var at any
	if err := dec.Decode(&at); err != nil {
		return "", fmt.Errorf("%s of an answer that is not JSON: %w", member, err)
	}
	for _, step := range steps {
		var ok bool
		switch step := step.(type) {
		case string:
			var object map[string]any
			if object, ok = at.(map[string]any); ok {
				at, ok = object[step]
			}
		case int:
			var list []any
			if list, ok = at.([]any); ok {
				if ok = step < len(list); ok {
					at = list[step]
				}
			}
		}
		if !ok {
			return "", fmt.Errorf("the answer has no %s", member)
		}
	}
	if text, ok := at.(string); ok {
		return text, nil
	}
	raw, err := json.Marshal(at)
	return string(raw), err
}

// Patched is an object after a JSON merge patch, or {} if the document is none, or a Status. A patch that is no object is an
// error.
func Patched(document []byte, patch string) (string, error) {
	decode := func(text string, to *map[string]any) error {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		return dec.Decode(to)
	}
	var object, change map[string]any
	if err := decode(patch, &change); err != nil {
		return "", fmt.Errorf("the patch %s: %w", patch, err)
	}
	if decode(string(document), &object) != nil || object == nil || object["kind"] == "Status" {
		return "{}", nil
	}
	raw, err := json.Marshal(merge(object, change))
	return string(raw), err
}

func merge(to, change map[string]any) map[string]any {
	if to == nil {
		to = map[string]any{}
	}
	for key, value := range change {
		switch value := value.(type) {
		case nil:
			delete(to, key)
		case map[string]any:
			below, _ := to[key].(map[string]any)
			to[key] = merge(below, value)
		default:
			to[key] = value
		}
	}
	return to
}

var variable = regexp.MustCompile(`\$(?:([a-z][a-z0-9]*)|\{([a-z][a-z0-9]*)(?:([+-])(\d+))?\})`)

// Expand puts values in for $x and ${x+5}. A variable without a value, and a sum
// with one that is not a number, is an error.
func Expand(text string, value func(name string) (string, bool)) (string, error) {
	var failed error
	out := variable.ReplaceAllStringFunc(text, func(ref string) string {
		m := variable.FindStringSubmatch(ref)
		name := m[1] + m[2]
		v, ok := value(name)
		if !ok {
			failed = fmt.Errorf("nothing was captured as %s", name)
			return ref
		}
		if m[3] == "" {
			return v
		}
		n, err := strconv.ParseInt(v, 10, 64)
		by, err2 := strconv.ParseInt(m[3]+m[4], 10, 64)
		if err != nil || err2 != nil {
			failed = fmt.Errorf("%s: %q is not a number", ref, v)
			return ref
		}
		return strconv.FormatInt(n+by, 10)
	})
	return out, failed
}
