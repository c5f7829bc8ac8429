// Package fault makes an API server, or a proxy in front of one, fail on demand, so that
// programs can be tested against the failures of the Kubernetes protocol.
//
// A [Rule] is a fault: its [Match] says which requests fail, and its [Action] how. A [Set] has
// the rules that are in force, and applies them as wrappers of an http.Handler ([Handler]) and
// of a net.Listener; a [State] is a rule with what it has done so far. A
// [Request] is what a request asks for, and a [Frame] is one event of a
// watch, which actions change with [Frames]. A [Kind] describes an action; the other types are
// the actions and their parameters.
//
//	faults := fault.New(1)
//	err := faults.Add(fault.Rule{
//		Match:  fault.Match{Verbs: []string{"watch"}, Resources: []string{"pods"}},
//		Action: &fault.Gone{},
//		Count:  1,
//	})
//
// docs/faults.md describes each action, and ADDING-A-FAULT.md how to write one.
package fault

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Rule says which requests fail, and how.
type Rule struct { //nolint:recvcheck // a rule is encoded as a value, and checked where it is
	// Name identifies the rule in its set; "" gets the name of the action and a number.
	Name string
	// Match selects the requests; the zero value selects all.
	Match Match
	// Action is what happens to them.
	Action Action
	// Count is to how many requests the action is applied; 0 means all.
	Count int
}

// Match selects requests. A request matches if it fits every field that is set. In
// Namespaces, Names and UserAgents, * stands for any text and ? for any character.
type Match struct {
	// Verbs are those of authorization: get, list, watch, create, update, patch, delete,
	// deletecollection; for other paths the method in lower case.
	Verbs []string
	// Resources are names like "pods" or "deployments.apps"; "*" is any resource. Without
	// them paths that are about no resource match too.
	Resources []string
	// Subresources are names like "status"; "" is the object itself.
	Subresources []string
	// Namespaces are those of the path.
	Namespaces []string
	// Names are those of the path, or of a field selector metadata.name=NAME.
	Names      []string
	UserAgents []string

	// Nth selects only the nth of the requests that fit the fields above, and Every each
	// nth of them, both counted from 1. Probability selects each with a probability from 0
	// to 1; 0 means 1.
	Nth, Every  int
	Probability float64
	// After and Until are the window in which the rule acts, from when it was added. 0 means
	// no bound.
	After, Until time.Duration
}

// Action is what happens to a request. It is used by many requests at once.
type Action interface {
	// Serve answers the request, with or without next, which is the server with the rules
	// that follow. It returns early when the rule is removed or the server stops (Removed), so
	// that the removal restores service.
	Serve(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// Store says with which data a server is restarted.
type Store string

// The data of a restarted server.
const (
	SameStore  Store = "same"
	WipedStore Store = "wiped" // none: the cluster was created again
	OlderStore Store = "older" // what was stored when the rule was added: a backup was restored
)

// injection is what an action can find out about its rule and the request.
type injection struct {
	set  *Set
	rule *active
	// handler has the request.
	handler *Handler
	ended   chan struct{} // of Removed
	forget  func()        // that it is to be closed
}

type injectionKey struct{}

func newInjection(h *Handler, rule *active) *injection {
	i := &injection{set: h.set, rule: rule, handler: h, ended: make(chan struct{})}
	i.forget = i.atEnd(func() { close(i.ended) })
	return i
}

// context returns a context for the action.
func (i *injection) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, injectionKey{}, i)
}

// injectionOf returns the injection of the request that an action serves; the set and the handler
// are never nil.
func injectionOf(ctx context.Context) *injection {
	if i, is := ctx.Value(injectionKey{}).(*injection); is {
		return i
	}
	return newInjection((&Set{}).Handler(nil), newActive(Rule{}, 0, time.Time{})) // an action that is used without a set
}

// atEnd calls do when the rule is removed or the server stops, whichever is first, unless forget
// is called before.
func (i *injection) atEnd(do func()) (forget func()) {
	do = sync.OnceFunc(do)
	removal, drain := i.rule.removal.at(do), i.handler.drain.at(do)
	return func() {
		removal()
		drain()
	}
}

// Removed returns a channel that is closed when the rule whose action serves a request is
// removed, or the server stops (Handler.Drain).
func Removed(ctx context.Context) <-chan struct{} { return injectionOf(ctx).ended }

// pause waits, at most until the client leaves, the rule is removed, or the server stops.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-Removed(ctx):
	}
}
