// Package control changes the rules of a running server over HTTP, and serves what else tests
// do to it.
//
// A [Handler] serves the rules of a set at fault.AdminPath; who may use it is for its caller
// to decide. A [Client] lists, adds and removes rules there. An [Entry] is a rule with what it
// has done. [Calls] serves the methods of a [Server], with which tests keep and restore what
// it holds.
//
// calls.go has what a test in another process can ask a server.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/wire"
)

// Entry is a rule with what it has done.
type Entry struct {
	// Rule is the rule as fault.Parse reads it.
	Rule json.RawMessage `json:"rule"`
	// Name and Action are those of the rule.
	Name   string `json:"name"`
	Action string `json:"action"`
	// Matched counts the requests that fit, and Acted those that the action was applied to.
	Matched int64 `json:"matched"`
	Acted   int64 `json:"acted"`
	// Added is when the rule was added, and InWindow counts the requests that fit in its
	// window of time.
	Added    time.Time `json:"added"`
	InWindow int       `json:"inWindow"`
	// Problem is why the action could not be carried out the last time.
	Problem string `json:"problem,omitempty"`
}

// ReadStates reads an answer of GET /faults, so that another process goes on with its rules
// (fault.Set.Continue).
func ReadStates(text []byte) ([]fault.State, error) {
	var all entries
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read the answer of GET %s: %w", fault.AdminPath, err)
	}
	states := make([]fault.State, 0, len(all.Rules))
	for _, e := range all.Rules {
		rules, err := fault.Parse(e.Rule)
		if err != nil {
			return nil, err
		}
		states = append(states, fault.State{
			Rule: rules[0], Matched: e.Matched, Acted: e.Acted, Added: e.Added, InWindow: e.InWindow, Problem: e.Problem,
		})
	}
	return states, nil
}

// entries is the body of an answer.
type entries struct {
	Rules []Entry `json:"rules"`
}

// Handler serves the rules of a set:
//
//	GET /faults          lists them
//	POST /faults         adds those of the body, as JSON or YAML, or a JSON list of rules in
//	                     one line (fault.ParseShort), behind them
//	DELETE /faults       removes all
//	DELETE /faults/NAME  removes one
type Handler struct{ Set *fault.Set }

// ServeHTTP implements http.Handler. Errors are answered as a Status.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := h.serve(w, r)
	if err != nil {
		fault.Refuse(w, err)
		return
	}
	body, err := json.Marshal(answer)
	if err != nil {
		fault.Refuse(w, wire.Internal(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

func (h Handler) serve(w http.ResponseWriter, r *http.Request) (entries, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, fault.AdminPath), "/")
	switch {
	case r.URL.RawQuery != "":
		return entries{}, wire.BadRequest("%s has no parameters in its query, but there is %q", fault.AdminPath, r.URL.RawQuery)
	case r.Method == http.MethodGet && name == "":
		return h.list()
	case r.Method == http.MethodPost && name == "":
		return h.add(w, r)
	case r.Method == http.MethodDelete && name == "":
		h.Set.Clear()
		return h.list()
	case r.Method == http.MethodDelete:
		if !h.Set.Remove(name) {
			return entries{}, wire.NotFound(schema.GroupResource{Resource: "faults"}, name)
		}
		return h.list()
	}
	return entries{}, wire.MethodNotAllowed(schema.GroupResource{Resource: "faults"}, strings.ToLower(r.Method))
}

func (h Handler) list() (entries, error) {
	out := entries{Rules: []Entry{}}
	for _, s := range h.Set.Rules() {
		text, err := json.Marshal(s.Rule)
		if err != nil {
			return out, wire.Internal(fmt.Errorf("write the rule %s: %w", s.Rule.Name, err))
		}
		e := Entry{Rule: text, Matched: s.Matched, Acted: s.Acted, Added: s.Added, InWindow: s.InWindow, Problem: s.Problem}
		if err := json.Unmarshal(text, &e); err != nil { // its name and action
			return out, wire.Internal(err)
		}
		out.Rules = append(out.Rules, e)
	}
	return out, nil
}

// add adds rules and returns all. A type of content that a page of another origin cannot send
// without asking is required: browsers add client certificates to its requests.
func (h Handler) add(w http.ResponseWriter, r *http.Request) (entries, error) {
	switch media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media {
	case "application/json", "application/yaml":
	default:
		return entries{}, wire.UnsupportedMediaType([]string{"application/json", "application/yaml"})
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, fault.MaxRulesBytes))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return entries{}, wire.TooLargeBody(fault.MaxRulesBytes)
	} else if err != nil {
		return entries{}, wire.BadRequest("read the rules: %v", err)
	}
	rules, err := parse(text)
	if err == nil {
		err = h.Set.Add(rules...)
	}
	if err != nil {
		return entries{}, wire.BadRequest("%v", err)
	}
	return h.list()
}

// parse reads rules: as fault.Parse, or a list of rules in one line.
func parse(text []byte) ([]fault.Rule, error) {
	var lines []string
	if err := json.Unmarshal(text, &lines); err != nil || len(lines) == 0 {
		return fault.Parse(text)
	}
	rules := make([]fault.Rule, 0, len(lines))
	var wrong []error
	for _, line := range lines {
		r, err := fault.ParseShort(line)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("the rule %q: %w", line, err))
		}
		rules = append(rules, r)
	}
	return rules, errors.Join(wrong...)
}
