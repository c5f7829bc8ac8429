package custom

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
)

// What the short way accepts, upstream's validator accepts: for random schemas and
// random objects that mostly fit them.
func TestObjectsThatAPlainSchemaAcceptsAreValid(t *testing.T) {
	accepted, refused, rejected := 0, 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		props := randomSchema(r, 0)
		structural, err := structuralschema.NewStructural(props)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		p := plainOf(structural)
		if p == nil {
			refused++
			continue
		}
		validator, _, err := validation.NewSchemaValidator(props)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for range 10 {
			o := randomValue(r, props)
			if !p.accepts(o) {
				rejected++
				continue
			}
			accepted++
			errs := validation.ValidateCustomResource(nil, o, validator)
			if tree, is := o.(map[string]any); is {
				errs = append(errs, listtype.ValidateListSetsAndMaps(nil, structural, tree)...)
			}
			if len(errs) > 0 {
				t.Fatalf("seed %d: %v was accepted, but %v", seed, o, errs)
			}
		}
	}
	if accepted < 1000 || rejected < 1000 || refused < 100 {
		t.Errorf("%d values accepted, %d not, %d schemas are not plain: this shows nothing", accepted, rejected, refused)
	}
}

func randomSchema(r *rand.Rand, depth int) *apiextensions.JSONSchemaProps {
	s := &apiextensions.JSONSchemaProps{
		Type: []string{"object", "array", "string", "integer", "number", "boolean", "either"}[r.IntN(7)],
	}
	if depth == 0 || depth > 3 && (s.Type == "object" || s.Type == "array") {
		s.Type = map[bool]string{true: "object", false: "string"}[depth == 0]
	}
	s.Nullable = r.IntN(4) == 0
	switch s.Type {
	case "either":
		s.Type, s.XIntOrString = "", true
	case "object":
		if depth > 0 && r.IntN(3) == 0 {
			s.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: randomSchema(r, depth+1)}
			break
		}
		s.Properties = map[string]apiextensions.JSONSchemaProps{}
		for i := range 1 + r.IntN(4) {
			name := string(rune('a' + i))
			s.Properties[name] = *randomSchema(r, depth+1)
			if r.IntN(4) == 0 {
				s.Required = append(s.Required, name)
			}
		}
	case "array":
		s.Items = &apiextensions.JSONSchemaPropsOrArray{Schema: randomSchema(r, depth+1)}
		if r.IntN(3) == 0 {
			s.MaxItems = new(int64(r.IntN(4)))
		}
		switch items := s.Items.Schema; {
		case items.Type == "string" && r.IntN(2) == 0:
			s.XListType = new("set")
		case items.Type == "object" && items.Properties["a"].Type == "string" && r.IntN(2) == 0:
			s.XListType, s.XListMapKeys = new("map"), []string{"a"}
		}
	case "string":
		switch r.IntN(6) {
		case 0:
			s.MinLength = new(int64(r.IntN(3)))
		case 1:
			s.MaxLength = new(int64(r.IntN(5)))
		case 2:
			s.Enum = []apiextensions.JSON{"one", "two"}
		case 3:
			s.Pattern = []string{"^[a-z]*$", "e$", "("}[r.IntN(3)]
		case 4:
			s.Format = []string{"date-time", "date", "unknown"}[r.IntN(3)]
		}
	case "integer", "number":
		if r.IntN(3) == 0 {
			s.Minimum = new(float64(r.IntN(10)))
		}
		if r.IntN(3) == 0 {
			s.Maximum = new(float64(r.IntN(20)))
		}
		if s.Type == "integer" {
			s.Format = []string{"", "", "int32", "int64"}[r.IntN(4)]
		}
		s.ExclusiveMaximum = s.Maximum != nil && r.IntN(8) == 0
	}
	return s
}

// randomValue mostly has the types of the schema.
func randomValue(r *rand.Rand, s *apiextensions.JSONSchemaProps) any {
	kind := s.Type
	if s.XIntOrString {
		kind = []string{"string", "integer"}[r.IntN(2)]
	}
	if r.IntN(25) == 0 {
		kind = []string{"object", "array", "string", "integer", "number", "boolean", "null"}[r.IntN(7)]
	}
	switch kind {
	case "object":
		o := map[string]any{}
		for name, property := range s.Properties {
			if r.IntN(6) > 0 {
				o[name] = randomValue(r, &property)
			}
		}
		if s.AdditionalProperties != nil {
			for i := range r.IntN(3) {
				o[fmt.Sprint(i)] = randomValue(r, s.AdditionalProperties.Schema)
			}
		}
		return o
	case "array":
		list := []any{}
		for range r.IntN(4) {
			if s.Items == nil {
				list = append(list, "x")
				continue
			}
			list = append(list, randomValue(r, s.Items.Schema))
		}
		return list
	case "string":
		return []string{"", "one", "two", "ünï", "longer than all", "2026-01-02T03:04:05Z", "2026-01-02"}[r.IntN(7)]
	case "integer":
		return []int64{0, 5, 10, 19, -3, 1 << 60}[r.IntN(6)]
	case "number":
		return []any{1.5, 9.99, int64(7), -2.0}[r.IntN(4)]
	case "boolean":
		return true
	}
	return nil
}
