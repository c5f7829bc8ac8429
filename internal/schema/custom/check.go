package custom

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/gapless-io/gapless/internal/schema"
)

// checks is what validation needs of a schema.
type checks struct {
	*shape
	openAPI validation.SchemaValidator
	rules   *cel.Validator // nil: the schema has no x-kubernetes-validations
	plain   *plain         // nil: the schema says too much for the short way
}

func (t *customType) compileChecks() (*checks, error) {
	s, err := t.shape()
	if err != nil {
		return nil, err
	}
	openAPI, _, err := validation.NewSchemaValidator(s.props)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", t.resource.GVK(), err)
	}
	return &checks{shape: s, openAPI: openAPI, plain: plainOf(s.structural), rules: cel.NewValidator(s.structural, true, celconfig.PerCallLimit)}, nil
}

// unhurried is a context that never ends: validation is bounded by the cost
// budget of the rules, not by time.
type unhurried struct{}

func (unhurried) Deadline() (time.Time, bool) { return time.Time{}, false }
func (unhurried) Done() <-chan struct{}       { return nil }
func (unhurried) Err() error                  { return nil }
func (unhurried) Value(any) any               { return nil }

// Validate checks an object in the order of upstream's strategy for custom
// resources. In an update, what did not change is not held against it (ratcheting,
// KEP-4008).
func (t *customType) Validate(u, old *unstructured.Unstructured) field.ErrorList {
	c, err := t.checks()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	ctx := unhurried{}
	var errs field.ErrorList
	var before any // nil, and not a nil map, when there is no old object
	var openAPIOptions []validation.ValidationOption
	var ruleOptions []cel.Option
	if old == nil {
		for _, why := range t.resource.ValidName(u.GetName()) {
			if u.GetName() != "" {
				errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), u.GetName(), why))
			}
		}
		if c.plain == nil || !c.plain.accepts(u.Object) {
			errs = append(errs, validation.ValidateCustomResource(nil, u.Object, c.openAPI)...)
		}
	} else {
		before = old.Object
		pair := common.NewCorrelatedObject(u.Object, before, &model.Structural{Structural: c.structural})
		openAPIOptions = append(openAPIOptions, validation.WithRatcheting(pair))
		ruleOptions = append(ruleOptions, cel.WithRatcheting(pair))
		if c.plain == nil || !c.plain.accepts(u.Object) {
			errs = append(errs, validation.ValidateCustomResourceUpdate(nil, u.Object, before, c.openAPI, openAPIOptions...)...)
		}
	}
	errs = append(errs, checkScale(u.Object, t.resource.Scale)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, u.Object, c.structural, false)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, c.structural, old.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, u.Object)...)
	}
	if c.rules == nil {
		return errs
	}
	if slices.ContainsFunc(errs, blocksRules) {
		return append(errs, field.Invalid(nil, nil,
			"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
	}
	broken, _ := c.rules.Validate(ctx, nil, c.structural, u.Object, before, celconfig.RuntimeCELCostBudget, ruleOptions...)
	return append(errs, broken...)
}

// blocksRules says whether an error means that the rules cannot rely on the
// object's shape.
func blocksRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}, err.Type)
}

// checkScale checks the fields that the scale subresource reads.
func checkScale(o map[string]any, scale *schema.ScalePaths) field.ErrorList {
	if scale == nil {
		return nil
	}
	var errs field.ErrorList
	for _, path := range [][]string{scale.SpecReplicas, scale.StatusReplicas} {
		n, _, err := unstructured.NestedInt64(o, path...)
		at := field.NewPath("." + strings.Join(path, "."))
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(at, n, err.Error()))
		case n < 0:
			errs = append(errs, field.Invalid(at, n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			errs = append(errs, field.Invalid(at, n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)))
		}
	}
	if scale.Selector != nil {
		if s, _, err := unstructured.NestedString(o, scale.Selector...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("."+strings.Join(scale.Selector, ".")), s, err.Error()))
		}
	}
	return errs
}
