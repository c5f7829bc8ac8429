package past

import (
	"context"
	"errors"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/internal/past"
	"github.com/gapless-io/gapless/kube"
)

// pause is how long a watch that broke is not opened again.
const pause = time.Second

// follow prints the changes that come after those that were printed, until ctx ends. A watch says when there is one: it
// has metadata only, and the change is read as all others are. It continues where it was when the connection breaks.
// Errors: those that do not pass, such as 403 and 410.
func (h *history) follow(ctx context.Context, s *session) error {
	for {
		err := h.watch(ctx, s)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // whoever watches has seen enough
		case errors.Is(err, io.EOF): // the server ends each watch at some time
		case passes(err):
			h.program.notef("%v; trying again", err)
		default:
			return explained(h.program, s, h.target, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// passes reports whether the same request may succeed later.
func passes(err error) bool {
	switch kube.Classify(err) {
	case kube.OutcomeTooLarge, kube.OutcomeTooManyRequests, kube.OutcomeRefused, kube.OutcomeTimeout,
		kube.OutcomeDisconnected, kube.OutcomeServerError:
		return true
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeExpired, kube.OutcomeUnauthorized, kube.OutcomeForbidden,
		kube.OutcomeNotFound, kube.OutcomeConflict, kube.OutcomeInvalid, kube.OutcomeDecode, kube.OutcomeCanceled:
	}
	return false
}

// watch prints changes until a watch ends.
func (h *history) watch(ctx context.Context, s *session) error {
	o := metav1.ListOptions{
		LabelSelector: h.target.labels, FieldSelector: h.target.fields, ResourceVersion: h.upTo.String(),
		AllowWatchBookmarks: true,
	}
	if h.target.name != "" {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", h.target.name).String()
	}
	w, err := s.client.As(client.Form{Metadata: true}).Watch(ctx, h.target.of, o)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }() // it has ended, or is not read any more
	for {
		f, err := w.Next()
		if err != nil {
			return err
		}
		meta, err := f.Meta()
		if err != nil {
			return err
		}
		rv, err := kube.ParseResourceVersion(meta.ResourceVersion)
		if err != nil {
			return err
		}
		if f.Type == kube.Bookmark { // what a page needs may be removed while nothing else happens
			h.upTo = max(h.upTo, rv)
			continue
		}
		// A page had the event already, but a deletion that a relay found later has the version of the state before.
		if rv < h.upTo || rv == h.upTo && f.Type != kube.Deleted {
			continue
		}
		h.asked.after, h.asked.upTo = past.Moment{RV: h.upTo}, past.Moment{} // a burst is one page
		if err := h.pages(ctx, s); err != nil {
			return err
		}
	}
}
