package dashboard

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gapless-io/gapless/status"
)

// mirroredRows is how many resources of a relay are shown; with more, those of which it served the most bytes.
const mirroredRows = 90

// relayPage is the status of a relay.
type relayPage struct {
	status.Relay

	Omitted int
	Sum     mirrored // of all resources
	Now     time.Time
}

// mirrored counts what upstream did not have to do, and what it did, of all resources.
type mirrored struct {
	Resources, PassedThrough                        int
	Objects                                         int
	ListsServed, ListsPassed, WatchesResumed, Bytes int64
	UpstreamLists, UpstreamWatches, Expired         int64
}

func (d *Dashboard) relay(w http.ResponseWriter, r *http.Request) error {
	p := relayPage{Now: time.Now().UTC()}
	if err := d.askFor(r, d.cfg.StatusPath+"?"+status.WatchesParameter+"=0", mediaJSON, &p.Relay); err != nil {
		return err
	}
	for i := range p.Resources {
		p.Sum.add(&p.Resources[i])
	}
	if p.Omitted = max(0, len(p.Resources)-mirroredRows); p.Omitted > 0 {
		slices.SortStableFunc(p.Resources, func(a, b status.RelayResource) int {
			return cmpDescending(uint64(max(a.BytesServed, 0)), uint64(max(b.BytesServed, 0)))
		})
		p.Resources = p.Resources[:mirroredRows]
	}
	d.render(w, r, view{Page: "relay", Code: http.StatusOK, Title: "Relay", Live: true, Data: p})
	return nil
}

func (m *mirrored) add(r *status.RelayResource) {
	m.Resources++
	if r.Problem != "" {
		m.PassedThrough++
	}
	m.Objects += r.Objects
	m.ListsServed += r.ListsServed
	m.ListsPassed += r.ListsPassed
	m.WatchesResumed += r.WatchesResumed
	m.Bytes += r.BytesServed
	m.UpstreamLists += r.Lists
	m.UpstreamWatches += r.Watches
	for _, n := range r.Expired {
		m.Expired += n
	}
}

// reasons are counts by reasons, like "2 age, 1 bytes".
func reasons(counts map[string]int64) string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, strconv.FormatInt(counts[reason], 10)+" "+reason)
	}
	return strings.Join(all, ", ")
}
