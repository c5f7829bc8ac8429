package wire

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/kube"
)

// ListMode is the way in which a LIST selects its revision.
type ListMode int

// The ways of serving a LIST.
const (
	ListMostRecent     ListMode = iota + 1 // consistent: wait for the store's progress
	ListAny                                // whatever the cache has
	ListNotOlderThan                       // wait (3 s) until the cache is at RV
	ListExact                              // the state at RV
	ListContinue                           // the state at the token's RV, after its key
	ListContinueLatest                     // after the token's key, at the latest revision (token with rv -1)
)

// ListPlan is the way in which one LIST is served.
type ListPlan struct {
	Mode  ListMode
	RV    kube.ResourceVersion // for NotOlderThan, Exact and Continue
	At    time.Time            // for Exact, instead of RV: the time of the state
	Start string               // for the Continue modes: the first key to return, inclusive
	Limit int64                // 0: no limit (also where the protocol says that limit is ignored)
}

// WatchStart is the beginning of a WATCH.
type WatchStart int

// The ways a WATCH starts.
const (
	// WatchInitialConsistent sends the state at a revision that is at least as
	// new as every write acknowledged before, then changes.
	WatchInitialConsistent WatchStart = iota + 1
	// WatchInitialAny sends the state that the cache has, then changes.
	WatchInitialAny
	// WatchInitialNotOlderThan waits (3 s) until the cache is at RV, sends the
	// whole state, then changes.
	WatchInitialNotOlderThan
	// WatchAfter sends the changes after RV. An RV in the future is for the server to judge: one
	// that is alone knows that it was never given out.
	WatchAfter
	// WatchFromNow sends changes after the store's current revision.
	WatchFromNow
	// WatchFromCache sends changes after the cache's current revision.
	WatchFromCache
)

// WatchPlan is the way in which one WATCH is served.
type WatchPlan struct {
	Start WatchStart
	RV    kube.ResourceVersion
	// EndBookmark says that the initial events end with the annotated bookmark.
	EndBookmark bool
	Bookmarks   bool
	// Delta says that the changes after RV may be sent instead of the state
	// (only with WatchInitialNotOlderThan; see docs/extensions.md).
	Delta bool
}

// MaxBookmarkInterval is the largest bookmarkIntervalSeconds, in seconds.
const MaxBookmarkInterval = 3600

// PlanList decides how a LIST is served. Errors: 422 for options that
// conflict, 400 for a continue token that is invalid or comes with a
// resource version.
func PlanList(o ListOptions) (ListPlan, error) {
	if errs := checkList(o); len(errs) > 0 {
		return ListPlan{}, invalidOptions(errs)
	}
	switch {
	case !o.At.IsZero():
		return ListPlan{Mode: ListExact, At: o.At, Limit: o.Limit}, nil
	case o.Continue != "":
		return planContinue(o)
	case o.ResourceVersion == "":
		return ListPlan{Mode: ListMostRecent, Limit: o.Limit}, nil
	case o.RV == 0:
		// The limit is ignored: apiserver cacher.go computeListLimit.
		return ListPlan{Mode: ListAny}, nil
	case o.Match == MatchExact, o.Match == MatchUnset && o.Limit > 0:
		return ListPlan{Mode: ListExact, RV: o.RV, Limit: o.Limit}, nil
	}
	return ListPlan{Mode: ListNotOlderThan, RV: o.RV, Limit: o.Limit}, nil
}

func planContinue(o ListOptions) (ListPlan, error) {
	rv, start, err := DecodeContinue(o.Continue)
	if err != nil {
		return ListPlan{}, err
	}
	if o.RV != 0 {
		return ListPlan{}, BadRequest("specifying resource version is not allowed when using continue")
	}
	if rv < 0 {
		return ListPlan{Mode: ListContinueLatest, Start: start, Limit: o.Limit}, nil
	}
	return ListPlan{Mode: ListContinue, RV: kube.ResourceVersion(rv), Start: start, Limit: o.Limit}, nil
}

