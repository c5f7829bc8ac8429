package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// decode decodes an object; numbers stay as they are written.
func decode(item []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(item))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	if tree == nil {
		return nil, errors.New("it is null")
	}
	return tree, nil
}

// encode encodes an object as YAML with sorted keys, or as JSON, which can stand for YAML
// too, where the YAML would be read as something else. It may change how numbers in the
// tree are written.
func encode(tree map[string]any) ([]byte, error) {
	normalize(tree)
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	if asYAML, err := yaml.JSONToYAML(text); err == nil {
		if back, err := yaml.YAMLToJSONStrict(asYAML); err == nil {
			if read, err := decode(back); err == nil && same(tree, read) {
				return asYAML, nil
			}
		}
	}
	indented, err := json.MarshalIndent(tree, "", "  ")
	return append(escaped(indented), '\n'), err
}

// escaped escapes the characters of JSON that YAML does not allow in a document, so that
// what reads either takes it. They are in strings only.
func escaped(text []byte) []byte {
	var out []byte
	for _, c := range string(text) {
		if c >= 0x7f && c < 0xa0 && c != 0x85 || c == 0xfeff || c == 0xfffe || c == 0xffff {
			out = fmt.Appendf(out, `\u%04x`, c)
			continue
		}
		out = utf8.AppendRune(out, c)
	}
	return out
}

// normalize writes every number in one form, so that an export of what was read from an
// export is equal: 1e10 would become 1e+10 in YAML, and then 10000000000.
func normalize(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = normalize(member)
		}
	case []any:
		for i, item := range v {
			v[i] = normalize(item)
		}
	case json.Number:
		if _, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return v
		}
		if _, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return v
		}
		if f, err := v.Float64(); err == nil {
			return f // json.Marshal has one form of it
		}
	}
	return value
}

// same reports whether two trees have the same content. A number may be written
// differently.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, has := b[name]; !has || !same(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, is := b.([]any)
		if !is || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	if isNumber(a) && isNumber(b) {
		return sameNumber(a, b)
	}
	return a == b
}

func isNumber(value any) bool {
	switch value.(type) {
	case json.Number, float64:
		return true
	}
	return false
}

func sameNumber(a, b any) bool {
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	i, err := strconv.ParseInt(x, 10, 64)
	j, other := strconv.ParseInt(y, 10, 64)
	if err == nil && other == nil {
		return i == j
	}
	f, err := strconv.ParseFloat(x, 64)
	g, other := strconv.ParseFloat(y, 64)
	return x == y || err == nil && other == nil && f == g
}
