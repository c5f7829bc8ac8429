package apiserver

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Reader is the verbs that read. Errors are those that kube.StatusOf knows.
type Reader interface {
	// Get returns one object by the rules for the resourceVersion of a GET; rv is the text of
	// the query's resourceVersion.
	Get(ctx context.Context, t schema.Target, rv string) (*kube.Object, error)
	// List plans and serves a LIST.
	List(ctx context.Context, t schema.Target, o kube.ListOptions) (*kube.List, error)
	// Watch plans and opens a WATCH. *kube.ExpiredError and
	// *kube.TooLargeResourceVersionError become ERROR frames inside a 200, other
	// errors plain answers.
	Watch(ctx context.Context, t schema.Target, o kube.ListOptions) (kube.Watch, error)
}

// Writer is the verbs that write. Bodies are JSON. Errors are those that kube.StatusOf
// knows.
type Writer interface {
	Create(ctx context.Context, t schema.Target, body []byte, o metav1.CreateOptions) (kube.Written, error)
	Update(ctx context.Context, t schema.Target, body []byte, o metav1.UpdateOptions) (kube.Written, error)
	Patch(ctx context.Context, t schema.Target, p kube.Patch, o metav1.PatchOptions) (kube.Written, error)
	Delete(ctx context.Context, t schema.Target, o metav1.DeleteOptions) (kube.Written, error)
	// DeleteCollection deletes what o selects and returns what was deleted.
	DeleteCollection(ctx context.Context, t schema.Target, d metav1.DeleteOptions, o kube.ListOptions) (*kube.List, error)
}
