package mix

import (
	"fmt"
	"math/rand/v2"
)

type (
	object = map[string]any
	list   = []any
)

// generator makes the moves of a seed.
type generator struct {
	*rand.Rand
	moves []Move
	// there has the names that probably exist, by the path of their collection.
	there map[string][]string
	// kept counts what the script has kept so far.
	kept int
}

// chance is true in so many of a hundred cases.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// pick returns one of the values; one that is a function is called.
func (g *generator) pick(values ...any) any {
	value := values[g.IntN(len(values))]
	switch value := value.(type) {
	case func() any:
		return value()
	case func() object:
		return value()
	case func() list:
		return value()
	}
	return value
}

// text is pick of texts.
func (g *generator) text(values ...string) string { return values[g.IntN(len(values))] }

// set gives an object a member in so many of a hundred cases.
func (g *generator) set(percent int, to object, key string, values ...any) {
	if g.chance(percent) {
		to[key] = g.pick(values...)
	}
}

// some returns one to most of what make makes.
func (g *generator) some(most int, make func(i int) any) list {
	var all list
	for i := range 1 + g.IntN(most) {
		all = append(all, make(i))
	}
	return all
}

// amounts has some of the resources, each with one of the amounts for it.
func (g *generator) amounts(percent int, of map[string][]string) object {
	all := object{}
	for _, name := range sorted(of) {
		if g.chance(percent) {
			all[name] = g.text(of[name]...)
		}
	}
	return all
}

func (g *generator) numbered(what string, n int) string { return fmt.Sprintf("%s%d", what, g.IntN(n)) }

// under nests a value: the last name is its own.
func under(value any, names ...string) object {
	for i := len(names) - 1; i > 0; i-- {
		value = object{names[i]: value}
	}
	return object{names[0]: value}
}
