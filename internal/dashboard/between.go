package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gapless-io/gapless/internal/past"
)

// Bounds of what is compared between two times.
const (
	betweenChanges = 500 // of a resource
	betweenObjects = 30  // with their differences
	betweenRows    = 60  // of one difference
	betweenBytes   = 90 << 10
)

// betweenObject is an object that is not the same at two resourceVersions.
type betweenObject struct {
	ID, Kind, Namespace, Name, Class string
	A, B                             string // of its first change after the one, and its last up to the other
	Rows                             []row
	More                             int
	before, after                    object
}

type betweenPage struct {
	Filters                 filters
	After, UpTo             uint64
	Objects                 []betweenObject
	Added, Removed, Changed int
	Omitted                 int // objects without their differences
	Hidden                  int
	Problems                []string

	room int // bytes that are left for differences
}

// between shows what differs between two resourceVersions, a and b, in either order.
func (d *Dashboard) between(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	a, errA := strconv.ParseUint(q.Get("a"), 10, 64)
	b, errB := strconv.ParseUint(q.Get("b"), 10, 64)
	if errA != nil || errB != nil || a == b {
		return &Refusal{
			Code: http.StatusBadRequest, Message: "Choose two changes of the timeline: what lies between them is shown.",
		}
	}
	all, err := d.resources(r)
	if err != nil {
		return err
	}
	p := betweenPage{Filters: filtersOf(q), After: min(a, b), UpTo: max(a, b), room: betweenBytes}
	for _, t := range p.Filters.of(all) {
		found, more, err := d.differing(r, t, &p)
		switch {
		case isRefused(err, http.StatusForbidden):
			p.Hidden++
		case err != nil:
			p.Problems = append(p.Problems, t.ID()+": "+err.Error())
		case more:
			p.Problems = append(p.Problems, t.ID()+": there are more changes than are read: choose two that are closer")
		}
		p.add(found)
	}
	d.render(w, r, view{Page: "between", Code: http.StatusOK, Title: "Between two changes", Data: p})
	return nil
}

// differing returns the objects of a resource that differ, and whether there were changes that were not read.
func (d *Dashboard) differing(r *http.Request, t Resource, p *betweenPage) ([]betweenObject, bool, error) {
	query := url.Values{
		"changes": {"OldestFirst"}, "limit": {strconv.Itoa(betweenChanges)},
		"after": {strconv.FormatUint(p.After, 10)}, "upTo": {strconv.FormatUint(p.UpTo, 10)},
	}
	if p.Filters.Label != "" {
		query.Set("labelSelector", p.Filters.Label)
	}
	in := selection{Of: t, Namespace: p.Filters.Namespace}
	list, err := d.changes(r, in, query, mediaJSON)
	if isRefused(err, http.StatusGone) {
		query.Del("after")
		if list, err = d.changes(r, in, query, mediaJSON); err == nil && list != nil {
			p.Problems = append(p.Problems, t.ID()+": its history begins at "+list.After+", what was before is not compared")
		}
	}
	if err != nil || list == nil {
		return nil, false, err
	}
	var order []string
	of := map[string]*betweenObject{}
	for i := range list.Items {
		c := &list.Items[i]
		if !p.Filters.selects(c) {
			continue
		}
		key := c.Namespace() + "/" + c.Name()
		o := of[key]
		if o == nil {
			before, _ := c.states()
			o = &betweenObject{
				ID: t.ID(), Kind: t.Kind, Namespace: c.Namespace(), Name: c.Name(), before: before,
				A: past.Text(before, "metadata", "resourceVersion"),
			}
			of[key], order = o, append(order, key)
		}
		o.B = c.ResourceVersion
		_, o.after = c.states()
	}
	var found []betweenObject
	for _, key := range order {
		found = append(found, *of[key])
	}
	return found, list.Metadata.Continue != "", nil
}

// add counts objects, and compares the first ones.
func (p *betweenPage) add(found []betweenObject) {
	for i := range found {
		o := &found[i]
		switch {
		case o.before == nil && o.after == nil:
			continue
		case o.before == nil:
			o.Class, p.Added = "created", p.Added+1
		case o.after == nil:
			o.Class, p.Removed = "deleted", p.Removed+1
		case len(past.Compare(past.Quiet(o.before), past.Quiet(o.after))) == 0:
			continue
		default:
			o.Class, p.Changed = "changed", p.Changed+1
		}
		if len(p.Objects) == betweenObjects || p.room <= 0 {
			p.Omitted++
			continue
		}
		o.Rows, o.More = sideBySide(o.before, o.after, &p.room)
		if len(o.Rows) > betweenRows {
			o.More, o.Rows = o.More+len(o.Rows)-betweenRows, o.Rows[:betweenRows]
		}
		o.before, o.after = nil, nil
		p.Objects = append(p.Objects, *o)
	}
	slices.SortStableFunc(p.Objects, func(a, b betweenObject) int {
		return strings.Compare(a.Namespace+"/"+a.ID+"/"+a.Name, b.Namespace+"/"+b.ID+"/"+b.Name)
	})
}
