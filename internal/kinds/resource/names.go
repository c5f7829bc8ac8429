package resource

import (
	"encoding/json"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// pool checks the name of a pool: subdomains with slashes between them.
func pool(at *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, check.Invalid(at, part, validation.IsDNS1123Subdomain(part))...)
	}
	return errs
}

// driver checks the name of a driver.
func driver(at *field.Path, name string) field.ErrorList { return check.Driver(at, "driver", name) }

func label(at *field.Path, name string) field.ErrorList {
	return check.Invalid(at, name, validation.IsDNS1123Label(name))
}

// qualified checks the name of an attribute or a capacity: an identifier, behind the domain
// of a driver. More slashes than one are not refused, as upstream.
func qualified(at *field.Path, name string) field.ErrorList {
	parts := strings.Split(name, "/")
	switch len(parts) {
	case 1:
		return identifier(at, parts[0])
	case 2:
	default:
		return nil
	}
	var errs field.ErrorList
	if parts[0] == "" {
		errs = append(errs, field.Invalid(at, "", "the domain must not be empty"))
	} else {
		errs = append(errs, domain(at, parts[0])...)
	}
	if parts[1] == "" {
		return append(errs, field.Invalid(at, "", "the name must not be empty"))
	}
	return append(errs, identifier(at, parts[1])...)
}

// domain checks the name of a driver that is a part of a text.
func domain(at *field.Path, name string) field.ErrorList {
	errs := check.Invalid(at, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
	if len(name) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.DriverNameMaxLength))
	}
	return errs
}

func identifier(at *field.Path, id string) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, check.Invalid(at, id, content.IsCIdentifier(id))...)
}

// fullyQualified is qualified for a name that must have a domain.
func fullyQualified(at *field.Path, name string) field.ErrorList {
	errs := qualified(at, name)
	if !strings.Contains(name, "/") {
		errs = append(errs, field.Invalid(at, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

// raw checks an object that only a driver understands.
func raw(at *field.Path, value runtime.RawExtension, most int) field.ErrorList {
	if len(value.Raw) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	if len(value.Raw) > most {
		return field.ErrorList{field.TooLong(at, "", most)}
	}
	var content any
	if err := json.Unmarshal(value.Raw, &content); err != nil {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "error parsing data as JSON: "+err.Error())}
	}
	if content == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	if _, is := content.(map[string]any); !is {
		return field.ErrorList{field.Invalid(at, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}
