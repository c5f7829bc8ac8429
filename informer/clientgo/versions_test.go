package clientgo_test

import (
	"reflect"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"k8s.io/client-go/tools/cache"
)

// The tests compile with each client-go from 0.33 on. What follows is for methods that some
// of these versions do not have.

// neverExitWatch is a channel of client-go 0.33 and 0.34 (reflector.go) that never receives.
// It is made outside of the bubbles of testing/synctest, in which time stands still while
// somebody waits for it. TestMain makes it nil, which does the same.
//
//go:linkname neverExitWatch k8s.io/client-go/tools/cache.neverExitWatch
var neverExitWatch <-chan time.Time

// done is the part of cache.DoneChecker, of client-go 0.36 and newer, that can be named.
type done interface {
	Name() string
	Done() <-chan struct{}
}

// checkerOf calls HasSyncedChecker. With client-go before 0.36 there is none, and it returns nil.
func checkerOf(v any) done {
	method := reflect.ValueOf(v).MethodByName("HasSyncedChecker")
	if !method.IsValid() {
		return nil
	}
	return method.Call(nil)[0].Interface().(done)
}

// isDone reports what a checker says; "" without one.
func isDone(v any) string {
	checker := checkerOf(v)
	if checker == nil {
		return ""
	}
	select {
	case <-checker.Done():
		return "done"
	default:
		return "not done"
	}
}

// storeVersion returns the resource version of a store; "" if this client-go has none.
func storeVersion(s cache.Store) string {
	if versioned, is := s.(interface{ LastStoreSyncResourceVersion() string }); is {
		return versioned.LastStoreSyncResourceVersion()
	}
	return ""
}

// semanticsOf is cache.ToListWatcherWithWatchListSemantics of client-go 0.35 and newer: the
// ListerWatcher of a client that may say that it has no streaming lists.
func semanticsOf(lw *cache.ListWatch, client any) cache.ListerWatcher { return listWatchOf{lw, client} }

type listWatchOf struct {
	*cache.ListWatch
	client any
}

// IsWatchListSemanticsUnSupported is what client-go asks a ListerWatcher.
func (l listWatchOf) IsWatchListSemanticsUnSupported() bool {
	says, is := l.client.(interface{ IsWatchListSemanticsUnSupported() bool })
	return is && says.IsWatchListSemanticsUnSupported()
}

// shutDown is cache.ShutDownEventHandler of client-go 0.37.
func shutDown(t *testing.T, i cache.SharedIndexInformer, r cache.ResourceEventHandlerRegistration) {
	t.Helper()
	if err := i.RemoveEventHandler(r); err != nil {
		t.Errorf("remove the handler: %v", err)
	}
	<-r.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
}
