package dashboard

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gapless-io/gapless/status"
)

// A page shows so many watches, those that are the furthest behind, and so many that have expired, the newest.
const (
	maxWatches = 120
	maxExpired = 30
)

type watchesPage struct {
	Watches []Watch
	Omitted int
	Expired []Expired
	Now     time.Time
}

// errNoWatches: Config.Watches is nil.
var errNoWatches = errors.New("watches are not known here")

// mayWatches returns nil if the caller may see who watches: who may GET the status of the server.
func (d *Dashboard) mayWatches(r *http.Request) error {
	if d.cfg.Watches == nil {
		return errNoWatches
	}
	if _, err := d.ask(r, d.cfg.StatusPath+"?"+status.WatchesParameter+"=0", mediaJSON); !isRefused(err, http.StatusNotFound) {
		return err // nil, or why not; 404 comes after the permission: there is no status
	}
	return nil
}

func (d *Dashboard) watches(w http.ResponseWriter, r *http.Request) error {
	if err := d.mayWatches(r); err != nil {
		return err
	}
	p := watchesPage{Watches: d.cfg.Watches(), Now: time.Now().UTC()}
	if d.cfg.Expired != nil {
		p.Expired = d.cfg.Expired()
		p.Expired = p.Expired[:min(len(p.Expired), maxExpired)]
	}
	slices.SortStableFunc(p.Watches, func(a, b Watch) int { return cmpDescending(a.Behind, b.Behind) })
	if p.Omitted = max(0, len(p.Watches)-maxWatches); p.Omitted > 0 {
		p.Watches = p.Watches[:maxWatches]
	}
	d.render(w, r, view{Page: "watches", Code: http.StatusOK, Title: "Watches", Live: true, Data: p})
	return nil
}
