package wire

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/kube"
)

// Match is the resourceVersionMatch of a request.
type Match string

// The values of resourceVersionMatch.
const (
	MatchUnset        Match = ""
	MatchExact        Match = "Exact"
	MatchNotOlderThan Match = "NotOlderThan"
)

// ListOptions are the parsed and validated query parameters of LIST and WATCH.
type ListOptions struct {
	Labels labels.Selector // never nil
	Fields fields.Selector // never nil
	// ResourceVersion is the text of the query ("" unset, "0" any) and RV its number.
	ResourceVersion string
	RV              kube.ResourceVersion
	Match           Match
	Limit           int64 // 0: no limit
	Continue        string
	Watch           bool
	Bookmarks       bool  // allowWatchBookmarks
	InitialEvents   *bool // sendInitialEvents; nil: not given
	// TimeoutSeconds is nil when not given; it always fits a time.Duration.
	TimeoutSeconds *int64
	// Shard is the text of shardSelector (KEP-5866), "" when not given.
	Shard string
	// BookmarkInterval (seconds) and Delta are extensions of gapless for watches, see
	// docs/extensions.md: bookmarkIntervalSeconds, nil when not given, and
	// gaplessDelta. PlanWatch checks them.
	BookmarkInterval *int64
	Delta            bool
	// At is another one, for lists: the state at a time. Zero: not given.
	At time.Time
}

// BookmarkEvery returns how often the client wants a bookmark, or otherwise if
// it does not say. The options must have passed PlanWatch.
func (o ListOptions) BookmarkEvery(otherwise time.Duration) time.Duration {
	if o.BookmarkInterval == nil {
		return otherwise
	}
	return time.Duration(*o.BookmarkInterval) * time.Second
}

// ParseListOptions reads the query of a LIST or WATCH. watch means that the path
// requests a watch, whatever the parameter says. Only the first value of a
// parameter counts and unknown ones are ignored, as upstream does. Errors are 400
// with upstream's texts. PlanList and PlanWatch check the combination of
// parameters; which fields can be selected by is the resource's to say.
func ParseListOptions(q url.Values, watch bool) (ListOptions, error) {
	o := ListOptions{
		ResourceVersion: q.Get("resourceVersion"),
		Match:           Match(q.Get("resourceVersionMatch")),
		Continue:        q.Get("continue"),
		Watch:           watch || ParseBool(q, "watch"),
		Bookmarks:       ParseBool(q, "allowWatchBookmarks"),
		Shard:           q.Get("shardSelector"),
		Delta:           ParseBool(q, "gaplessDelta"),
	}
	if q.Has("sendInitialEvents") {
		send := ParseBool(q, "sendInitialEvents")
		o.InitialEvents = &send
	}
	var err error
	if o.Watch {
		o.BookmarkInterval, err = parseInt(q, "bookmarkIntervalSeconds")
	} else {
		_, err = ParseTimeout(q)
	}
	if err != nil {
		return ListOptions{}, err
	}
	if o.TimeoutSeconds, err = parseInt(q, "timeoutSeconds"); err != nil {
		return ListOptions{}, err
	}
	if o.TimeoutSeconds != nil {
		const most = int64(math.MaxInt64 / time.Second)
		*o.TimeoutSeconds = max(-most, min(most, *o.TimeoutSeconds))
	}
	limit, err := parseInt(q, "limit")
	if err != nil {
		return ListOptions{}, err
	}
	if limit != nil {
		o.Limit = max(0, *limit)
	}
	if o.Labels, err = parseLabels(q.Get("labelSelector")); err != nil {
		return ListOptions{}, err
	}
	if o.Fields, err = fields.ParseSelector(q.Get("fieldSelector")); err != nil {
		return ListOptions{}, badRequest(err)
	}
	if o.RV, err = kube.ParseResourceVersion(o.ResourceVersion); err != nil {
		return ListOptions{}, BadRequest("invalid resource version: %v", err)
	}
	o.At, err = parseTime(q, "at")
	return o, err
}

// parseLabels reads a label selector. Upstream's lexer takes a zero byte for the
// end, so that what is behind it would select nothing away. Errors: 400.
func parseLabels(text string) (labels.Selector, error) {
	if strings.ContainsRune(text, 0) {
		return nil, BadRequest("unable to parse requirement: found a zero byte, expected: identifier")
	}
	sel, err := labels.Parse(text)
	if err != nil {
		return nil, badRequest(err)
	}
	return sel, nil
}

// ParseBool reads a boolean parameter as Kubernetes does: absent, "0" and "false"
// (in any case) are false, everything else is true, also the empty value
// (apimachinery pkg/runtime/conversion.go).
func ParseBool(q url.Values, name string) bool {
	values := q[name]
	return len(values) > 0 && values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// ParseTimeout reads the parameter timeout, the deadline of a request that is not
// a watch: 0 when it is not given. Errors: 400.
func ParseTimeout(q url.Values) (time.Duration, error) {
	text := q.Get("timeout")
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, BadRequest("invalid timeout specified in the request URL - %v", err)
	}
	return d, nil
}

// parseInt reads an integer parameter, nil when it is not given.
func parseInt(q url.Values, name string) (*int64, error) {
	if !q.Has(name) {
		return nil, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil {
		return nil, badRequest(err)
	}
	return &n, nil
}
