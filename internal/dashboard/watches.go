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
	_, err := d.storage(r)
	return err
}

// storage returns what the status of the server says of its disk, the zero value if there is no status.
func (d *Dashboard) storage(r *http.Request) (status.Storage, error) {
	var of struct{ Storage status.Storage }
	err := d.askFor(r, d.cfg.StatusPath+"?"+status.WatchesParameter+"=0", mediaJSON, &of)
	if isRefused(err, http.StatusNotFound) { // 404 comes after the permission
		return status.Storage{}, nil
	}
	return of.Storage, err
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
