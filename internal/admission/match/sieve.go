package match

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/admission"
)

// Need is a label that a request must have to match: one of its objects, or its namespace.
type Need struct {
	inNamespace bool
	key         string
	values      []string // nil: any
}

// Need returns a label without which a request does not match a plan, nor is an error; false
// if there is none.
func (p *Plan) Need() (Need, bool) {
	c := p.criteria
	if c.objectsErr == nil {
		if need, is := needOf(c.objects); is {
			return need, true
		}
	}
	if c.namespacesErr == nil {
		need, is := needOf(c.namespaces)
		need.inNamespace = true
		return need, is
	}
	return Need{}, false
}

// Fails reports whether a request may be an error to a plan.
func (p *Plan) Fails() bool {
	c := p.criteria
	return c.objectsErr != nil || c.namespacesErr != nil || !c.namespaces.Empty()
}

// needOf returns a label that a selector requires.
func needOf(s labels.Selector) (Need, bool) {
	requirements, selectable := s.Requirements()
	if !selectable {
		return Need{}, false
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			return Need{key: r.Key(), values: r.Values().UnsortedList()}, true
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			return Need{key: r.Key()}, true
		case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
		}
	}
	return Need{}, false
}

// Sieve finds those of many plans that a request may match, by its labels, without a look at
// the others. The zero value has none. It is not changed while it is in use.
type Sieve struct {
	always                []int
	ofObject, ofNamespace byLabel
}

// byLabel are the numbers of plans by the label that they need.
type byLabel struct {
	all    []int
	keys   map[string][]int
	values map[[2]string][]int
}

// Add adds a plan with a number, which passes if a request has one of the needed labels, or
// always if there are none.
func (s *Sieve) Add(number int, needs []Need) {
	if len(needs) == 0 {
		s.always = append(s.always, number)
	}
	for _, n := range needs {
		if n.inNamespace {
			s.ofNamespace.add(number, n)
		} else {
			s.ofObject.add(number, n)
		}
	}
}

func (b *byLabel) add(number int, n Need) {
	if b.keys == nil {
		b.keys, b.values = map[string][]int{}, map[[2]string][]int{}
	}
	b.all = append(b.all, number)
	if n.values == nil {
		b.keys[n.key] = append(b.keys[n.key], number)
	}
	for _, value := range n.values {
		label := [2]string{n.key, value}
		b.values[label] = append(b.values[label], number)
	}
}

// find adds the numbers of the plans that need one of the labels.
func (b *byLabel) find(numbers []int, has labels.Set) []int {
	for key, value := range has {
		numbers = append(numbers, b.keys[key]...)
		numbers = append(numbers, b.values[[2]string{key, value}]...)
	}
	return numbers
}

// Passing returns the numbers of the plans that a request may match, in their order.
func (m *Matcher) Passing(s *Sieve, a admission.Attributes) []int {
	some := slices.Clone(s.always)
	if len(s.ofObject.all) > 0 {
		for _, o := range [...]runtime.Object{a.GetObject(), a.GetOldObject()} {
			some = s.ofObject.find(some, labelsOf(o))
		}
	}
	if len(s.ofNamespace.all) > 0 {
		if has, all, err := m.namespaceLabels(a); all || err != nil {
			some = append(some, s.ofNamespace.all...)
		} else {
			some = s.ofNamespace.find(some, has)
		}
	}
	slices.Sort(some)
	return slices.Compact(some)
}

// labelsOf returns the labels of an object, if it has any.
func labelsOf(o runtime.Object) labels.Set {
	if o == nil {
		return nil
	}
	object, err := meta.Accessor(o)
	if err != nil {
		return nil
	}
	return object.GetLabels()
}
