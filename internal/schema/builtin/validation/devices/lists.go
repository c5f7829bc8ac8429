package devices

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// each applies a rule to the items of a list. Of a list with more than most items it only
// says that.
func each[T any](at *field.Path, list []T, most int, rule func(*field.Path, *T) field.ErrorList) field.ErrorList {
	if len(list) > most {
		return field.ErrorList{field.TooMany(at, len(list), most)}
	}
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, rule(at.Index(i), &list[i])...)
	}
	return errs
}

// set is each for a list whose items have different keys.
func set[T any, K comparable](at *field.Path, list []T, most int, rule func(*field.Path, *T) field.ErrorList, key func(*T) K) field.ErrorList {
	errs := each(at, list, most, rule)
	if len(list) > most {
		return errs
	}
	seen := make(map[K]bool, len(list))
	for i := range list {
		k := key(&list[i])
		if seen[k] {
			errs = append(errs, field.Duplicate(at.Index(i), k))
		}
		seen[k] = true
	}
	return errs
}

// texts is set for a list of texts.
func texts(at *field.Path, list []string, most int, rule func(*field.Path, *string) field.ErrorList) field.ErrorList {
	return set(at, list, most, rule, func(s *string) string { return *s })
}
