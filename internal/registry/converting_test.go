package registry

import (
	"testing"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

func TestAPartOfARevisionIsNotComplete(t *testing.T) {
	w := &converting{}
	for _, rv := range []kube.ResourceVersion{4, 7, 7, 9} {
		w.events = append(w.events, wire.WatchEvent{ResourceVersion: rv})
	}
	for i, want := range []kube.ResourceVersion{4, 6, 7, 9} {
		if got := w.complete(i + 1); got != want {
			t.Errorf("after %d events the watch is at %d, want %d", i+1, got, want)
		}
	}
}
