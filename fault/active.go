package fault

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// active is a rule of a set.
type active struct {
	rule    Rule
	verbs   []string // those that the action can do something to; nil means all
	added   time.Time
	removal ending

	// mu guards what follows.
	mu      sync.Mutex
	random  *rand.Rand
	matched int64
	inTime  int // those in the window
	acted   int64
	problem string
}

// newActive returns a rule with a generator of its own, so that rules do not change each
// other's choices.
func newActive(r Rule, seed uint64, added time.Time) *active {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(r.Name)) // it never fails
	k, _ := kindOf(r.Action)
	return &active{
		rule: r, verbs: k.Verbs, added: added,
		random: rand.New(rand.NewPCG(seed, hash.Sum64())), //nolint:gosec // it must be repeatable
	}
}

// fits reports whether the action can do something to a request that fits the rule.
func (a *active) fits(q *Request, r *http.Request) bool {
	return (a.verbs == nil || slices.Contains(a.verbs, q.Verb)) && a.rule.Match.fits(q, r)
}

// acts counts a request that fits, and reports whether the action is applied to it.
func (a *active) acts(now time.Time) bool {
	m := &a.rule.Match
	a.mu.Lock()
	defer a.mu.Unlock()
	a.matched++
	age := now.Sub(a.added)
	if age < m.After || m.Until > 0 && age >= m.Until {
		return false
	}
	a.inTime++
	switch {
	case a.rule.Count > 0 && a.acted >= int64(a.rule.Count):
	case m.Nth > 0 && a.inTime != m.Nth:
	case m.Every > 0 && a.inTime%m.Every != 0:
	case m.Probability > 0 && a.random.Float64() >= m.Probability:
	default:
		a.acted++
		return true
	}
	return false
}

func (a *active) state() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return State{Rule: a.rule, Matched: a.matched, Acted: a.acted, Added: a.added, InWindow: a.inTime, Problem: a.problem}
}

// resume makes a rule that is not in force yet what it was in another process.
func (a *active) resume(s State) {
	if a.matched, a.acted, a.inTime, a.problem = s.Matched, s.Acted, s.InWindow, s.Problem; !s.Added.IsZero() {
		a.added = s.Added
	}
	if a.rule.Match.Probability == 0 {
		return
	}
	draws := s.InWindow // see acts
	switch m := a.rule.Match; {
	case m.Nth > 0:
		draws = min(draws/m.Nth, 1)
	case m.Every > 0:
		draws /= m.Every
	}
	for range draws {
		a.random.Float64()
	}
}

// failed records why the action could not be carried out.
func (a *active) failed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem = ""
	if err != nil {
		a.problem = err.Error()
	}
}

// label names a rule in an error; i is its place among those that are added.
func (r *Rule) label(i int) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("%d (%s)", i+1, actionName(r.Action))
}

// check returns what is wrong with a rule.
func (r *Rule) check(h host) error {
	if r.Action == nil {
		return errors.New("there is no action: name one of those in docs/faults.md")
	}
	if !validName(r.Name) {
		return fmt.Errorf("the name %q: want at most 63 letters, digits, '-', '.' and '_'", r.Name)
	}
	var able []string
	var wrong []error
	if k, known := kindOf(r.Action); known {
		able = k.Verbs
		wrong = append(wrong, k.check(r.Action, r, h))
	}
	wrong = append(wrong, r.Match.check(able))
	switch {
	case r.Count < 0:
		wrong = append(wrong, errors.New("count cannot be negative; 0 means all"))
	case r.Match.Nth > 0 && r.Count > 1:
		wrong = append(wrong, fmt.Errorf("nth is one request, so count cannot be %d", r.Count))
	}
	return errors.Join(wrong...)
}

func validName(name string) bool {
	const longest = 63 // as names of objects
	if len(name) > longest {
		return false
	}
	for _, c := range name {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '.' && c != '_' {
			return false
		}
	}
	return true
}
