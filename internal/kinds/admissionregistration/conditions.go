package admissionregistration

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// maxConditions is 64: how many match conditions a webhook or a policy may have.
const maxConditions = 64

// conditions checks match conditions. They cannot use variables.
func (p *program) conditions(at *field.Path, all []admissionv1.MatchCondition) field.ErrorList {
	var errs field.ErrorList
	if len(all) > maxConditions {
		errs = append(errs, field.TooMany(at, len(all), maxConditions))
	}
	given := admissioncel.OptionalVariableDeclarations{HasParams: p.params, HasAuthorizer: true}
	seen := map[string]bool{}
	for i, c := range all {
		at := at.Index(i)
		if text := strings.TrimSpace(c.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			errs = append(errs,
				p.compile(at.Child("expression"), alone(), expression{text: text, types: []*celgo.Type{celgo.BoolType}},
					given)...)
		}
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, check.Invalid(at.Child("name"), c.Name, validation.IsQualifiedName(c.Name))...)
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
	}
	return errs
}

// textsOf yields the expressions of match conditions.
func textsOf(all []admissionv1.MatchCondition) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, c := range all {
			if !yield(c.Expression) {
				return
			}
		}
	}
}

// variables checks the variables of a policy.
func (p *program) variables(at *field.Path, all []admissionv1.Variable) field.ErrorList {
	var errs field.ErrorList
	for i, v := range all {
		at := at.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !isIdentifier(v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
			continue
		}
		errs = append(errs,
			p.variable(at, expression{text: v.Expression, name: v.Name, types: []*celgo.Type{celgo.AnyType, celgo.DynType}})...)
	}
	return errs
}

// identifier is the syntax of names in CEL.
var identifier = regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")

// isIdentifier reports whether CEL takes a name: it has the syntax, and is no word of CEL.
func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains([]string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
		"loop", "package", "namespace", "return", "var", "void", "while",
	}, name)
}
