package fault

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind describes the actions of a name.
type Kind struct {
	// Name is that of the action in rules as text, and of its section in docs/faults.md.
	Name string
	// Verbs are those of requests that the action can do something to; nil means all.
	Verbs []string

	decode func(with []byte) (Action, error)
	is     func(Action) bool
	check  func(Action, *Rule, host) error
}

// Kinds returns the kinds of actions: a new one is added here.
func Kinds() []Kind {
	return []Kind{
		kind("gone", (*Gone).check, "list", "watch"),
		kind("expired-continue", (*ExpiredContinue).check, "list"),
		kind("too-large-resource-version", (*TooLarge).check, "list", "watch"),
		kind("short-history", (*ShortHistory).check, "watch"),
		kind("short-watch", (*ShortWatch).check, "watch"),
		kind("cut", (*Cut).check),
		kind("silence", (*Silence).check),
		kind("no-bookmarks", (*NoBookmarks).check, "watch"),
		kind("no-initial-events-end", (*NoInitialEventsEnd).check, "watch"),
		kind("early-bookmark", (*EarlyBookmark).check, "watch"),
		kind("duplicate", (*Duplicate).check, "watch"),
		kind("stale", (*Stale).check, "get", "list", "watch"),
		kind("delay", (*Delay).check),
		kind("throttle", (*Throttle).check),
		kind("too-many-requests", (*TooManyRequests).check),
		kind("unavailable", (*Unavailable).check),
		kind("unauthorized", (*Unauthorized).check),
		kind("forbidden", (*Forbidden).check),
		kind("internal-error", (*InternalError).check),
		kind("undecodable", (*Undecodable).check, "watch"),
		kind("large-frame", (*LargeFrame).check, "watch"),
		kind("coalesce", (*Coalesce).check, "watch"),
		kind("split", (*Split).check, "watch"),
		kind("no-protobuf", (*NoProtobuf).check),
		kind("restart", (*Restart).check),
		kind("definition", (*Definition).check, "watch"),
		kind("conflict", (*Conflict).check, "update", "patch", "delete"),
		kind("store-write", (*StoreWrite).check, "create", "update", "patch", "delete", "deletecollection"),
		kind("lost-answer", (*LostAnswer).check, "get", "list", "create", "update", "patch", "delete", "deletecollection"),
	}
}

// kind describes the actions of a type.
func kind[A any, P interface {
	*A
	Action
}](name string, check func(P, *Rule, host) error, verbs ...string) Kind {
	return Kind{
		Name: name, Verbs: verbs,
		decode: func(with []byte) (Action, error) {
			action := P(new(A))
			if len(with) == 0 {
				return action, nil
			}
			return action, json.Unmarshal(with, action, strict())
		},
		is: func(a Action) bool { _, is := a.(P); return is },
		check: func(a Action, r *Rule, h host) error {
			return check(a.(P), r, h) //nolint:forcetypeassert // is has said so
		},
	}
}

// kindOf returns the kind of an action, unless it is one of the program's own.
func kindOf(a Action) (Kind, bool) {
	for _, k := range Kinds() {
		if k.is(a) {
			return k, true
		}
	}
	return Kind{}, false
}

// kindNamed returns the kind with a name.
func kindNamed(name string) (Kind, error) {
	var names []string
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("there is no action %q; the actions are %s", name, strings.Join(names, ", "))
}

// actionName returns the name of an action, for actions of the program itself that of its
// type.
func actionName(a Action) string {
	if k, known := kindOf(a); known {
		return k.Name
	}
	name := strings.TrimLeft(fmt.Sprintf("%T", a), "*")
	return strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
}

// parametersOf returns the parameters of an action as JSON; nil if it has none.
func parametersOf(a Action) (jsontext.Value, error) {
	if _, known := kindOf(a); !known {
		return nil, nil
	}
	with, err := json.Marshal(a, strict())
	if string(with) == "{}" {
		return nil, err
	}
	return with, err
}
