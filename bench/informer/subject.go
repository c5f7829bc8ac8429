package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	informers "k8s.io/client-go/informers"

	"github.com/gapless-io/gapless/informer"
)

// subject is an informer that is measured. All of its functions are set.
type subject struct {
	run    func(ctx context.Context) error
	synced func(ctx context.Context) error
	rv     func() string // of the store
	block  func(until <-chan struct{})
	behind func() int // of the blocked handler; -1: it does not say
}

// tally is what the handlers saw.
type tally struct {
	calls  atomic.Int64
	newest atomic.Int64 // resourceVersion
}

func (t *tally) saw(rv string) {
	t.calls.Add(1)
	n, _ := strconv.ParseInt(rv, 10, 64)
	for old := t.newest.Load(); n > old && !t.newest.CompareAndSwap(old, n); old = t.newest.Load() {
	}
}

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"} //nolint:gochecknoglobals // a constant

// slim has nine fields and the labels of a pod.
type slim struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		PodIP string `json:"podIP"`
	} `json:"status"`
}

func (s *slim) GetName() string            { return s.Metadata.Name }
func (s *slim) GetNamespace() string       { return s.Metadata.Namespace }
func (s *slim) GetUID() uid                { return uid(s.Metadata.UID) }
func (s *slim) GetResourceVersion() string { return s.Metadata.ResourceVersion }
func (s *slim) GetLabels() map[string]string {
	return s.Metadata.Labels
}

// newSubject makes what a run measures.
func newSubject(url string, o runOptions, t *tally) (subject, error) {
	cfg := &rest.Config{Host: url, QPS: -1}
	switch o.subject {
	case "client-go typed", "client-go typed protobuf":
		// Generated clients use protobuf by default.
		cfg.ContentType, cfg.AcceptContentTypes = "application/json", "application/json"
		if o.protobuf() {
			cfg.ContentType, cfg.AcceptContentTypes = typeProtobuf, typeProtobuf+",application/json"
		}
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return subject{}, fmt.Errorf("client: %w", err)
		}
		return stock(informers.NewSharedInformerFactory(c, 0).Core().V1().Pods().Informer(), o, t)
	case "client-go unstructured":
		c, err := dynamic.NewForConfig(cfg)
		if err != nil {
			return subject{}, fmt.Errorf("client: %w", err)
		}
		return stock(dynamicinformer.NewDynamicSharedInformerFactory(c, 0).ForResource(pods).Informer(), o, t)
	case "typed":
		return ours(informer.For[*corev1.Pod](cfg, pods, informer.JSONOnly()), o, t), nil
	case "typed protobuf":
		return ours(informer.For[*corev1.Pod](cfg, pods), o, t), nil
	case "typed protobuf stripped":
		return ours(informer.For[*corev1.Pod](cfg, pods, informer.StripManagedFields()), o, t), nil
	case "unstructured":
		return ours(informer.For[*unstructured.Unstructured](cfg, pods), o, t), nil
	case "typed stripped":
		return ours(informer.For[*corev1.Pod](cfg, pods, informer.JSONOnly(), informer.StripManagedFields()), o, t), nil
	case "encoded":
		return ours(informer.Encode(informer.For[*corev1.Pod](cfg, pods)), o, t), nil
	case "encoded unstructured":
		return ours(informer.Encode(informer.For[*unstructured.Unstructured](cfg, pods)), o, t), nil
	case "slim":
		return ours(informer.For[*slim](cfg, pods), o, t), nil
	}
	return subject{}, fmt.Errorf("no subject is called %q", o.subject)
}

func ours[T informer.Object](source informer.Source[T], o runOptions, t *tally) subject {
	var opts []informer.Option
	if o.list {
		opts = append(opts, informer.NoStreamingLists())
	}
	i := informer.New(source, opts...)
	var last *informer.Registration
	for range o.handlers {
		last = i.Handle(func(_ context.Context, e informer.Event[T]) error {
			t.saw(e.RV)
			return nil
		})
	}
	var blocked *informer.Registration
	return subject{
		run: i.Run, rv: i.ResourceVersion, synced: last.WaitSynced,
		block: func(until <-chan struct{}) {
			blocked = i.Handle(func(context.Context, informer.Event[T]) error {
				<-until
				return nil
			})
		},
		behind: func() int { return blocked.Pending() },
	}
}

func stock(i cache.SharedIndexInformer, o runOptions, t *tally) (subject, error) {
	var last cache.ResourceEventHandlerRegistration
	for range o.handlers {
		var err error
		saw := func(object any) {
			if m, is := object.(metav1.Object); is {
				t.saw(m.GetResourceVersion())
			}
		}
		last, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: saw, UpdateFunc: func(_, now any) { saw(now) }, DeleteFunc: saw,
		})
		if err != nil {
			return subject{}, fmt.Errorf("handler: %w", err)
		}
	}
	return subject{
		run: func(ctx context.Context) error {
			i.RunWithContext(ctx)
			return nil
		},
		synced: func(ctx context.Context) error {
			for !last.HasSynced() {
				if err := pause(ctx, time.Millisecond); err != nil {
					return err
				}
			}
			return nil
		},
		rv: func() string { return i.GetStore().LastStoreSyncResourceVersion() },
		block: func(until <-chan struct{}) {
			wait := func(any) { <-until }
			_, _ = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: wait, UpdateFunc: func(_, now any) { wait(now) }, DeleteFunc: wait,
			})
		},
		behind: func() int { return -1 },
	}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
