package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/past"
)

// maxMoment is how many bytes of a moment count that somebody has written.
const maxMoment = 60

// momentText is a moment as a query has it.
func momentText(q url.Values, name string) string {
	text := q.Get(name)
	return strings.ToValidUTF8(strings.TrimSpace(text[:min(len(text), maxMoment)]), "")
}

// parseMoment reads a moment; "" is none. Times without a zone are UTC. Errors: *Refusal.
func parseMoment(text string, now time.Time) (past.Moment, error) {
	if text == "" {
		return past.Moment{}, nil
	}
	m, err := past.ParseMoment(text, now.UTC())
	if err != nil {
		return m, &Refusal{Code: http.StatusBadRequest, Message: err.Error()}
	}
	return m, nil
}

// bound adds a moment to a query for changes: as a resourceVersion, or as a time.
func bound(q url.Values, m past.Moment, rv, at string) {
	switch {
	case m.RV != 0:
		q.Set(rv, m.RV.String())
	case !m.At.IsZero():
		q.Set(at, m.At.UTC().Format(time.RFC3339Nano))
	}
}

// moments finds the resourceVersions of what somebody has written.
func (d *Dashboard) moments(r *http.Request, p *objectPage) error {
	now := time.Now()
	for _, m := range []struct {
		text string
		rv   *string
	}{{p.Typed.A, &p.A}, {p.Typed.B, &p.B}, {p.Typed.At, &p.At}} {
		of, err := parseMoment(m.text, now)
		switch {
		case err != nil:
			return err
		case of.RV != 0:
			*m.rv = of.RV.String()
		case !of.At.IsZero():
			if *m.rv, err = d.reachedBy(r, p, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// reachedBy returns the resourceVersion that the resource of an object had at a time.
func (d *Dashboard) reachedBy(r *http.Request, p *objectPage, m past.Moment) (string, error) {
	query := url.Values{"changes": {"NewestFirst"}, "limit": {strconv.Itoa(1)}, "previous": {"false"}}
	bound(query, m, "upTo", "until")
	list, err := d.changes(r, selection{p.Of, p.Namespace, p.Name, p.mask, p.Reveals}, query, mediaMetadata)
	if err != nil {
		return "", err
	}
	if list == nil {
		return "", &Refusal{Code: http.StatusNotFound, Message: "Who serves " + p.Of.ID() + " keeps no history."}
	}
	return list.UpTo, nil
}
