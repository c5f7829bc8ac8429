package status

import (
	"time"

	"github.com/gapless-io/gapless/kube"
)

// RelayPath is where a relay reports what it mirrors, as a Relay in JSON. Upstream decides who may GET that path.
const RelayPath = "/relay/status"

// Relay is what a relay reports of itself.
type Relay struct {
	URL      string    `json:"url"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Upstream string    `json:"upstream"`
	// Away says why upstream did not answer when it was asked for its resources last; "": it did.
	Away      string          `json:"upstreamAway,omitempty"`
	Resources []RelayResource `json:"resources"` // by name
	Storage   Storage         `json:"storage"`

	Clients
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
	// OldestTime is when the change at Oldest was recorded, RemovedBy what removed what was before ("age", "bytes"), at
	// RemovedAt; zero: nothing was removed yet.
	OldestTime time.Time `json:"oldestTime,omitzero"`
	RemovedBy  string    `json:"removedBy,omitempty"`
	RemovedAt  time.Time `json:"removedAt,omitzero"`
	// Bytes is the size of the objects on disk, and HistoryBytes that of their former versions. LastTime is when the
	// newest change was recorded that is kept.
	Bytes        int64     `json:"bytes"`
	HistoryBytes int64     `json:"historyBytes"`
	LastTime     time.Time `json:"lastTime,omitzero"`
}
