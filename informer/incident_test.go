package informer_test

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/internal/incident"
)

// TestIncidentKindsAreThoseOfTheInternalPackages holds what conversions rely on. The
// exported constants do not refer to the internal ones, so that go doc does not either.
func TestIncidentKindsAreThoseOfTheInternalPackages(t *testing.T) {
	kinds := []struct {
		kind     informer.IncidentKind
		internal incident.Kind
		name     string
	}{
		{informer.Gone, incident.Gone, "gone"},
		{informer.SilentGone, incident.SilentGone, "silent_gone"},
		{informer.TooLarge, incident.TooLarge, "too_large"},
		{informer.WentBack, incident.WentBack, "went_back"},
		{informer.Throttled, incident.Throttled, "throttled"},
		{informer.Refused, incident.Refused, "refused"},
		{informer.Denied, incident.Denied, "denied"},
		{informer.NotServed, incident.NotServed, "not_served"},
		{informer.Rejected, incident.Rejected, "rejected"},
		{informer.NoStreamingList, incident.NoStreamingList, "no_streaming_list"},
		{informer.NoEndBookmark, incident.NoEndBookmark, "no_end_bookmark"},
		{informer.ShortWatch, incident.ShortWatch, "short_watch"},
		{informer.Disconnected, incident.Disconnected, "disconnected"},
		{informer.Silent, incident.Silent, "silent"},
		{informer.ServerError, incident.ServerError, "server_error"},
		{informer.Undecodable, incident.Undecodable, "undecodable"},
		{informer.Stale, incident.Stale, "stale"},
		{informer.Gap, incident.Gap, "gap"},
		{informer.HandlerFailed, incident.HandlerFailed, "handler_failed"},
		{informer.HandlerPanicked, incident.HandlerPanicked, "handler_panicked"},
		{informer.HandlerGaveUp, incident.HandlerGaveUp, "handler_gave_up"},
		{informer.HandlerMerged, incident.HandlerMerged, "handler_merged"},
		{informer.HandlerStopped, incident.HandlerStopped, "handler_stopped"},
		{informer.IndexPanicked, incident.IndexPanicked, "index_panicked"},
		{informer.PersistFailed, incident.PersistFailed, "persist_failed"},
	}
	for n, k := range kinds {
		if int(k.kind) != n+1 || int(k.internal) != n+1 || k.kind.String() != k.name {
			t.Errorf("%s: the kinds are %d and %d, want %d; String is %q", k.name, int(k.kind), int(k.internal), n+1, k.kind)
		}
	}
	// There are no further kinds.
	if none, want := informer.IncidentKind(len(kinds)+1).String(), fmt.Sprintf("incident_%d", len(kinds)+1); none != want {
		t.Errorf("the kind after the last is %q, want %q", none, want)
	}
}
