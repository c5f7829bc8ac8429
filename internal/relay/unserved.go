package relay

import (
	"context"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/kube"
)

// doubtedFor is how long a resource must be missing before its mirror ends, where upstream does not
// say whether it is ready.
const doubtedFor = 30 * time.Second

// doubt notes that upstream may not serve a resource any more. Neither discovery nor one answer says
// so for sure: a kube-apiserver that has just started knows no custom resources for a moment.
func (r *Relay) doubt(resource *kinds.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.doubts[resource.GVR()]; !is {
		r.doubts[resource.GVR()] = time.Now()
	}
}

// unserved returns the resources, of those in doubt, that upstream does not serve: it is ready, and
// answers 404. Those that it serves are in doubt no longer; of the others it cannot say now.
func (r *Relay) unserved(ctx context.Context) map[kinds.GroupVersionResource]bool {
	r.mu.Lock()
	doubts := maps.Clone(r.doubts)
	r.mu.Unlock()
	gone := map[kinds.GroupVersionResource]bool{}
	if len(doubts) == 0 {
		return gone
	}
	ready, says := r.upstreamReady(ctx)
	if says && !ready {
		return gone
	}
	for gvr, since := range doubts {
		switch err := r.first(ctx, gvr); {
		case err == nil:
		case kube.Classify(err) == kube.OutcomeNotFound && (ready || time.Since(since) >= doubtedFor):
			gone[gvr] = true
		default:
			continue
		}
		r.mu.Lock()
		delete(r.doubts, gvr)
		r.mu.Unlock()
	}
	return gone
}

// first asks upstream for one object of a resource.
func (r *Relay) first(ctx context.Context, gvr kinds.GroupVersionResource) error {
	limited, cancel := context.WithTimeout(ctx, progressWithin)
	defer cancel()
	_, err := r.metadata.List(limited, client.Collection{GroupVersionResource: gvr}, metav1.ListOptions{Limit: 1},
		func([]byte) error { return nil })
	return err
}

// upstreamReady returns what upstream says of itself. It does not say anything if it has no /readyz, or
// refuses the relay.
func (r *Relay) upstreamReady(ctx context.Context) (ready, says bool) {
	limited, cancel := context.WithTimeout(ctx, progressWithin)
	defer cancel()
	_, err := r.upstream.Get(limited, "/readyz", "")
	switch kube.Classify(err) {
	case kube.OutcomeOK:
		return true, true
	case kube.OutcomeNotFound, kube.OutcomeUnauthorized, kube.OutcomeForbidden:
		return false, false
	case kube.OutcomeUnknown, kube.OutcomeExpired, kube.OutcomeTooLarge, kube.OutcomeTooManyRequests, kube.OutcomeConflict,
		kube.OutcomeInvalid,
		kube.OutcomeRefused, kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError, kube.OutcomeDecode,
		kube.OutcomeCanceled:
	}
	return false, true
}
