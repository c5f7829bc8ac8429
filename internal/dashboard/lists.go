package dashboard

import (
	"cmp"
	"errors"
	"net/url"
	"strconv"

	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// listedAtOnce is how many objects of one moment are asked for at once.
const listedAtOnce = 250

// listed is a page of a list as it was at a moment.
type listed struct {
	Metadata struct {
		Continue           string
		RemainingItemCount int64
	}
	Items []object
}

// last is the key of the last object; "": there is none.
func (l *listed) last() string {
	if len(l.Items) == 0 {
		return ""
	}
	return keyOf(l.Items[len(l.Items)-1])
}

// lists compares the lists of both moments from a place on, and returns where the next page begins; the zero value: it
// is done. It takes time linear in the lists, of which it holds a page each.
func (c *comparing) lists(t Resource, at place) (place, error) {
	var old, now *listed
	from := c.page.From
	if at.Since > 0 {
		from = past.Moment{RV: kube.ResourceVersion(at.Since)}
	}
	for first := true; !at.OldEnded || !at.NewEnded; first = false {
		if !first && c.page.full() {
			return at, nil
		}
		var err error
		if old == nil && !at.OldEnded {
			if old, err = c.list(t, from, at.Old, at.Key); err != nil {
				return place{}, err
			}
		}
		if now == nil && !at.NewEnded {
			if now, err = c.list(t, c.page.To, at.New, at.Key); err != nil {
				return place{}, err
			}
		}
		upTo, bounded := known(old, now)
		if stopped := c.merge(t, &at, [2]*listed{old, now}, upTo); stopped {
			return at, nil
		}
		if bounded {
			at.Key = upTo
		}
		c.page.Left = 0
		for _, l := range []*listed{old, now} {
			if l != nil {
				c.page.Left = max(c.page.Left, l.Metadata.RemainingItemCount)
			}
		}
		at.Old, at.OldEnded, old = beyond(old, upTo, at.Old, at.OldEnded)
		at.New, at.NewEnded, now = beyond(now, upTo, at.New, at.NewEnded)
	}
	return place{}, nil
}

// known returns the last key up to which both pages have all objects; false: they have all that there are.
func known(pages ...*listed) (upTo string, bounded bool) {
	for _, l := range pages {
		if l != nil && l.Metadata.Continue != "" && (!bounded || l.last() < upTo) {
			upTo, bounded = l.last(), true
		}
	}
	return upTo, bounded
}

// beyond returns how a list goes on after its objects up to a key were compared, "" for all: its token, whether it has
// ended, and the page if that has more.
func beyond(l *listed, upTo, token string, ended bool) (string, bool, *listed) {
	switch {
	case l == nil:
		return token, ended, nil
	case upTo != "" && l.last() > upTo:
		return token, false, l
	case l.Metadata.Continue == "":
		return "", true, nil
	}
	return l.Metadata.Continue, false, nil
}

// merge compares the objects of two pages behind a place, up to a key, "" for all. It moves the place, and reports whether
// the page has no room for more.
func (c *comparing) merge(t Resource, at *place, pages [2]*listed, upTo string) (stopped bool) {
	next := [2]int{}
	for {
		var key string
		var of [2]object
		for i, l := range pages {
			if l == nil {
				continue
			}
			for next[i] < len(l.Items) && keyOf(l.Items[next[i]]) <= at.Key {
				next[i]++ // it is compared
			}
			if next[i] == len(l.Items) {
				continue
			}
			of[i] = l.Items[next[i]]
			if own := keyOf(of[i]); key == "" || own < key {
				key = own
			}
		}
		if key == "" || upTo != "" && key > upTo {
			return false
		}
		if c.page.crowded() {
			return true
		}
		for i := range of {
			if of[i] != nil && keyOf(of[i]) != key {
				of[i] = nil
			}
		}
		at.Key = key
		c.page.add(t, c.shown(t, pair{before: of[0], after: of[1]}))
	}
}

// shown gives both states their kind, which items of lists do not have, and hides the data of a Secret.
func (c *comparing) shown(t Resource, of pair) pair {
	version := t.Version
	if t.Group != "" {
		version = t.Group + "/" + t.Version
	}
	mask := past.NewMasker()
	for _, o := range []*object{&of.before, &of.after} {
		if *o == nil {
			continue
		}
		(*o)["kind"], (*o)["apiVersion"] = t.Kind, version
		if t.isSecret() {
			*o = masked(mask, *o)
		}
	}
	return of
}

// errOrder is the error of lists that are not in the order of keys: they cannot be compared.
var errOrder = errors.New("its lists are not in the order of keys, and are not compared")

// list asks for a page of the objects at a moment: the first one, or that of a token. Those behind a key are compared.
func (c *comparing) list(t Resource, m past.Moment, token, behind string) (*listed, error) {
	query := url.Values{"limit": {strconv.Itoa(listedAtOnce)}}
	if c.page.Filters.Label != "" {
		query.Set("labelSelector", c.page.Filters.Label)
	}
	switch {
	case token != "":
		query.Set("continue", token)
	case m.RV != 0:
		newest := cmp.Or(t.Reached, c.of.cfg.Newest())
		query.Set("resourceVersion", strconv.FormatUint(min(uint64(m.RV), newest), 10))
		query.Set("resourceVersionMatch", "Exact")
	default:
		bound(query, m, "", "at")
	}
	var page listed
	size, err := c.of.read(c.r, t.path(c.page.Filters.Namespace, "")+"?"+query.Encode(), mediaJSON, &page)
	c.page.read += size
	switch {
	case err != nil:
		return nil, err
	case len(page.Items) == 0:
		page.Metadata.Continue = ""
	case page.Metadata.Continue != "" && page.last() <= behind:
		return nil, errOrder
	}
	return &page, nil
}
