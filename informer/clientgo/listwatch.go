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

// Placeholders for resource versions that servers never give a list, but hand-made
// ListerWatchers and fake clients do: none, and "0". They are no numbers, so that they
// are neither older nor newer than any.
const (
	unversioned = "unversioned"
	zeroVersion = "zero"
)

// fromLister is the informer's form of a list's resource version.
func fromLister(rv string) string {
	switch rv {
	case "":
		return unversioned
	case "0":
		return zeroVersion
	}
	return rv
}

// toLister converts the informer's resource version to that of the ListerWatcher.
func toLister(rv string) string {
	switch rv {
	case unversioned:
		return ""
	case zeroVersion:
		return "0"
	}
	return rv
}

// backend is the wire below an informer over a ListerWatcher, whose objects are
// decoded already. They go through the informer as references.
type backend struct {
	lw       cache.ListerWatcherWithContext
	expected reflect.Type            // nil: any
	kind     schema.GroupVersionKind // of unstructured objects; empty: any
	decoded  decodedObjects
	calls    sync.WaitGroup // of lw that are under way
}

func newBackend(lw cache.ListerWatcher, example runtime.Object) *backend {
	b := &backend{lw: cache.ToListerWatcherWithContext(lw)}
	b.decoded.objects = map[uint64]metav1.Object{}
	if example != nil {
		b.expected = reflect.TypeOf(example)
	}
	if u, is := example.(*unstructured.Unstructured); is {
		b.kind = u.GroupVersionKind()
	}
	return b
}

// await calls f, which may ignore its context, and returns when ctx ends at the latest. A
// later result of f is dropped. calls counts the call until f returns.
func await[R any](ctx context.Context, calls *sync.WaitGroup, f func() (R, error), drop func(R)) (R, error) {
	type answer struct {
		result R
		err    error
	}
	answers := make(chan answer)
	// It ends with the request. A ListerWatcher without contexts can outlive ctx, and Run,
	// by the timeout of its client.
	calls.Go(func() {
		result, err := f()
		select {
		case answers <- answer{result, err}:
		case <-ctx.Done():
			if err == nil {
				drop(result)
			}
		}
	})
	select {
	case a := <-answers:
		return a.result, a.err
	case <-ctx.Done():
		var none R
		return none, context.Cause(ctx)
	}
}

// List requests a page and passes its objects on.
func (b *backend) List(ctx context.Context, o metav1.ListOptions, each func([]byte) error) (metav1.ListMeta, error) {
	if rv := toLister(o.ResourceVersion); rv != o.ResourceVersion {
		o.ResourceVersion, o.ResourceVersionMatch = rv, ""
	}
	list, err := await(ctx, &b.calls, func() (runtime.Object, error) { return b.lw.ListWithContext(ctx, o) },
		func(runtime.Object) {})
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
		reference, err := b.decoded.add(object)
		if err != nil {
			return err
		}
		return each(reference)
	})
	return metav1.ListMeta{ResourceVersion: fromLister(about.GetResourceVersion()), Continue: about.GetContinue()}, err
}

// Watch opens a watch.
func (b *backend) Watch(ctx context.Context, o metav1.ListOptions) (informer.Stream, error) {
	o.ResourceVersion = toLister(o.ResourceVersion)
	o.Watch = true
	w, err := await(ctx, &b.calls, func() (watch.Interface, error) { return b.lw.WatchWithContext(ctx, o) }, watch.Interface.Stop)
	s := &stream{backend: b, ctx: ctx, watch: w, listing: o.SendInitialEvents != nil && *o.SendInitialEvents}
	if err != nil {
		return nil, s.failed(err)
	}
	return s, nil
}

// decode returns the object of a reference.
func (b *backend) decode(reference []byte) (metav1.Object, error) { return b.decoded.take(reference) }

