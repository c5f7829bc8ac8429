package gapless

import (
	"time"

	"github.com/gapless-io/gapless/kube"
)

// RelayStatusPath is where a relay reports what it mirrors, as a RelayStatus in JSON. Upstream decides
// who may GET that path.
const RelayStatusPath = "/relay/status"

// RelayStatus is what a relay reports of itself.
type RelayStatus struct {
	Upstream string `json:"upstream"`
	// Away says why upstream did not answer when it was asked for its resources last; "": it did.
	Away      string          `json:"upstreamAway,omitempty"`
	Resources []RelayResource `json:"resources"` // by name
}

// RelayResource is what a relay reports of a resource that it mirrors.
type RelayResource struct {
	Resource string `json:"resource"` // with its version and group: "deployments.v1.apps"
	// ResourceVersion is that of upstream up to which everything is mirrored; 0: nothing is.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
	// Oldest is the oldest resourceVersion from which a watch can continue.
	Oldest  kube.ResourceVersion `json:"oldestResourceVersion"`
	Objects int                  `json:"objects"`
	Readers int64                `json:"readers"` // lists and watches that are open
	// Behind is to how many watchers events are being sent now, and Lag by how many resourceVersions the
	// last of them is behind.
	Behind int    `json:"watchersBehind"`
	Lag    uint64 `json:"lag"`
	// ListsServed and WatchesResumed are the lists and the watches from a resourceVersion that upstream
	// did not have to serve, and BytesServed the bytes of lists and watches, since the relay began.
	ListsServed    int64 `json:"listsServed"`
	WatchesResumed int64 `json:"watchesResumed"`
	BytesServed    int64 `json:"bytesServed"`
	// ListsPassed are the lists that upstream served after all, because it was not known in time whether the
	// mirror was up to date.
	ListsPassed int64 `json:"listsPassed"`
	// Expired are the watches that got 410, by the reason: they list again.
	Expired map[string]int64 `json:"watchesExpired,omitempty"`
	// Lists and Watches are how often upstream was asked since the resource is mirrored.
	Lists   int64 `json:"upstreamLists"`
	Watches int64 `json:"upstreamWatches"`
	// LastContact is when upstream last answered, here or to the relay before this one with the same directory;
	// zero: that is not known.
	LastContact time.Time `json:"lastContact,omitzero"`
	// Problem says why the resource is passed through; "": it is mirrored.
	Problem string `json:"problem,omitempty"`
	// OldestTime is when the change at Oldest was recorded; zero: nothing was removed yet.
	OldestTime time.Time `json:"oldestTime,omitzero"`
}

func (r *Relay) status() (RelayStatus, error) {
	sent, err := r.api.Sent()
	if err != nil {
		return RelayStatus{}, err
	}
	status := RelayStatus{Upstream: r.cfg.Upstream.Host, Resources: []RelayResource{}}
	if err := r.relay.Away(); err != nil {
		status.Away = err.Error()
	}
	open := r.api.Watches()
	for _, s := range r.relay.Status() {
		of := RelayResource{
			Resource: s.Resource, ResourceVersion: s.ResourceVersion, Oldest: s.Oldest, OldestTime: s.OldestTime,
			Objects: s.Objects,
			Readers: s.Readers, ListsServed: s.ListsServed, WatchesResumed: s.WatchesResumed, BytesServed: sent[s.GVR],
			ListsPassed: s.ListsPassed, Expired: s.Expired, Lists: s.Lists, Watches: s.Watches, LastContact: s.LastContact,
			Problem: s.Problem,
		}
		for _, w := range open {
			if w.Writing && w.Version == s.GVR.Version && w.Resource == s.GVR.GroupResource().String() {
				of.Behind++
				of.Lag = max(of.Lag, uint64(max(s.ResourceVersion, w.Known)-w.Known))
			}
		}
		status.Resources = append(status.Resources, of)
	}
	return status, nil
}
