package dashboard

import (
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a page of the timeline.
const (
	timelineRows = 40
	// filteredChanges is how many changes of a resource are read where not all of them are shown.
	filteredChanges = 200
	// maxFilter is how many bytes of a filter count: it is in the page several times.
	maxFilter = 1000
)

// timelineRow is a change.
type timelineRow struct {
	what

	ID, Kind, Namespace, Name, RV string
	Time                          time.Time
}

type timelinePage struct {
	Filters   filters
	Kinds     []Resource
	Rows      []timelineRow
	Histogram []int
	From, To  time.Time
	Older     uint64 // the next page is before that ResourceVersion; 0: there is none
	Hidden    int    // resources that the caller may not list
	Problems  []string
}

// filters select changes.
type filters struct {
	Namespace, Kind, Label, Manager, Text string
	Before                                uint64 // 0: from now on
}

func filtersOf(q url.Values) filters {
	text := func(name string) string {
		return strings.ToValidUTF8(strings.TrimSpace(q.Get(name)[:min(len(q.Get(name)), maxFilter)]), "")
	}
	return filters{
		Namespace: text("ns"), Kind: text("kind"), Label: text("label"), Manager: text("manager"), Text: text("text"),
		Before: number(q.Get("before")),
	}
}

// Query is what selects the same changes before a resourceVersion.
func (f filters) Query(before uint64) template.URL {
	q := url.Values{}
	for name, value := range map[string]string{
		"ns": f.Namespace, "kind": f.Kind, "label": f.Label, "manager": f.Manager, "text": f.Text,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if before > 0 {
		q.Set("before", strconv.FormatUint(before, 10))
	}
	return template.URL(q.Encode()) //nolint:gosec // nothing in it needs escaping
}

// of returns the resources that are selected.
func (f filters) of(all []Resource) []Resource {
	return slices.DeleteFunc(slices.Clone(all), func(t Resource) bool {
		return f.Kind != "" && t.ID() != f.Kind || f.Namespace != "" && !t.Namespaced
	})
}

// selects reports whether a change has the manager and the text.
func (f filters) selects(c *change) bool {
	if f.Manager != "" && !strings.Contains(whatOf(c).By, f.Manager) {
		return false
	}
	if f.Text == "" || strings.Contains(c.Name(), f.Text) {
		return true
	}
	for _, o := range []object{c.Previous, c.Object} {
		if encoded, err := json.Marshal(o); err == nil && strings.Contains(string(encoded), f.Text) {
			return true
		}
	}
	return false
}

func (d *Dashboard) timeline(w http.ResponseWriter, r *http.Request) error {
	f := filtersOf(r.URL.Query())
	all, err := d.resources(r)
	if err != nil {
		return err
	}
	page := timelinePage{Filters: f, Kinds: all}
	var found []change
	var horizon uint64 // of what is older, not every resource was read
	for _, t := range f.of(all) {
		list, err := d.newest(r, t, f)
		switch {
		case isRefused(err, http.StatusForbidden):
			page.Hidden++
			continue
		case isRefused(err, http.StatusGone): // all of its history is newer
			continue
		case err != nil:
			page.Problems = append(page.Problems, t.ID()+": "+err.Error())
			continue
		case list == nil:
			continue
		}
		if list.Metadata.Continue != "" {
			horizon = max(horizon, number(list.After))
		}
		// At once, so that it does not hold the changes of all resources.
		found = slices.DeleteFunc(append(found, list.Items...), func(c change) bool { return c.RV() <= horizon })
	}
	slices.SortStableFunc(found, func(a, b change) int {
		return cmpDescending(a.RV(), b.RV())
	})
	page.Older = horizon + 1
	if horizon == 0 {
		page.Older = 0
	}
	for i := range found {
		if len(page.Rows) == timelineRows {
			page.Older = found[i].RV() + 1
			break
		}
		if c := &found[i]; f.selects(c) {
			page.Rows = append(page.Rows, rowOf(c))
		}
	}
	page.histogram()
	d.render(w, r, view{Page: "timeline", Code: http.StatusOK, Title: "Timeline", Live: f.Before == 0, Data: page})
	return nil
}

func cmpDescending(a, b uint64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// newest asks for the newest changes of a resource that filters may select.
func (d *Dashboard) newest(r *http.Request, t Resource, f filters) (*changes, error) {
	q := url.Values{"changes": {"NewestFirst"}, "limit": {strconv.Itoa(timelineRows + 1)}}
	if f.Manager != "" || f.Text != "" {
		q.Set("limit", strconv.Itoa(filteredChanges))
	}
	if f.Label != "" {
		q.Set("labelSelector", f.Label)
	}
	if f.Before > 0 {
		q.Set("upTo", strconv.FormatUint(f.Before-1, 10))
	}
	return d.changes(r, selection{Of: t, Namespace: f.Namespace}, q, mediaJSON)
}

func rowOf(c *change) timelineRow {
	return timelineRow{
		what: whatOf(c), ID: c.Of.ID(), Kind: c.Of.Kind, Namespace: c.Namespace(), Name: c.Name(), RV: c.ResourceVersion,
		Time: c.Time.UTC(),
	}
}

// histogram counts the rows along time.
func (p *timelinePage) histogram() {
	if len(p.Rows) == 0 {
		return
	}
	p.To, p.From = p.Rows[0].Time, p.Rows[len(p.Rows)-1].Time
	p.Histogram = make([]int, 60)
	span := max(p.To.Sub(p.From), time.Millisecond)
	for i := range p.Rows {
		at := int(time.Duration(len(p.Histogram)-1) * p.Rows[i].Time.Sub(p.From) / span)
		p.Histogram[min(max(at, 0), len(p.Histogram)-1)]++
	}
}
