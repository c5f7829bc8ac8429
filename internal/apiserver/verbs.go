package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Reader is the verbs that read. Errors are those that wire.StatusOf knows.
type Reader interface {
	// Get returns one object by the rules for the resourceVersion of a GET; rv is the text of
	// the query's resourceVersion.
	Get(ctx context.Context, t kinds.Target, rv string) (*wire.Object, error)
	// List plans and serves a LIST.
	List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error)
	// GetPast returns one object as it was at a moment, and the resourceVersion of the state.
	GetPast(ctx context.Context, t kinds.Target, m wire.Moment) (*wire.Object, kube.ResourceVersion, error)
	// Changes returns a page of a history.
	Changes(ctx context.Context, t kinds.Target, o wire.ChangesOptions) (*wire.Changes, error)
	// Watch plans and opens a WATCH. *kube.ExpiredError and
	// *kube.TooLargeResourceVersionError become ERROR frames inside a 200, other
	// errors plain answers.
	Watch(ctx context.Context, t kinds.Target, o wire.ListOptions) (wire.Watch, error)
}

// Writer is the verbs that write. Bodies are JSON. Errors are those that wire.StatusOf
// knows.
type Writer interface {
	Create(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error)
	Update(ctx context.Context, t kinds.Target, body []byte, o metav1.UpdateOptions) (wire.Written, error)
	Patch(ctx context.Context, t kinds.Target, p wire.Patch, o metav1.PatchOptions) (wire.Written, error)
	Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (wire.Written, error)
	// DeleteCollection deletes what o selects and returns what was deleted.
	DeleteCollection(ctx context.Context, t kinds.Target, d metav1.DeleteOptions, o wire.ListOptions) (*wire.List, error)
}
