package dashboard

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/past"
)

// Bounds of a page of what differs between two moments. What does not fit is on the next one.
const (
	betweenChanges = 500      // of a resource: with more, its lists are compared
	betweenObjects = 30       // with their differences
	betweenRows    = 60       // of one difference
	betweenBytes   = 80 << 10 // of all differences, in the page
	betweenRead    = 2 << 20  // bytes of answers, after which a page reads no more
	// While nothing was found that differs, a page goes on until it has read betweenMost bytes, or for betweenWithin.
	betweenMost   = 64 << 20
	betweenWithin = 2 * time.Second
)

// betweenObject is an object that is not the same at two moments.
type betweenObject struct {
	ID, Kind, Namespace, Name, Class string
	A, B                             string // the resourceVersions of both states, B that of the deletion if it is known
	Rows                             []row
	More                             int
}

type betweenPage struct {
	Filters                 filters
	A, B                    string // the moments, as fields have them
	From, To                past.Moment
	Status                  bool // it is compared, too
	Objects                 []betweenObject
	Added, Removed, Changed int
	StatusOnly              int // objects of which only the status differs, which is not compared
	Hidden                  int
	Quiet                   bool // Events and Leases are left out
	Problems                []string
	Later                   bool   // it is not the first page
	Next                    string // "": it is the last one
	// Looked is how many objects were compared for the page, and Left how many there are behind them of the resource where
	// it ends, AtID; 0: it is not known.
	Looked int
	Left   int64
	AtID   string

	room  int // bytes that are left for differences
	read  int // bytes of answers
	began time.Time
}

// Query is what asks for a page of the same comparison, with the status or without.
func (p *betweenPage) Query(page string, status bool) template.URL {
	q := url.Values{"a": {p.A}, "b": {p.B}}
	for name, value := range map[string]string{
		"ns": p.Filters.Namespace, "kind": p.Filters.Kind, "label": p.Filters.Label, "page": page,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if status {
		q.Set("status", "1")
	}
	return template.URL(q.Encode()) //nolint:gosec // nothing in it needs escaping
}

// between shows what differs between two moments, a and b, in either order; without b it is now.
func (d *Dashboard) between(w http.ResponseWriter, r *http.Request) error {
	p, at, err := readBetween(r.URL.Query(), time.Now().UTC())
	if err != nil {
		return err
	}
	all, err := d.resources(r)
	if err != nil {
		return err
	}
	c := comparing{of: d, r: r, page: p}
	for _, t := range p.of(all) {
		from := place{ID: t.ID()}
		switch {
		case from.ID < at.ID: // they are in this order
			continue
		case from.ID == at.ID:
			from = at
		}
		if p.full() {
			p.Next, p.AtID, p.Left = place{ID: from.ID}.encode(), t.ID(), 0
			break
		}
		next, err := c.resource(t, from)
		switch {
		case isRefused(err, http.StatusForbidden):
			p.Hidden++
		case err != nil:
			p.Problems = append(p.Problems, t.ID()+": "+err.Error())
		case next != place{}:
			p.Next, p.AtID = next.encode(), t.ID()
		}
		if p.Next != "" {
			break
		}
	}
	d.render(w, r, view{Page: "between", Code: http.StatusOK, Title: "Between two moments", Data: p})
	return nil
}

// readBetween reads what is compared, and where the page begins. Errors: *Refusal.
func readBetween(q url.Values, now time.Time) (*betweenPage, place, error) {
	p := &betweenPage{
		Filters: filtersOf(q), Status: q.Has("status"), Later: q.Get("page") != "", room: betweenBytes, began: time.Now(),
	}
	at, err := parsePlace(q.Get("page"))
	if err == nil {
		p.From, err = parseMoment(momentText(q, "a"), now)
	}
	if err == nil {
		p.To, err = parseMoment(momentText(q, "b"), now)
	}
	if err != nil {
		return nil, at, err
	}
	if p.To.IsZero() { // later pages are about the same moment
		p.To.At = now
	}
	if p.From.IsZero() || p.From == p.To {
		return nil, at, &Refusal{
			Code: http.StatusBadRequest, Message: "Choose two moments in the timeline: what differs between them is shown.",
		}
	}
	if p.From.RV > p.To.RV && p.To.RV != 0 || p.From.At.After(p.To.At) && !p.To.At.IsZero() {
		p.From, p.To = p.To, p.From
	}
	p.A, p.B = written(p.From), written(p.To)
	return p, at, nil
}

// written is a moment as parseMoment reads it.
func written(m past.Moment) string {
	if m.RV != 0 {
		return m.RV.String()
	}
	return m.At.UTC().Format(time.RFC3339Nano)
}

// of returns the resources that are compared: unless one is named, without those whose objects come and go.
func (p *betweenPage) of(all []Resource) []Resource {
	return slices.DeleteFunc(p.Filters.of(all), func(t Resource) bool {
		if p.Filters.Kind != "" {
			return false
		}
		switch t.GR() {
		case "events", "events.events.k8s.io", "leases.coordination.k8s.io":
			p.Quiet = true
			return true
		}
		return false
	})
}

// crowded reports whether no more objects fit into the page, and full whether nothing more is read for it.
func (p *betweenPage) crowded() bool { return len(p.Objects) >= betweenObjects || p.room <= 0 }

func (p *betweenPage) full() bool {
	if len(p.Objects) == 0 { // a page that says nothing of what differs is of no use
		return p.read >= betweenMost || time.Since(p.began) >= betweenWithin
	}
	return p.crowded() || p.read >= betweenRead
}

// Sought reports whether the page ends before it has found anything.
func (p *betweenPage) Sought() bool { return p.Next != "" && len(p.Objects) == 0 }

// pair is an object at two moments; nil: there was none.
type pair struct {
	before, after object
	deletion      string // its resourceVersion, if it is known
}

// add compares an object, and adds it if it differs.
func (p *betweenPage) add(t Resource, of pair) {
	p.Looked++
	shown := of.after
	if shown == nil {
		shown = of.before
	}
	o := betweenObject{
		ID: t.ID(), Kind: t.Kind, Namespace: past.Text(shown, "metadata", "namespace"),
		Name: past.Text(shown, "metadata", "name"),
		A:    past.Text(of.before, "metadata", "resourceVersion"), B: past.Text(of.after, "metadata", "resourceVersion"),
	}
	before, after := past.Quiet(of.before), past.Quiet(of.after)
	switch {
	case before == nil && after == nil:
		return // it came and went in between
	case before == nil:
		o.Class, p.Added = "created", p.Added+1
	case after == nil:
		o.Class, p.Removed = "deleted", p.Removed+1
		if o.B = of.deletion; o.B == "" {
			o.B = o.A
		}
	default:
		found := past.Compare(before, after)
		if !p.Status && past.OnlyStatus(found) {
			p.StatusOnly++
			return
		}
		if len(found) == 0 {
			return
		}
		o.Class, p.Changed = "changed", p.Changed+1
	}
	if !p.Status {
		before, after = withoutStatus(before), withoutStatus(after)
	}
	o.Rows, o.More = sideBySide(before, after, &p.room)
	if len(o.Rows) > betweenRows {
		o.More, o.Rows = o.More+len(o.Rows)-betweenRows, o.Rows[:betweenRows]
	}
	p.Objects = append(p.Objects, o)
}

// withoutStatus is an object without its status; nil stays nil.
func withoutStatus(o object) object {
	if o == nil {
		return nil
	}
	return past.WithoutStatus(o)
}
