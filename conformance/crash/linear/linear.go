// Package linear decides whether a history of operations on single objects is
// linearizable: whether every operation can have taken effect at one moment
// between its call and its return, so that all results follow.
//
// An [Op] is one operation, as its client saw it; what got no answer may take effect at any
// time after its call and before its server was killed, or never. A [History] is the
// operations of one run, which can be saved and checked again.
package linear

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is what an operation does.
type Kind string

// The operations on an object. Update and DeleteIf carry a resourceVersion that
// must be the present one.
const (
	Get      Kind = "get"
	Create   Kind = "create"
	Update   Kind = "update"
	Replace  Kind = "replace"
	Delete   Kind = "delete"
	DeleteIf Kind = "deleteIf"
)

// Result is what the client of an operation received.
type Result string

// The results. Exists, Conflict and NotFound say that nothing was done.
const (
	OK       Result = "ok"
	Exists   Result = "exists"
	Conflict Result = "conflict"
	NotFound Result = "notFound"
	Unknown  Result = "unknown"
)

// Op is one operation. Times are nanoseconds since the run began.
type Op struct {
	Client int    `json:"client"`
	Key    string `json:"key"`
	Kind   Kind   `json:"kind"`
	// If and IfValue are the precondition: the resourceVersion, and what its object
	// had contained.
	If      int64  `json:"if,omitempty"`
	IfValue int64  `json:"ifValue,omitempty"`
	Value   int64  `json:"value,omitempty"` // what it writes, or what a get returned; no two writes have the same
	RV      int64  `json:"rv,omitempty"`    // of the object in the answer
	Result  Result `json:"result"`
	Call    int64  `json:"call"`
	// Return of an operation with an unknown result is when its server was killed: a
	// request dies with it. 0 is the end of the history.
	Return int64 `json:"return,omitempty"`
}

// History is what is saved of a run.
type History struct {
	Seed uint64 `json:"seed"`
	Note string `json:"note,omitempty"`
	Ops  []Op   `json:"ops"`
}

// object is the model's state of one key. It is compared with ==.
type object struct {
	exists bool
	value  int64
	// rv is the object's resourceVersion if exact is set; otherwise, the largest that
	// is known to be below it. An object that does not exist keeps its last one.
	rv    int64
	exact bool
}

// matches reports whether a precondition is met.
func (o object) matches(op Op) bool { return o.exists && o.value == op.IfValue && o.agrees(op.If) }

// agrees reports whether the object may be at a resourceVersion.
func (o object) agrees(rv int64) bool { return o.exact && o.rv == rv || !o.exact && o.rv < rv }

// steps is the model: the states in which an operation on an object in a state can
// leave it with that result.
func steps(o object, op Op) []any {
	if op.Result == Unknown {
		if after := unanswered(o, op); after != o {
			return []any{o, after}
		}
		return []any{o}
	}
	if ok, after := step(o, op); ok {
		return []any{after}
	}
	return nil
}

// step is steps for an operation that was answered.
func step(o object, op Op) (bool, object) {
	written := object{exists: true, value: op.Value, rv: op.RV, exact: true}
	ended := object{rv: max(o.rv, op.If)}
	switch op.Kind {
	case Get:
		if op.Result == NotFound {
			return !o.exists, o
		}
		return op.Result == OK && o.exists && o.value == op.Value && o.agrees(op.RV), written
	case Create:
		if op.Result == Exists {
			return o.exists, o
		}
		return op.Result == OK && !o.exists && op.RV > o.rv, written
	case Update, DeleteIf:
		switch {
		case op.Result == NotFound:
			return !o.exists, o
		case op.Result == Conflict:
			return o.exists && !o.matches(op), o
		case op.Kind == DeleteIf:
			return op.Result == OK && o.matches(op), ended
		}
		return op.Result == OK && o.matches(op) && op.RV > max(o.rv, op.If), written
	case Replace, Delete:
		switch op.Result { //nolint:exhaustive // the others are below
		case NotFound:
			return !o.exists, o
		case Conflict: // the server gave up: another write was faster each time
			return true, o
		}
		if op.Kind == Delete {
			return op.Result == OK && o.exists, ended
		}
		return op.Result == OK && o.exists && op.RV > o.rv, written
	}
	return false, o
}

