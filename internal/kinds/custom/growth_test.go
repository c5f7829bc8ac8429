package custom

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/runtime"
)

// withDefaults gives some parts of a schema a default.
func withDefaults(r *rand.Rand, props *apiextensions.JSONSchemaProps, s *structuralschema.Structural) {
	if r.IntN(5) == 0 {
		s.Default = structuralschema.JSON{Object: randomValue(r, props)}
	}
	for name, property := range s.Properties {
		of := props.Properties[name]
		withDefaults(r, &of, &property)
		s.Properties[name] = property
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		withDefaults(r, props.AdditionalProperties.Schema, s.AdditionalProperties.Structural)
	}
	if s.Items != nil {
		withDefaults(r, props.Items.Schema, s.Items)
	}
}

// The growth fills in what upstream does, and is 0 only if that is nothing.
func TestDefaultsAreThoseOfUpstream(t *testing.T) {
	grown, same, none := 0, 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 11))
		props := randomSchema(r, 0)
		whole, err := structuralschema.NewStructural(props)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		withDefaults(r, props, whole)
		growth := growthOf(whole)
		if growth == nil {
			none++
		}
		for range 10 {
			o := randomValue(r, props)
			want, got := runtime.DeepCopyJSONValue(o), runtime.DeepCopyJSONValue(o)
			defaulting.Default(want, whole)
			growth.fill(got)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: of %v became %v, want %v", seed, o, got, want)
			}
			switch changed := !reflect.DeepEqual(o, want); {
			case changed && growth.of(o) == amount{}:
				t.Fatalf("seed %d: %v became %v, and has not grown", seed, o, want)
			case changed:
				grown++
			default:
				same++
			}
		}
	}
	if grown < 1000 || same < 1000 || none < 100 {
		t.Errorf("%d values grew, %d did not, %d schemas have no defaults: this shows nothing", grown, same, none)
	}
}
