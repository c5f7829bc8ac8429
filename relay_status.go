package gapless

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/serve/statuses"
	"github.com/gapless-io/gapless/status"
)

// status reports the state of the relay, with so many watches.
func (r *Relay) status(watches int) (status.Relay, error) {
	sent, err := r.api.Sent()
	if err != nil {
		return status.Relay{}, err
	}
	own := status.Relay{
		URL: r.url(), Version: Version().GitVersion, Started: r.started, Upstream: r.cfg.Upstream.Host,
		Resources: []status.RelayResource{}, Storage: statuses.Storage(r.mirror, onDisk(r.cfg.DataDir, r.cfg.Memory)),
	}
	if err := r.relay.Away(); err != nil {
		own.Away = err.Error()
	}
	at := map[schema.GroupVersionResource]int{}
	for i, s := range r.relay.Status() {
		own.Resources = append(own.Resources, status.RelayResource{
			Resource: s.Resource, ResourceVersion: s.ResourceVersion, Oldest: s.Oldest, OldestTime: s.OldestTime,
			Objects: s.Objects, Bytes: s.Bytes, HistoryBytes: s.HistoryBytes, LastTime: s.LastTime,
			RemovedBy: s.RemovedBy, RemovedAt: s.RemovedAt,
			Readers: s.Readers, ListsServed: s.ListsServed, WatchesResumed: s.WatchesResumed, BytesServed: sent[s.GVR],
			ListsPassed: s.ListsPassed, Expired: s.Expired, Lists: s.Lists, Watches: s.Watches, LastContact: s.LastContact,
			Problem: s.Problem,
		})
		at[s.GVR] = i
	}
	own.Clients = statuses.Clients{
		Watches: r.api.Watches, Expired: r.api.Expired, Refusals: r.refusals,
		Reads: func(o *feed.Open) statuses.Reading {
			gvr := schema.ParseGroupResource(o.Resource).WithVersion(o.Version)
			behind, expires := r.relay.Lag(gvr, o.Known)
			reading := statuses.Reading{Behind: func() int { return behind }, Expires: expires}
			if i, mirrored := at[gvr]; mirrored {
				of := &own.Resources[i]
				reading.Oldest = of.Oldest
				if o.Writing {
					of.Behind, of.Lag = of.Behind+1, max(of.Lag, o.Behind(of.ResourceVersion))
				}
			}
			return reading
		},
	}.Of(watches)
	return own, nil
}