// checkList has the rules and texts of apimachinery
// pkg/apis/meta/internalversion/validation.
func checkList(o ListOptions) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("resourceVersionMatch")
	if o.Match != MatchUnset {
		if o.ResourceVersion == "" {
			errs = append(errs, field.Forbidden(at, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
		}
		if o.Continue != "" {
			errs = append(errs, withContinue(at))
		}
		if o.Match != MatchExact && o.Match != MatchNotOlderThan {
			errs = append(errs, field.NotSupported(at, o.Match, []Match{MatchExact, MatchNotOlderThan, MatchUnset}))
		}
		if o.Match == MatchExact && o.ResourceVersion != "" && o.RV == 0 {
			errs = append(errs, field.Forbidden(at, `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`))
		}
	}
	if o.InitialEvents != nil {
		errs = append(errs, field.Forbidden(field.NewPath("sendInitialEvents"), "sendInitialEvents is forbidden for list"))
	}
	if o.Delta {
		errs = append(errs, field.Forbidden(field.NewPath("gaplessDelta"), "gaplessDelta is forbidden for list"))
	}
	if !o.At.IsZero() && (o.ResourceVersion != "" || o.Match != MatchUnset || o.Continue != "") {
		errs = append(errs, field.Forbidden(field.NewPath("at"), "at is forbidden with resourceVersion and with continue"))
	}
	return errs
}

// PlanWatch decides how a WATCH is served. Errors: 422 for options
// that conflict. limit is ignored, and so is continue with a
// resourceVersion and no match.
func PlanWatch(o ListOptions) (WatchPlan, error) {
	initial := o.InitialEvents
	if initial == nil && o.Match == MatchUnset && o.RV == 0 {
		// The default: such a watch always began with the state; now it says so. That
		// implies a match, with which continue does not go (seen on the reference server).
		if o.Continue != "" {
			return WatchPlan{}, invalidOptions(field.ErrorList{withContinue(field.NewPath("resourceVersionMatch"))})
		}
		yes := true
		initial = &yes
	} else if errs := checkWatch(o); len(errs) > 0 {
		return WatchPlan{}, invalidOptions(errs)
	}
	if errs := checkExtensions(o, initial != nil && *initial); len(errs) > 0 {
		return WatchPlan{}, invalidOptions(errs)
	}
	p := WatchPlan{RV: o.RV, Bookmarks: o.Bookmarks}
	if initial != nil && *initial {
		p.EndBookmark = o.Bookmarks
		switch {
		case o.ResourceVersion == "":
			p.Start = WatchInitialConsistent
		case o.RV == 0:
			p.Start = WatchInitialAny
		default:
			p.Start = WatchInitialNotOlderThan
			p.Delta = o.Delta
		}
		return p, nil
	}
	switch {
	case o.ResourceVersion == "":
		p.Start = WatchFromNow
	case o.RV == 0:
		p.Start = WatchFromCache
	default:
		p.Start = WatchAfter
	}
	return p, nil
}

// checkWatch has the rules and texts of apimachinery
// pkg/apis/meta/internalversion/validation.
func checkWatch(o ListOptions) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("resourceVersionMatch")
	if o.InitialEvents != nil && o.Match != MatchNotOlderThan {
		errs = append(errs, field.Forbidden(at, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
	}
	if o.Match == MatchUnset {
		return errs
	}
	if o.InitialEvents == nil {
		errs = append(errs,
			field.Forbidden(at, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
	}
	if o.Match != MatchNotOlderThan {
		errs = append(errs, field.NotSupported(at, o.Match, []Match{MatchNotOlderThan}))
	}
	if o.Continue != "" {
		errs = append(errs, withContinue(at))
	}
	return errs
}

// checkExtensions has the rules of our own options. initial says that the watch
// begins with the state. A delta needs the bookmark at the end of the initial
// events, because it is what tells it from the state.
func checkExtensions(o ListOptions, initial bool) field.ErrorList {
	var errs field.ErrorList
	if n := o.BookmarkInterval; n != nil && (*n < 1 || *n > MaxBookmarkInterval) {
		errs = append(errs,
			field.Invalid(field.NewPath("bookmarkIntervalSeconds"), *n,
				fmt.Sprintf("must be between 1 and %d", MaxBookmarkInterval)))
	}
	if !o.At.IsZero() {
		errs = append(errs, field.Forbidden(field.NewPath("at"), "at is forbidden for watch"))
	}
	if o.Delta && !initial {
		errs = append(errs, field.Forbidden(field.NewPath("gaplessDelta"), "gaplessDelta requires sendInitialEvents=true"))
	}
	if o.Delta && !o.Bookmarks {
		errs = append(errs, field.Forbidden(field.NewPath("gaplessDelta"), "gaplessDelta requires allowWatchBookmarks=true"))
	}
	return errs
}

func invalidOptions(errs field.ErrorList) error {
	return Invalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", errs)
}

func withContinue(at *field.Path) *field.Error {
	return field.Forbidden(at, "resourceVersionMatch is forbidden when continue is provided")
}