// stream is an open watch.
type stream struct {
	*backend
	ctx   context.Context //nolint:containedctx // the request's own: a watch.Interface need not end with it
	watch watch.Interface
	ahead []watch.Event // what Ready received, at most one

	listing  bool // it is a streaming list, and its end has not come
	received bool // an event came
}

// failed is an error as the informer is to take it. On most errors of a streaming
// list client-go reads the state by LIST at once (reflector.go watchList): what the
// ListerWatcher is over may know no streaming lists, and say so in any way.
func (s *stream) failed(err error) error {
	if !s.listing {
		return err
	}
	switch kube.Classify(err) {
	case kube.OutcomeRefused, kube.OutcomeTooManyRequests, kube.OutcomeExpired, kube.OutcomeTooLarge, kube.OutcomeCanceled:
		return err
	case kube.OutcomeUnknown, kube.OutcomeOK, kube.OutcomeUnauthorized, kube.OutcomeForbidden, kube.OutcomeNotFound,
		kube.OutcomeConflict, kube.OutcomeInvalid, kube.OutcomeTimeout, kube.OutcomeDisconnected, kube.OutcomeServerError,
		kube.OutcomeDecode:
	}
	return fmt.Errorf("%w: %w", informer.ErrListNow, err)
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
			if s.listing && !s.received {
				return client.Frame{}, s.failed(io.ErrUnexpectedEOF)
			}
			return client.Frame{}, io.EOF
		}
		return s.frame(e)
	case <-s.ctx.Done():
		return client.Frame{}, context.Cause(s.ctx)
	}
}

// Ready reports whether Next returns without waiting.
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
	s.received = true
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
		return f, s.failed(apierrors.FromObject(e.Object))
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
		rv := about.GetResourceVersion()
		if about.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			f.Type, rv, s.listing = kube.InitialEventsEnd, fromLister(rv), false
		}
		f.Object, err = write(0, &metav1.ObjectMeta{ResourceVersion: rv})
		return f, err
	}
	f.Object, err = s.decoded.add(e.Object)
	return f, err
}

// expects reports whether an object has the type of the informer.
func (b *backend) expects(object runtime.Object) bool {
	if b.expected != nil && reflect.TypeOf(object) != b.expected {
		return false
	}
	return b.kind.Empty() || object.GetObjectKind().GroupVersionKind() == b.kind
}

// decodedObjects keeps decoded objects while their references go through the informer,
// which decodes each at most once and soon: the last 1024 that were left can be
// taken. What is never asked for, because its reference says that the cache holds that
// state already, is dropped that way.
type decodedObjects struct {
	mu      sync.Mutex
	last    uint64
	objects map[uint64]metav1.Object
}

const maxDecoded = 1024

const referenceHead = `{"reference":`

// write makes a reference: what an object's JSON would say of itself, and where the
// object is.
func write(number uint64, about metav1.Object) ([]byte, error) {
	type metadata struct {
		Namespace       string `json:"namespace,omitempty"`
		Name            string `json:"name,omitempty"`
		UID             string `json:"uid,omitempty"`
		ResourceVersion string `json:"resourceVersion,omitempty"`
	}
	return json.Marshal(struct {
		Number   uint64   `json:"reference"`
		Metadata metadata `json:"metadata"`
	}{number, metadata{about.GetNamespace(), about.GetName(), string(about.GetUID()), about.GetResourceVersion()}})
}

// add stores an object and returns its reference.
func (r *decodedObjects) add(object runtime.Object) ([]byte, error) {
	o, err := hold(object)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.last++
	number := r.last
	r.objects[number] = o
	delete(r.objects, number-maxDecoded)
	r.mu.Unlock()
	return write(number, o)
}

// take returns the object of a reference, once.
func (r *decodedObjects) take(reference []byte) (metav1.Object, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(string(reference), referenceHead), ",")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, &kube.DecodeError{Offset: -1, Why: "no reference: " + err.Error()}
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

// hold returns the object that the informer stores: the object itself if possible.
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

// held is the reverse of hold.
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
