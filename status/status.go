// Package status is what servers, replicas and relays report of themselves: the JSON at [Path] and [RelayPath].
//
// A server with a log of its own answers with a [Server], one over etcd with a [Replica], and a relay with a [Relay].
// What they have in common is the same in all three: a [State] has a [Resource] for each resource, and the [Storage];
// its [Clients] have a [Watch] for each watch that is open, and an [Expired] for each of the last ones that got 410.
//
// Of a replica there are, besides, where the history of its resources begins ([Floor]), what it has missed ([Hole]), which
// objects it cannot read ([Unreadable]); how etcd is ([Etcd], with an [EtcdMember] for each member); which other replicas
// there are, each a [Member]; and the same of each other etcd cluster, an [Override]. A relay has a [RelayResource] for each
// resource that it mirrors.
package status

import (
	"time"

	"github.com/gapless-io/gapless/kube"
)

// Path is where a server, or a replica of etcd, reports its state, as a Server or a Replica in JSON. Who may GET that path
// decides as for every other.
const Path = "/gapless/v1/status"

// WatchesParameter is the query parameter that says how many watches an answer names, those that would get 410 first;
// MostWatches is how many it names without that, and at most.
const (
	WatchesParameter = "watches"
	MostWatches      = 1000
)

// Server is what a server that keeps its objects in its own data directory reports.
type Server struct {
	URL     string    `json:"url"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// ResourceVersion is that of the last write that readers see.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
	// OldestTime is when the oldest change was made that can still be read; zero: there is none.
	OldestTime time.Time `json:"oldestTime,omitzero"`
	// HistoryBytes is the size of the versions that are not the newest.
	HistoryBytes int64 `json:"historyBytes"`

	State
}

// State is what a server or a replica reports of its objects, its disk, and its clients.
type State struct {
	Resources []Resource `json:"resources"` // by name; without those that have neither objects nor a history
	Storage   Storage    `json:"storage"`

	Clients
}

// Resource is what there is of a resource, and how far back its history goes.
type Resource struct {
	Resource string `json:"resource"` // with its group: "deployments.apps"
	Objects  int64  `json:"objects"`
	// Bytes is the size of the objects on disk, and HistoryBytes that of their former versions.
	Bytes        int64 `json:"bytes"`
	HistoryBytes int64 `json:"historyBytes"`
	// ResourceVersion is that of the newest change that is kept, at LastTime.
	ResourceVersion kube.ResourceVersion `json:"resourceVersion"`
	LastTime        time.Time            `json:"lastTime,omitzero"`
	// Oldest is the oldest resourceVersion from which a watch can go on, and OldestTime when the change there was made;
	// zero: it is not known.
	Oldest     kube.ResourceVersion `json:"oldestResourceVersion"`
	OldestTime time.Time            `json:"oldestTime,omitzero"`
	// RemovedBy says what removed what was before Oldest: "age", "bytes", "requested", "unseen"; "": nothing was removed.
	RemovedBy string    `json:"removedBy,omitempty"`
	RemovedAt time.Time `json:"removedAt,omitzero"`
	Watches   int       `json:"watches"`
}

// Storage is how the log on disk does.
type Storage struct {
	// ReadOnly says why no write would be taken now; "": it would be.
	ReadOnly string `json:"readOnly,omitempty"`
	// Lost says why writes that were acknowledged may be lost: writes are refused until a restart. "": none are.
	Lost string `json:"lost,omitempty"`
	// LastWrite is when the newest change was made that is kept; zero: there is none.
	LastWrite time.Time `json:"lastWrite,omitzero"`
	Bytes     int64     `json:"bytes"` // of the files
	Files     int       `json:"files"`
	// FreeBytes may still be written to the file system that the files are in, by all programs on it, and FileSystemBytes
	// is its size; 0: it is not known, or there are no files.
	FreeBytes       int64 `json:"freeBytes"`
	FileSystemBytes int64 `json:"fileSystemBytes"`
	// Syncs is how often the disk has made writes durable (fsync) since the start, SyncMeanSeconds how long that took on
	// average, and SyncMostSeconds a time in which 99 of 100 were done; 0: there were none, or some took longer than 8 s.
	Syncs           uint64  `json:"syncs"`
	SyncMeanSeconds float64 `json:"syncMeanSeconds"`
	SyncMostSeconds float64 `json:"syncMostSeconds"`
	// RefusedWrites were refused for a cause that passes, like a full disk; MaintenanceFailures are failures to compact or
	// merge history, which are tried again. Both since the start.
	RefusedWrites       int64 `json:"refusedWrites"`
	MaintenanceFailures int64 `json:"maintenanceFailures"`
}

// NearlyFull reports whether less than 5 GiB of the file system, and less than a twentieth of it, are free. Without any, writes
// are refused.
func (s Storage) NearlyFull() bool {
	const few, part = 5 << 30, 20
	return s.FreeBytes < min(few, s.FileSystemBytes/part)
}

// Clients are the clients that watch, those that got 410, and what was refused.
type Clients struct {
	// Watches are open, first those whose clients would get 410 first: by ExpiresAt, then by AboveOldest. With more than
	// were asked for, the rest is left out; WatchCount counts all.
	Watches    []Watch `json:"watches"`
	WatchCount int     `json:"watchCount"`
	// Expired are the last watches that got 410, the newest first.
	Expired []Expired `json:"expired"`
	// Refused counts what was refused or slowed down since the start, by the reasons of gapless_refused_total. Reasons
	// without any are left out.
	Refused map[string]int64 `json:"refused"`
}

// Client is who watches what.
type Client struct {
	User      string `json:"user"`
	UserAgent string `json:"userAgent,omitempty"`
	Resource  string `json:"resource"` // with its group: "deployments.apps"
	Version   string `json:"version"`
	Namespace string `json:"namespace,omitempty"` // "": all, or the resource has none
	// LabelSelector and FieldSelector are as the client wrote them.
	LabelSelector string    `json:"labelSelector,omitempty"`
	FieldSelector string    `json:"fieldSelector,omitempty"`
	Since         time.Time `json:"since"`
}

// Watch is a watch that is open.
type Watch struct {
	Client

	Delivered uint64 `json:"delivered"` // events, without bookmarks
	// Known is the last resourceVersion that was sent, by an event or a bookmark: from where the client would go on.
	Known kube.ResourceVersion `json:"knownResourceVersion"`
	// BehindEvents is how many changes of the resource are in memory that it was not sent yet, and BehindSeconds for how
	// long it is being sent those that it is sent now: its client, or the network, does not take them. Both are 0 for a
	// watch that waits for changes.
	BehindEvents  int     `json:"behindEvents"`
	BehindSeconds float64 `json:"behindSeconds"`
	// AboveOldest is how many resourceVersions Known is above the oldest from which a watch of the resource can go on.
	AboveOldest uint64 `json:"aboveOldest"`
	// ExpiresAt is when the first change of the resource after Known is removed, because of its age, or because of the bytes
	// of all history, if that goes on to grow as in the last ten minutes: a client that connects again after that, from
	// Known, may get 410. A compaction that is requested, and what a replica or a relay misses while it is away, are not
	// foreseen. Zero: there is no such change, or nothing is foreseen that removes it.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// Expired is a watch that got 410: its client lists again.
type Expired struct {
	Client

	At time.Time `json:"at"`
	// From is the resourceVersion that the client named, and Known the last one that was sent to it.
	From  kube.ResourceVersion `json:"fromResourceVersion"`
	Known kube.ResourceVersion `json:"knownResourceVersion"`
	Why   string               `json:"why"` // a sentence: what was needed, what removed it, and when
}
