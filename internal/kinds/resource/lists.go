package resource

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

// bounded is a list with the number of items that it may have.
type bounded[T any] struct {
	at   *field.Path
	list []T
	most int
}

func listOf[T any](at *field.Path, list []T, most int) bounded[T] {
	return bounded[T]{at: at, list: list, most: most}
}

// set is each for a list whose items have different keys.
func set[T any, K comparable](of bounded[T], rule func(*field.Path, *T) field.ErrorList, key func(*T) K) field.ErrorList {
	errs := each(of.at, of.list, of.most, rule)
	if len(of.list) > of.most {
		return errs
	}
	seen := make(map[K]bool, len(of.list))
	for i := range of.list {
		k := key(&of.list[i])
		if seen[k] {
			errs = append(errs, field.Duplicate(of.at.Index(i), k))
		}
		seen[k] = true
	}
	return errs
}

// texts is set for a list of texts.
func texts(at *field.Path, list []string, most int, rule func(*field.Path, *string) field.ErrorList) field.ErrorList {
	return set(listOf(at, list, most), rule, func(s *string) string { return *s })
}
