package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/fault/internal/conn"
	"github.com/gapless-io/gapless/internal/faulthost"
)

// AdminPath is where a server with faults has its rules. Rules do not apply to it.
const AdminPath = "/faults"

// CallsPath begins the paths of what tests do to such a server besides. Rules do not apply
// to them either.
const CallsPath = "/gapless/v1/test/"

// Set is the rules that are in force. The zero value is an empty set. It is safe for
// concurrent use.
type Set struct {
	hidden // what it knows of its server; see package faulthost

	seed  uint64
	rules atomic.Pointer[[]*active] // nil or not empty, and never changed

	// mu guards changes of rules, and what follows.
	mu   sync.Mutex
	made map[string]int // names, by action

	logger atomic.Pointer[slog.Logger]
	conns  conn.Set
}

// hidden and host keep what is between a set and its server out of the API.
type (
	hidden = faulthost.Hidden
	host   = faulthost.Host
)

// New returns an empty set. Rules with a probability choose the same requests whenever the
// seed and the order of requests are the same.
func New(seed uint64) *Set { return &Set{seed: seed} }

// Seed returns the seed of the set.
func (s *Set) Seed() uint64 { return s.seed }

// SetLogger says who learns, at info level, of each request that a rule is applied to; without
// it nobody is.
func (s *Set) SetLogger(l *slog.Logger) { s.logger.Store(l) }

// reaches returns an error for a rule that needs a store where there is none.
func (s *Set) reaches(r *Rule) error {
	if _, needs := r.Action.(*StoreWrite); needs && faulthost.Of(&s.hidden).NoStore() {
		return errors.New(
			"the store is in another process, where no rule can reach it: add the rule to a server (gapless " +
				"serve --enable-faults)")
	}
	return nil
}

// Add adds rules behind those that there are; a request passes them in this order. If one
// is wrong, none is added, and the error says what is wrong with each.
func (s *Set) Add(rules ...Rule) error { return s.add(rules, func(int, *active) {}) }

// Continue adds the rules of a set whose process has ended, as Add does. They go on as if it
// had not: with what they have counted, with their window of time, and with the choices
// of a probability, if the sets have the same seed.
func (s *Set) Continue(states ...State) error {
	rules := make([]Rule, len(states))
	for i := range states {
		rules[i] = states[i].Rule
	}
	return s.add(rules, func(i int, a *active) { a.resume(states[i]) })
}

// add adds rules, which prepare gets before they are in force.
func (s *Set) add(rules []Rule, prepare func(i int, a *active)) error {
	h := faulthost.Of(&s.hidden).Host()
	var wrong []error
	for i := range rules {
		if err := errors.Join(rules[i].check(h), s.reaches(&rules[i])); err != nil {
			wrong = append(wrong, fmt.Errorf("rule %s: %w", rules[i].label(i), err))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	if err := backUp(h, rules); err != nil {
		return err
	}
	faulthost.Of(&s.hidden).SetWriter(s.controllerWrite)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.listLocked()
	all := slices.Clone(now)
	for i, r := range rules {
		if r.Name == "" {
			r.Name = s.nameLocked(r, all)
		}
		if slices.ContainsFunc(all, func(a *active) bool { return a.rule.Name == r.Name }) {
			return fmt.Errorf("rule %s: there is a rule with this name: remove it first, or choose another name", r.label(i))
		}
		added := newActive(r, s.seed, time.Now())
		prepare(i, added)
		all = append(all, added)
	}
	if len(all) > 0 {
		s.rules.Store(&all)
	}
	return nil
}

// backUp makes the copy for rules that bring it back.
func backUp(h host, rules []Rule) error {
	older := func(r Rule) bool { a, is := r.Action.(*Restart); return is && a.Store == OlderStore }
	if h == nil || !slices.ContainsFunc(rules, older) {
		return nil
	}
	if err := h.Backup(); err != nil {
		return fmt.Errorf("keep a copy of what is stored: %w", err)
	}
	return nil
}

// nameLocked returns a name for a rule that has none.
func (s *Set) nameLocked(r Rule, all []*active) string {
	if s.made == nil {
		s.made = map[string]int{}
	}
	action := actionName(r.Action)
	for {
		s.made[action]++
		name := fmt.Sprintf("%s-%d", action, s.made[action])
		if !slices.ContainsFunc(all, func(a *active) bool { return a.rule.Name == name }) {
			return name
		}
	}
}

func (s *Set) listLocked() []*active {
	if list := s.rules.Load(); list != nil {
		return *list
	}
	return nil
}

// Remove removes the rule with a name, and reports whether there was one. What its action
// still does to requests ends.
func (s *Set) Remove(name string) bool {
	return s.remove(func(a *active) bool { return a.rule.Name == name })
}

// Clear removes all rules.
func (s *Set) Clear() { s.remove(func(*active) bool { return true }) }

func (s *Set) remove(which func(*active) bool) bool {
	s.mu.Lock()
	list := s.listLocked()
	kept := slices.DeleteFunc(slices.Clone(list), which)
	if len(kept) == 0 {
		s.rules.Store(nil)
	} else {
		s.rules.Store(&kept)
	}
	s.mu.Unlock()
	for _, a := range list {
		if which(a) {
			a.removal.end() // outside of mu: it closes connections
		}
	}
	return len(kept) < len(list)
}

// State is a rule with what it has done.
type State struct {
	Rule Rule
	// Matched counts the requests that fit, and Acted those that the action was applied to.
	Matched, Acted int64
	// Added is when the rule was added, and InWindow counts the requests that fit in its window.
	Added    time.Time
	InWindow int
	// Problem is why the action could not be carried out the last time; "" is no problem.
	Problem string
}

// Rules returns the rules that are in force, in the order in which a request passes them.
func (s *Set) Rules() []State {
	s.mu.Lock()
	list := s.listLocked()
	s.mu.Unlock()
	states := make([]State, 0, len(list))
	for _, a := range list {
		states = append(states, a.state())
	}
	return states
}

// tell logs that a rule is applied.
func (s *Set) tell(a *active, q *Request, r *http.Request) {
	if l := s.logger.Load(); l != nil {
		l.InfoContext(r.Context(), "fault", slog.String("rule", a.rule.Name), slog.String("action", actionName(a.rule.Action)),
			slog.String("verb", q.Verb), slog.String("uri", r.URL.RequestURI()), slog.String("user_agent", r.UserAgent()))
	}
}

// Listener returns a listener whose connections the rules can reset and silence, and which
// refuses connections while a restart is simulated. Its connections may be wrapped, by TLS or
// by anything with a NetConn method.
func (s *Set) Listener(of net.Listener) net.Listener { return s.conns.Listener(of) }

// ConnContext returns a context for the requests of a connection, for http.Server's
// ConnContext.
func (s *Set) ConnContext(ctx context.Context, of net.Conn) context.Context {
	return conn.NewContext(ctx, of)
}
