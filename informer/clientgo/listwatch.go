package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/kube"
)

// unversioned stands for the resource version of a list that has none: fake clients
// make such lists. It is no number, so that it is neither older nor newer than any.
const unversioned = "unversioned"

// backend is the wire below an informer over a ListerWatcher, whose objects are
// decoded already. They go through the informer as tickets.
type backend struct {
	lw       cache.ListerWatcherWithContext
	expected reflect.Type            // nil: any
	kind     schema.GroupVersionKind // of unstructured objects; empty: any
	room     cloakroom
}

func newBackend(lw cache.ListerWatcher, example runtime.Object) *backend {
	b := &backend{lw: cache.ToListerWatcherWithContext(lw)}
	b.room.objects = map[uint64]metav1.Object{}
	if example != nil {
		b.expected = reflect.TypeOf(example)
	}
	if u, is := example.(*unstructured.Unstructured); is {
		b.kind = u.GroupVersionKind()
	}
	return b
}

// await calls f, which may know nothing of contexts, and returns at the end of ctx
// at the latest. What f brings after that is dropped.
func await[R any](ctx context.Context, f func() (R, error), drop func(R)) (R, error) {
	type answer struct {
		result R
		err    error
	}
	answers := make(chan answer)
	// It ends with the request. A ListerWatcher without contexts can outlive ctx, by
	// the timeout of its client at most.
	go func() {
		result, err := f()
		select {
		case answers <- answer{result, err}:
		case <-ctx.Done():
			if err == nil {
				drop(result)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.result, a.err
	case <-ctx.Done():
		var none R
		return none, context.Cause(ctx)
	}
}

// List gets a page and hands its objects on.
func (b *backend) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	if o.ResourceVersion == unversioned {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	list, err := await(ctx, func() (runtime.Object, error) { return b.lw.ListWithContext(ctx, o) }, func(runtime.Object) {})
	if err != nil {
		return metav1.ListMeta{}, err
	}
	if _, is := list.(*metav1.Table); is {
		return metav1.ListMeta{}, &kube.DecodeError{Offset: -1, Why: "the list is a Table"}
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return metav1.ListMeta{}, &kube.DecodeError{Offset: -1, Why: fmt.Sprintf("%T is no list: %v", list, err)}
	}
	// WithAlloc: one object that stays must not keep the page's slice.
	err = meta.EachListItemWithAlloc(list, func(object runtime.Object) error {
		ticket, err := b.room.leave(object)
		if err != nil {
			return err
		}
		return each(ticket)
	})
	rv := about.GetResourceVersion()
	if rv == "" {
		rv = unversioned
	}
	return metav1.ListMeta{ResourceVersion: rv, Continue: about.GetContinue()}, err
}

// Watch opens a watch.
func (b *backend) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	if o.ResourceVersion == unversioned {
		o.ResourceVersion = ""
	}
	o.Watch = true
	w, err := await(ctx, func() (watch.Interface, error) { return b.lw.WatchWithContext(ctx, o) }, watch.Interface.Stop)
	if err != nil {
		return nil, err
	}
	return &stream{backend: b, ctx: ctx, watch: w}, nil
}

// decode takes back what a ticket is for.
func (b *backend) decode(ticket []byte) (metav1.Object, error) { return b.room.take(ticket) }

// stream is an open watch.
type stream struct {
	*backend
	ctx   context.Context //nolint:containedctx // the request's own: a watch.Interface need not end with it
	watch watch.Interface
	ahead []watch.Event // what Ready received, at most one
}

// Next waits for an event.
func (s *stream) Next() (client.Frame, error) {
	if len(s.ahead) > 0 {
		e := s.ahead[0]
		s.ahead = s.ahead[:0]
		return s.frame(e)
	}
	select {
	case e, open := <-s.watch.ResultChan():
		if !open {
			if s.ctx.Err() != nil {
				return client.Frame{}, context.Cause(s.ctx)
			}
			return client.Frame{}, io.EOF
		}
		return s.frame(e)
	case <-s.ctx.Done():
		return client.Frame{}, context.Cause(s.ctx)
	}
}

// Ready says that Next does not wait.
func (s *stream) Ready() bool {
	if len(s.ahead) > 0 {
		return true
	}
	select {
	case e, open := <-s.watch.ResultChan():
		if open {
			s.ahead = append(s.ahead, e)
		}
		return true
	default:
		return false
	}
}

// Close ends the watch.
func (s *stream) Close() error {
	s.watch.Stop()
	return nil
}

func (s *stream) frame(e watch.Event) (client.Frame, error) {
	f := client.Frame{}
	switch e.Type {
	case watch.Added:
		f.Type = kube.Added
	case watch.Modified:
		f.Type = kube.Modified
	case watch.Deleted:
		f.Type = kube.Deleted
	case watch.Bookmark:
		f.Type = kube.Bookmark
	case watch.Error:
		return f, apierrors.FromObject(e.Object)
	}
	if f.Type == 0 || !s.expects(e.Object) {
		f.Type, f.Object = 0, fmt.Appendf(nil, "%q of a %T", e.Type, e.Object)
		return f, nil
	}
	about, err := meta.Accessor(e.Object)
	if err != nil {
		f.Type, f.Object = 0, fmt.Appendf(nil, "%q of a %T: %v", e.Type, e.Object, err)
		return f, nil
	}
	if f.Type == kube.Bookmark {
		if about.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			f.Type = kube.InitialEventsEnd
		}
		f.Object, err = write(0, about)
		return f, err
	}
	f.Object, err = s.room.leave(e.Object)
	return f, err
}

