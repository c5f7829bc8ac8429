package wire

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/kube"
)

// Moment is a state of the past: the one at a resourceVersion, or at a time. The zero value is none.
type Moment struct {
	RV kube.ResourceVersion
	At time.Time
}

// IsZero reports whether it is none.
func (m Moment) IsZero() bool { return m.RV == 0 && m.At.IsZero() }

// ParseMoment reads which state of the past a GET of one object asks for, by at or by resourceVersion with
// resourceVersionMatch=Exact; zero: not the past. Upstream ignores resourceVersionMatch there. Errors: 400, 422.
func ParseMoment(q url.Values) (m Moment, err error) {
	rv, match := q.Get("resourceVersion"), Match(q.Get("resourceVersionMatch"))
	if m.At, err = parseTime(q, "at"); err != nil {
		return Moment{}, err
	}
	if match == MatchExact {
		if m.RV, err = kube.ParseResourceVersion(rv); err != nil {
			return Moment{}, BadRequest("invalid resource version: %v", err)
		}
	}
	var errs field.ErrorList
	if !m.At.IsZero() && (rv != "" || match != MatchUnset) {
		errs = append(errs, field.Forbidden(field.NewPath("at"), "at is forbidden with resourceVersion"))
	}
	if match == MatchExact && m.RV == 0 {
		errs = append(errs, field.Forbidden(field.NewPath("resourceVersionMatch"),
			`resourceVersionMatch "exact" is forbidden unless a resourceVersion other than "0" is provided`))
	}
	if len(errs) > 0 {
		return Moment{}, invalidOptions(errs)
	}
	return m, nil
}

// parseTime reads a parameter that is a time, zero when it is not given. Errors: 400.
func parseTime(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text) // with fractions, too
	if err != nil {
		return time.Time{}, BadRequest("%s is %.100q: expected a time as in RFC 3339, like 2026-11-25T14:00:00Z", name, text)
	}
	if epoch := time.Unix(0, 0).UTC(); at.Before(epoch) {
		return epoch, nil // nothing was there in either; the zero time would be none
	}
	return at, nil
}

// FutureTime is the error of who asks by a parameter for the state at a time that has not come: 422.
func FutureTime(parameter string, at, now time.Time) error {
	return invalidOptions(field.ErrorList{field.Invalid(field.NewPath(parameter), at.Format(time.RFC3339Nano),
		"is in the future: by the clock of the server it is "+now.UTC().Format(time.RFC3339Nano))})
}

// Bounds of how many changes a page has.
const (
	defaultChanges = 500
	maxChanges     = 5000
)

// ChangesOptions are the parsed query of a request for changes (docs/extensions.md).
type ChangesOptions struct {
	ListOptions // its selectors count, and its Limit, which is not 0

	After, UpTo Moment // zero: as far back as history goes; now
	Newest      bool   // the newest change is the first one
	Previous    bool   // the object before each change is required
	Token       ChangesToken
}

// ChangesToken is the place in a history at which the next page begins. The zero value is none.
type ChangesToken struct {
	Version string `json:"v"`
	After   int64  `json:"after"` // revisions, or positions of a mirror
	UpTo    int64  `json:"upTo"`
	Newest  bool   `json:"newest,omitempty"`
	History uint64 `json:"history,omitempty"` // see List.History
}

const changesTokenVersion = "gapless.io/changes/v1"

// Made returns the token of a place, which is not zero.
func (t ChangesToken) Made() ChangesToken {
	t.Version = changesTokenVersion
	return t
}

// Encode returns a token as text.
func (t ChangesToken) Encode() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic("wire: a token that cannot be encoded: " + err.Error()) // numbers can always be encoded
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// IsZero reports whether it is none.
func (t ChangesToken) IsZero() bool { return t.Version == "" }

// decodeChangesToken reads a token. Errors: 400.
func decodeChangesToken(text string) (t ChangesToken, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil || t.Version != changesTokenVersion || t.After < 0 || t.UpTo <= t.After {
		return ChangesToken{}, BadRequest("invalid continue token: it is none of a page of changes")
	}
	return t, nil
}

// AsksForChanges reports whether a query asks for changes instead of objects.
func AsksForChanges(q url.Values) bool { return q.Has("changes") }

