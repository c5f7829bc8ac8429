package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/gapless-io/gapless/internal/past"
)

// comparing compares resources for a page.
type comparing struct {
	of   *Dashboard
	r    *http.Request
	page *betweenPage
}

// resource compares a resource from a place on, and returns where the next page begins; the zero value: it is done.
func (c *comparing) resource(t Resource, from place) (place, error) {
	if from.Lists {
		return c.lists(t, from)
	}
	list, since, err := c.changes(t)
	if err != nil || list == nil {
		return place{}, err
	}
	if list.Metadata.Continue == "" {
		return c.net(t, list, from), nil
	}
	return c.lists(t, place{ID: from.ID, Lists: true, Since: since})
}

// changes asks for what changed of a resource. since is where its history begins, if that is after the first moment.
func (c *comparing) changes(t Resource) (list *changes, since uint64, err error) {
	p := c.page
	query := url.Values{"changes": {"OldestFirst"}, "limit": {strconv.Itoa(betweenChanges)}}
	bound(query, p.From, "after", "since")
	bound(query, p.To, "upTo", "until")
	if p.Filters.Label != "" {
		query.Set("labelSelector", p.Filters.Label)
	}
	in := selection{Of: t, Namespace: p.Filters.Namespace}
	list, err = c.of.changes(c.r, in, maps.Clone(query), mediaJSON)
	if isRefused(err, http.StatusGone) {
		query.Del("after")
		query.Del("since")
		if list, err = c.of.changes(c.r, in, query, mediaJSON); err == nil && list != nil {
			since = number(list.After)
		}
	}
	if err != nil || list == nil {
		return nil, 0, err
	}
	since = max(since, list.beginning())
	if since > 0 {
		p.Problems = append(p.Problems, fmt.Sprintf(
			"%s: its history begins at %d, and what was before is not compared", t.ID(), since))
	}
	p.read += list.size
	return list, since, nil
}

// beginning returns the resourceVersion of the state with which a relay, or a replica, began; 0: it is not in the page.
func (l *changes) beginning() uint64 {
	if len(l.Gaps) > 0 && number(l.Gaps[0].After) == 0 {
		return number(l.Gaps[0].UpTo)
	}
	return 0
}

// net compares the states before and after changes, in the order of keys.
func (c *comparing) net(t Resource, list *changes, from place) place {
	of := map[string]*pair{}
	for i := range list.Items {
		change := &list.Items[i]
		before, after := change.states()
		if change.Type == "ADDED" && change.RV() <= list.beginning() {
			before = after // it was there
		}
		key := keyOf(change.Object)
		o := of[key]
		if o == nil {
			o = &pair{before: before}
			of[key] = o
		}
		if o.after, o.deletion = after, ""; after == nil {
			o.deletion = change.ResourceVersion
		}
	}
	last := from.Key
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if key <= from.Key {
			continue
		}
		if c.page.crowded() {
			return place{ID: from.ID, Key: last}
		}
		c.page.add(t, *of[key])
		last = key
	}
	return place{}
}

// keyOf is where an object is in lists: they are in the order of keys, byte by byte.
func keyOf(o object) string {
	namespace, name := past.Text(o, "metadata", "namespace"), past.Text(o, "metadata", "name")
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
