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

// relayPage is the status of a relay, as its API has it.
type relayPage struct {
	Upstream     string
	UpstreamAway string
	Resources    []mirrored
	Now          time.Time `json:"-"`
}

// mirrored is a resource that is mirrored, or passed through.
type mirrored struct {
	Resource                                 string
	ResourceVersion, OldestResourceVersion   any // a number, or a text with it
	Objects, Readers, WatchersBehind, Lag    int64
	ListsServed, ListsPassed, WatchesResumed int64
	BytesServed                              int64
	WatchesExpired                           map[string]int64
	UpstreamLists, UpstreamWatches           int64
	LastContact                              time.Time
	Problem                                  string
}

// Expired is how many watches got 410, by the reason.
func (m mirrored) Expired() string {
	var all []string
	for _, reason := range slices.Sorted(maps.Keys(m.WatchesExpired)) {
		all = append(all, strconv.FormatInt(m.WatchesExpired[reason], 10)+" "+reason)
	}
	return strings.Join(all, ", ")
}

func (d *Dashboard) relay(w http.ResponseWriter, r *http.Request) error {
	p := relayPage{Now: time.Now().UTC()}
	if err := d.askFor(r, d.cfg.StatusPath+"?"+status.WatchesParameter+"=0", mediaJSON, &p); err != nil {
		return err
	}
	d.render(w, r, view{Page: "relay", Code: http.StatusOK, Title: "Relay", Live: true, Data: p})
	return nil
}
