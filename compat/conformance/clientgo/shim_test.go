package cache

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/clientgo"
)

// The names of package cache that its tests use and that are not an informer's.
type (
	Controller                        = cache.Controller
	HandlerOptions                    = cache.HandlerOptions
	IndexFunc                         = cache.IndexFunc
	ListWatch                         = cache.ListWatch
	ListerWatcher                     = cache.ListerWatcher
	Reflector                         = cache.Reflector
	ResourceEventHandler              = cache.ResourceEventHandler
	ResourceEventHandlerDetailedFuncs = cache.ResourceEventHandlerDetailedFuncs
	ResourceEventHandlerFuncs         = cache.ResourceEventHandlerFuncs
	ResourceEventHandlerRegistration  = cache.ResourceEventHandlerRegistration
	SharedInformer                    = cache.SharedInformer
	Store                             = cache.Store
	TransformFunc                     = cache.TransformFunc
)

var (
	DeletionHandlingMetaNamespaceKeyFunc = cache.DeletionHandlingMetaNamespaceKeyFunc
	MetaNamespaceKeyFunc                 = cache.MetaNamespaceKeyFunc
	ShutDownEventHandler                 = cache.ShutDownEventHandler
	WaitFor                              = cache.WaitFor
	WaitForCacheSync                     = cache.WaitForCacheSync
)

// sharedIndexInformer is a replacement, where the tests expect client-go's informer.
type sharedIndexInformer struct {
	cache.SharedIndexInformer

	// Fields that tests set or read, and of which the replacement has none: it runs on the
	// time that is, or on synctest's.
	clock             *clocktesting.FakeClock
	resyncCheckPeriod time.Duration
	processor         *sharedProcessor
}

// sharedProcessor is a part of client-go's informer that the replacement does not have.
type sharedProcessor struct {
	clock *clocktesting.FakeClock
}

type processorListener struct {
	resyncPeriod time.Duration
}

func (*sharedProcessor) getListener(ResourceEventHandlerRegistration) *processorListener {
	return &processorListener{}
}

// sharedProcessorRunHook is called by client-go between two steps of its start. The
// replacement has no such steps.
var sharedProcessorRunHook atomic.Pointer[func()]

// NewSharedInformer makes a replacement.
func NewSharedInformer(lw ListerWatcher, example runtime.Object, resync time.Duration) SharedInformer {
	return &sharedIndexInformer{
		SharedIndexInformer: clientgo.New(lw, example, resync, cache.Indexers{}),
		processor:           &sharedProcessor{},
	}
}

// NewInformer makes a replacement with one handler, and a controller that runs it.
func NewInformer(lw ListerWatcher, example runtime.Object, resync time.Duration, h ResourceEventHandler) (Store, Controller) {
	return NewTransformingInformer(lw, example, resync, h, nil)
}

// NewTransformingInformer is NewInformer with a transform. The handler gets each
// version: TestUpdate counts on it.
func NewTransformingInformer(lw ListerWatcher, example runtime.Object, resync time.Duration, h ResourceEventHandler,
	transform TransformFunc,
) (Store, Controller) {
	each := clientgo.With(clientgo.Handlers(informer.Every(1000, informer.Block)))
	i := each(lw, example, resync, cache.Indexers{})
	if _, err := i.AddEventHandler(h); err != nil {
		panic(err)
	}
	if err := i.SetTransform(transform); err != nil {
		panic(err)
	}
	return i.GetStore(), i
}

// inside is what ../testdata/inside.go adds to the replacement.
type inside interface {
	Started() bool
	Handlers() int
	Registered(ResourceEventHandlerRegistration) bool
}

func insideOf(i SharedInformer) inside {
	return i.(*sharedIndexInformer).SharedIndexInformer.(inside)
}

// The tests' own three functions of these names read fields of client-go's informer.
func isStarted(i SharedInformer) bool        { return insideOf(i).Started() }
func eventHandlerCount(i SharedInformer) int { return insideOf(i).Handlers() }
func isRegistered(i SharedInformer, h ResourceEventHandlerRegistration) bool {
	return insideOf(i).Registered(h)
}