// expects says whether an object is of the type that the informer is for.
func (b *backend) expects(object runtime.Object) bool {
	if b.expected != nil && reflect.TypeOf(object) != b.expected {
		return false
	}
	return b.kind.Empty() || object.GetObjectKind().GroupVersionKind() == b.kind
}

// cloakroom keeps decoded objects while their tickets go through the informer,
// which decodes each at most once and soon: the last 1024 that were left can be
// taken. What is never asked for, because its ticket says that the cache holds that
// state already, is dropped that way.
type cloakroom struct {
	mu      sync.Mutex
	last    uint64
	objects map[uint64]metav1.Object
}

const cloakroomSize = 1024

const ticketHead = `{"ticket":`

// write makes a ticket: what an object's JSON would say of itself, and where the
// object is.
func write(number uint64, about metav1.Object) ([]byte, error) {
	type metadata struct {
		Namespace       string `json:"namespace,omitempty"`
		Name            string `json:"name,omitempty"`
		UID             string `json:"uid,omitempty"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	}
	return json.Marshal(struct {
		Number   uint64   `json:"ticket"`
		Metadata metadata `json:"metadata"`
	}{number, metadata{about.GetNamespace(), about.GetName(), string(about.GetUID()), about.GetResourceVersion()}})
}

// leave takes an object in and returns the ticket for it.
func (r *cloakroom) leave(object runtime.Object) ([]byte, error) {
	o, err := hold(object)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.last++
	number := r.last
	r.objects[number] = o
	delete(r.objects, number-cloakroomSize)
	r.mu.Unlock()
	return write(number, o)
}

// take returns the object of a ticket, once.
func (r *cloakroom) take(ticket []byte) (metav1.Object, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(string(ticket), ticketHead), ",")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, &kube.DecodeError{Offset: -1, Why: "no ticket: " + err.Error()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.objects[number]
	delete(r.objects, number)
	if o == nil {
		return nil, errors.New("the object was not fetched in time")
	}
	return o, nil
}

// hold makes of an object what the informer holds: itself if it can be that.
func hold(object any) (metav1.Object, error) {
	if o, is := object.(metav1.Object); is && reflect.TypeOf(object).Kind() == reflect.Pointer {
		return o, nil
	}
	about, err := meta.Accessor(object)
	if err != nil {
		return nil, &kube.DecodeError{Offset: -1, Why: fmt.Sprintf("%T has no metadata: %v", object, err)}
	}
	return &holder{Object: about, object: object}, nil
}

// held returns what hold was given.
func held(o metav1.Object) any {
	if h, is := o.(*holder); is {
		return h.object
	}
	return o
}

// holder holds an object that is no metav1.Object itself, or no pointer.
type holder struct {
	metav1.Object
	object any
}