// unanswered is the state after an operation with an unknown result, if it took
// effect.
func unanswered(o object, op Op) object {
	written := object{exists: true, value: op.Value, rv: o.rv}
	switch {
	case op.Kind == Create && !o.exists, op.Kind == Replace && o.exists:
		return written
	case op.Kind == Update && o.matches(op):
		written.rv = max(o.rv, op.If)
		return written
	case op.Kind == DeleteIf && o.matches(op), op.Kind == Delete && o.exists:
		return object{rv: max(o.rv, op.If)}
	}
	return o
}

func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			var keys []string
			for _, o := range history {
				key := o.Input.(Op).Key
				if byKey[key] == nil {
					keys = append(keys, key)
				}
				byKey[key] = append(byKey[key], o)
			}
			slices.Sort(keys)
			var parts [][]porcupine.Operation
			for _, key := range keys {
				parts = append(parts, byKey[key])
			}
			return parts
		},
		Init:              func() []any { return []any{object{}} },
		Step:              func(state, input, _ any) []any { return steps(state.(object), input.(Op)) },
		DescribeOperation: func(input, _ any) string { return input.(Op).String() },
		DescribeState:     func(state any) string { return state.(object).String() },
	}
	return m.ToModel()
}

// String is for the picture of a history.
func (op Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", op.Kind, op.Key)
	if op.Kind != Get && op.Value != 0 {
		fmt.Fprintf(&b, " := %d", op.Value)
	}
	if op.If != 0 {
		fmt.Fprintf(&b, " if at %d", op.If)
	}
	fmt.Fprintf(&b, " → %s", op.Result)
	if op.Kind == Get && op.Result == OK {
		fmt.Fprintf(&b, " %d", op.Value)
	}
	if op.RV != 0 {
		fmt.Fprintf(&b, " at %d", op.RV)
	}
	return b.String()
}

// String is for the picture of a history.
func (o object) String() string {
	switch {
	case !o.exists:
		return fmt.Sprintf("none, last at %d", o.rv)
	case o.exact:
		return fmt.Sprintf("%d at %d", o.value, o.rv)
	}
	return fmt.Sprintf("%d after %d", o.value, o.rv)
}

// Verdict is what a check found. Draw writes it as a web page.
type Verdict struct {
	Result porcupine.CheckResult
	info   porcupine.LinearizationInfo
}

// Check decides about a history, within a limit of time; then the verdict is
// porcupine.Unknown.
func (h History) Check(limit time.Duration) Verdict {
	var last int64
	for _, op := range h.Ops {
		last = max(last, op.Call, op.Return)
	}
	operations := make([]porcupine.Operation, 0, len(h.Ops))
	for _, op := range h.Ops {
		if op.Result == Unknown {
			if op.Kind == Get { // it says nothing
				continue
			}
			if op.Return == 0 {
				op.Return = last + 1
			}
		}
		operations = append(operations, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: op.Return})
	}
	result, info := porcupine.CheckOperationsVerbose(model(), operations, limit)
	return Verdict{Result: result, info: info}
}

// Draw writes the history, and how far it could be ordered, as a web page.
func (v Verdict) Draw(path string) error { return porcupine.VisualizePath(model(), v.info, path) }

// Save writes a history to a file.
func (h History) Save(path string) error {
	raw, err := json.MarshalIndent(h, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// Load reads what Save wrote.
func Load(path string) (History, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return History{}, err
	}
	var h History
	if err := json.Unmarshal(raw, &h); err != nil {
		return History{}, fmt.Errorf("read the history %s: %w", path, err)
	}
	return h, nil
}
