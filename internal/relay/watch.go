package relay

import (
	"context"
	"errors"
	"io"

	"github.com/gapless-io/gapless/kube"
)

// watch is a watch of the mirror under upstream's resourceVersions.
type watch struct {
	kube.Watch

	history *history
	asked   kube.ResourceVersion
	known   kube.ResourceVersion // what Position last returned
	leave   func()
}

// Next implements kube.Watch.
func (w *watch) Next(ctx context.Context) ([]kube.WatchEvent, error) {
	events, err := w.Watch.Next(ctx)
	switch {
	case errors.Is(err, io.EOF) && w.history.replaced.Load():
		return nil, &kube.ExpiredError{Requested: max(w.asked, w.known), Oldest: w.history.log.Reached(), Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch}
	case err != nil:
		return nil, w.history.translated(err, w.asked)
	}
	if n := len(events); n > 0 && events[n-1].Type == kube.InitialEventsEnd {
		end := &events[n-1]
		end.ResourceVersion = w.history.log.Version(int64(end.ResourceVersion)) //nolint:gosec // a position
		if end.Since != 0 {
			end.Since = w.asked
		}
	}
	return events, nil
}

// Position implements kube.Watch. Within the difference of a re-list it does not move: a client
// that begins again from there gets all of the difference.
func (w *watch) Position() kube.ResourceVersion {
	at := w.Watch.Position()
	if at == 0 {
		return 0
	}
	w.known = max(w.known, w.history.log.Version(int64(at))) //nolint:gosec // a position
	return w.known
}

// Close implements kube.Watch.
func (w *watch) Close() {
	w.Watch.Close()
	w.leave()
}
