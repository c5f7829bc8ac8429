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
	"k8s.io/apiserver/pkg/warning"

	"github.com/gapless-io/gapless/internal/kinds"
)

// checks are the compiled checks of a schema.
type checks struct {
	*shape
	openAPI validation.SchemaValidator
	status  validation.SchemaValidator // nil: the schema has no status
	rules   *cel.Validator             // nil: the schema has no x-kubernetes-validations
	plain   *plain                     // nil: the schema is too complex for the fast path
}

func (t *customType) compileChecks() (*checks, error) {
	s, err := t.shapes.get()
	if err != nil {
		return nil, err
	}
	openAPI, _, err := validation.NewSchemaValidator(s.props)
	if err != nil {
		return nil, fmt.Errorf("compile the schema of %s: %w", t.resource.GVK(), err)
	}
	c := &checks{
		shape: s, openAPI: openAPI, plain: plainOf(s.structural),
		rules: cel.NewValidator(s.structural, true, celconfig.PerCallLimit),
	}
	if status, has := s.props.Properties["status"]; has {
		if c.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, fmt.Errorf("compile the schema of the status of %s: %w", t.resource.GVK(), err)
		}
	}
	return c, nil
}

// unhurried is a context that never ends: validation is bounded by the cost
// budget of the rules, not by time.
type unhurried struct{}

func (unhurried) Deadline() (time.Time, bool) { return time.Time{}, false }
func (unhurried) Done() <-chan struct{}       { return nil }
func (unhurried) Err() error                  { return nil }
func (unhurried) Value(any) any               { return nil }

// tolerated collects the errors of rules that an unchanged part of an object breaks: upstream's
// validator makes warnings of them.
type tolerated struct{ texts []string }

// AddWarning implements warning.Recorder.
func (t *tolerated) AddWarning(_, text string) { t.texts = append(t.texts, text) }

// Validate checks an object in the order of upstream's strategy for custom
// resources. In an update, unchanged values may be invalid (ratcheting,
// KEP-4008): the warnings, beside errors too, are about those.
func (t *customType) Validate(u, old *unstructured.Unstructured) (field.ErrorList, []string) {
	c, err := t.compiled.get()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}, nil
	}
	var errs field.ErrorList
	if name := u.GetName(); old == nil && name != "" {
		for _, why := range t.resource.ValidName(name) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), name, why))
		}
	}
	if c.plain != nil && c.plain.accepts(u.Object) {
		errs = append(errs, checkScale(u.Object, t.resource.Scale)...)
	} else {
		many, err := flooded(c.props, u.Object, before(old))
		switch {
		case err != nil:
			return field.ErrorList{field.InternalError(nil, err)}, nil
		case many != nil:
			return many, nil
		}
		errs = append(errs, t.checkSchema(c, u, old)...)
	}
	return c.checkRules(u, old, errs)
}

// ValidateStatus checks an update of the status: of the schema only what it says of the
// status, since nothing else changes (apiextensions registry/customresource
// statusStrategy).
func (t *customType) ValidateStatus(u, old *unstructured.Unstructured) (field.ErrorList, []string) {
	c, err := t.compiled.get()
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}, nil
	}
	var errs field.ErrorList
	if c.plain == nil || !c.plain.accepts(u.Object) {
		many, err := flooded(c.props, u.Object, old.Object)
		switch {
		case err != nil:
			return field.ErrorList{field.InternalError(nil, err)}, nil
		case many != nil:
			return many, nil
		}
		if status, has := u.Object["status"]; has && c.status != nil {
			errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"], c.status,
				validation.WithRatcheting(c.pair(u, old).Key("status")))
		}
	}
	errs = append(errs, checkScale(u.Object, t.resource.Scale)...)
	if lists := listtype.ValidateListSetsAndMaps(nil, c.structural,
		u.Object); len(lists) > 0 && len(listtype.ValidateListSetsAndMaps(nil, c.structural, old.Object)) == 0 {
		errs = append(errs, lists...)
	}
	return c.checkRules(u, old, errs)
}

// before is the content of an old object: nil, and not a nil map, when there is none.
func before(old *unstructured.Unstructured) any {
	if old == nil {
		return nil
	}
	return old.Object
}

// checkSchema checks everything but the rules of a schema that is not plain, or whose
// plain part refuses the object.
func (t *customType) checkSchema(c *checks, u, old *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		errs = validation.ValidateCustomResource(nil, u.Object, c.openAPI)
	} else {
		errs = validation.ValidateCustomResourceUpdate(nil, u.Object, old.Object, c.openAPI,
			validation.WithRatcheting(c.pair(u, old)))
	}
	errs = append(errs, checkScale(u.Object, t.resource.Scale)...)
	errs = append(errs, objectmeta.Validate(unhurried{}, nil, u.Object, c.structural, false)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, c.structural, old.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, u.Object)...)
	}
	return errs
}

// pair is an object and what it was before, for ratcheting.
func (c *checks) pair(u, old *unstructured.Unstructured) *common.CorrelatedObject {
	return common.NewCorrelatedObject(u.Object, before(old), &model.Structural{Structural: c.structural})
}

// checkRules checks the rules of the schema after what gave these errors, unless the object
// is invalid in a way on which the rules cannot rely. It returns all errors, and warnings
// about rules that unchanged parts break.
func (c *checks) checkRules(u, old *unstructured.Unstructured, errs field.ErrorList) (field.ErrorList, []string) {
	if c.rules == nil {
		return errs, nil
	}
	if slices.ContainsFunc(errs, blocksRules) {
		return append(errs, field.Invalid(nil, nil,
			"some validation rules were not checked because the object was invalid; correct the existing errors to "+
				"complete validation")), nil
	}
	var options []cel.Option
	if old != nil {
		options = append(options, cel.WithRatcheting(c.pair(u, old)))
	}
	var kept tolerated
	ctx := warning.WithWarningRecorder(unhurried{}, &kept)
	broken, _ := c.rules.Validate(ctx, nil, c.structural, u.Object, before(old), celconfig.RuntimeCELCostBudget, options...)
	return append(errs, broken...), kept.texts
}

// blocksRules reports whether after an error the rules cannot rely on the
// object's shape.
func blocksRules(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
		field.ErrorTypeTypeInvalid,
	}, err.Type)
}

// checkScale checks the fields that the scale subresource reads.
func checkScale(o map[string]any, scale *kinds.ScalePaths) field.ErrorList {
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