// ParseChangesOptions reads the query of a request for changes. Errors: 400, 422.
func ParseChangesOptions(q url.Values) (ChangesOptions, error) {
	list, err := ParseListOptions(q, false)
	o := ChangesOptions{ListOptions: list, Previous: !q.Has("previous") || ParseBool(q, "previous")}
	if err != nil {
		return ChangesOptions{}, err
	}
	switch order := q.Get("changes"); order {
	case "NewestFirst":
		o.Newest = true
	case "OldestFirst":
	default:
		return ChangesOptions{}, BadRequest("changes is %.100q: expected NewestFirst or OldestFirst", order)
	}
	if o.After, err = parseBound(q, "after", "since"); err != nil {
		return ChangesOptions{}, err
	}
	if o.UpTo, err = parseBound(q, "upTo", "until"); err != nil {
		return ChangesOptions{}, err
	}
	if o.Limit == 0 {
		o.Limit = defaultChanges
	}
	o.Limit = min(o.Limit, maxChanges)
	if o.Continue != "" {
		if o.Token, err = decodeChangesToken(o.Continue); err != nil {
			return ChangesOptions{}, err
		}
	}
	return o, o.check()
}

// parseBound reads one end of a range of changes, which is a resourceVersion or a time.
func parseBound(q url.Values, rv, at string) (m Moment, err error) {
	if m.RV, err = kube.ParseResourceVersion(q.Get(rv)); err != nil {
		return Moment{}, BadRequest("invalid %s: %v", rv, err)
	}
	if m.At, err = parseTime(q, at); err != nil {
		return Moment{}, err
	}
	if m.RV != 0 && !m.At.IsZero() {
		return Moment{}, invalidOptions(field.ErrorList{
			field.Forbidden(field.NewPath(at), at+" is forbidden with "+rv),
		})
	}
	return m, nil
}

func (o *ChangesOptions) check() error {
	var errs field.ErrorList
	forbid := func(name string, given bool, why string) {
		if given {
			errs = append(errs, field.Forbidden(field.NewPath(name), name+" is forbidden "+why))
		}
	}
	forbid("resourceVersion", o.ResourceVersion != "", "for changes: use after and upTo")
	forbid("resourceVersionMatch", o.Match != MatchUnset, "for changes")
	forbid("at", !o.At.IsZero(), "for changes: use since and until")
	forbid("shardSelector", o.Shard != "", "for changes")
	forbid("sendInitialEvents", o.InitialEvents != nil, "for changes")
	forbid("gaplessDelta", o.Delta, "for changes")
	forbid("continue", o.Continue != "" && (!o.After.IsZero() || !o.UpTo.IsZero()), "with after, since, upTo and until")
	forbid("continue", !o.Token.IsZero() && o.Token.Newest != o.Newest, "with another order of changes")
	if o.After.RV > o.UpTo.RV && o.UpTo.RV != 0 {
		errs = append(errs, field.Invalid(field.NewPath("after"), o.After.RV, "must not be larger than upTo"))
	}
	if o.After.At.After(o.UpTo.At) && !o.UpTo.At.IsZero() {
		errs = append(errs,
			field.Invalid(field.NewPath("since"), o.After.At.Format(time.RFC3339Nano), "must not be later than until"))
	}
	if len(errs) > 0 {
		return invalidOptions(errs)
	}
	return nil
}

// Reversed is the error of who asks for the changes after a resourceVersion up to an earlier time, or the other way
// round, which is known only when the time has been looked up: 422.
func (o *ChangesOptions) Reversed() error {
	from, to := "after", "until"
	if !o.After.At.IsZero() {
		from, to = "since", "upTo"
	}
	return invalidOptions(field.ErrorList{
		field.Forbidden(field.NewPath(from), from+" is forbidden where it is later than "+to),
	})
}

// Change is one change of an object, for somebody with a selection: an object that enters it by the change is Added,
// one that leaves it is Deleted.
type Change struct {
	WatchEvent

	Time time.Time // when the server committed it, or, if another one did, saw it
	// Previous is the object before a Modified, if it was asked for.
	Previous *Object
}

// Changes is a page of changes, in the order that was asked for.
type Changes struct {
	Items []Change
	// After and UpTo are what the page covers: it has all changes of the selection in between.
	After, UpTo kube.ResourceVersion
	// Gaps are parts of that of which only the difference is known.
	Gaps []Gap
	// Next is where the next page begins; zero: there is none.
	Next ChangesToken
}

// Gap is a part of a history between two states that are known, while none in between is.
type Gap struct{ After, UpTo kube.ResourceVersion }
