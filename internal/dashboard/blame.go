package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// Bounds of the page that says who has set what.
const (
	blameChanges = 500 // the newest ones of the object
	blameLines   = 600
	maxBlame     = 100 << 10 // bytes of the page
	// blameBytes is what a line has in the page besides its text, and originBytes what one has with another origin than
	// the line before.
	blameBytes  = 40
	originBytes = 200
)

// blamePage is an object with the changes that have set it.
type blamePage struct {
	objectPage

	Lines  []blameLine
	Cut    int  // lines that are left out
	Status bool // the status is shown
	More   bool // not all of its changes were read
	Read   int  // changes
}

// blameLine is a line of the object. What has set it is only said where it is not what has set the line before.
type blameLine struct {
	Text   string
	Begins bool // another origin begins
	RV     string
	Time   time.Time
	By     string
	Before bool // it was set before what was read
}

func (d *Dashboard) blame(w http.ResponseWriter, r *http.Request) error {
	named, err := d.named(r)
	if err != nil {
		return err
	}
	p := blamePage{objectPage: named, Status: r.URL.Query().Has("status")}
	if err := d.moments(r, &p.objectPage); err != nil {
		return err
	}
	known, err := d.blamed(r, &p)
	if err != nil {
		return err
	}
	if known.Exists() {
		lines, err := known.Lines(func(o past.Tree) past.Tree {
			if !p.Status {
				o = past.WithoutStatus(o)
			}
			return o // data of a Secret is hidden already
		})
		if err != nil {
			return err
		}
		p.show(lines)
	}
	d.render(w, r, view{Page: "blame", Code: http.StatusOK, Title: "Who set " + p.Of.Kind + " " + p.Name, Data: &p})
	return nil
}

// blamed reads the newest changes of the object up to a moment, and takes them.
func (d *Dashboard) blamed(r *http.Request, p *blamePage) (*past.Blame, error) {
	query := url.Values{"changes": {"NewestFirst"}, "limit": {strconv.Itoa(blameChanges)}}
	if p.At != "" {
		query.Set("upTo", p.At)
	}
	of := selection{p.Of, p.Namespace, p.Name, p.mask, p.Reveals}
	list, err := d.changes(r, of, query, mediaJSON)
	if err != nil {
		return nil, err
	}
	if list == nil {
		return nil, &Refusal{Code: http.StatusNotFound, Message: "Who serves " + p.Of.ID() + " keeps no history."}
	}
	known := &past.Blame{}
	p.More, p.Read = list.Metadata.Continue != "", len(list.Items)
	for i := len(list.Items) - 1; i >= 0; i-- { // oldest first
		c := &list.Items[i]
		known.Take(&past.Event{
			Type: c.Type, ResourceVersion: kube.ResourceVersion(c.RV()), Time: c.Time, Object: c.Object, Previous: c.Previous,
			Unseen: list.unseen(c),
		})
	}
	if known.Found() {
		return known, nil
	}
	o, err := d.version(r, &p.objectPage, p.At)
	if err != nil {
		return nil, err
	}
	if o != nil {
		known.Begin(o)
	}
	return known, nil
}

// unseen reports whether the server did not see a change: it found it. A deletion that was found later has the
// resourceVersion of the state before.
func (l *changes) unseen(c *change) bool {
	for _, g := range l.Gaps {
		after, upTo := number(g.After), number(g.UpTo)
		if rv := c.RV(); rv <= upTo && (rv > after || rv == after && c.Type == "DELETED") {
			return true
		}
	}
	return false
}

// show makes the lines of the page.
func (p *blamePage) show(lines []past.Line) {
	room := maxBlame
	var last blameLine
	for i, l := range lines {
		of := blameLine{Text: shorten(l.Text)}
		switch {
		case l.Version != nil:
			of.RV, of.Time = l.Version.ResourceVersion.String(), l.Version.Time
			of.By = brief(past.Names(l.Version.By), maxBy)
		case l.Field:
			of.Before = true
			if l.Before != nil {
				of.By = brief(l.Before.String(), maxBy)
			}
		}
		if l.Field { // other lines begin objects, which nobody sets
			of.Begins = of.RV != last.RV || of.Before != last.Before || of.By != last.By
			last = of
		}
		room -= blameBytes + escaped(of.Text)
		if of.Begins {
			room -= originBytes + escaped(of.By) + len(p.Name) + len(p.Namespace)
		}
		if room < 0 || i == blameLines {
			p.Cut = len(lines) - i
			return
		}
		p.Lines = append(p.Lines, of)
	}
}
