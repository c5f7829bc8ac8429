package clientgo_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer/clientgo"
)

// TestListsAreTakenAtAnyResourceVersion covers the resource versions of fake clients and
// of ListerWatchers written by hand, which no server sends.
func TestListsAreTakenAtAnyResourceVersion(t *testing.T) {
	for _, version := range []string{"", "0"} {
		t.Run(strconv.Quote(version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				events := watch.NewFake()
				lw := lister(version)
				lw.WatchFunc = func(o metav1.ListOptions) (watch.Interface, error) { //nolint:staticcheck // programs have such ListWatches
					if o.ResourceVersion != version {
						t.Errorf("a watch from %q", o.ResourceVersion)
					}
					return events, nil
				}
				i := clientgo.New(semanticsOf(lw, noStreams{}), &corev1.ConfigMap{}, 0, nil)
				l := newLog()
				if _, err := i.AddEventHandler(l); err != nil {
					t.Fatalf("add a handler: %v", err)
				}
				run(t, func() {
					after(settled)
					if got := []string{
						i.LastSyncResourceVersion(), storeVersion(i.GetStore()),
					}; got[0] != version || got[1] != version && got[1] != "" {
						t.Errorf("synced at %q", got)
					}
					events.Add(named("b"))
					events.Delete(named("a"))
					after(settled)
				}, i)
				want := calls{"ns/a": {"initial @=", "delete @="}, "ns/b": {"add @="}}
				if diff := cmp.Diff(want, l.calls()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// TestAStreamingListFallsBackToAListAsInClientGo checks that the fallback comes at once,
// on the same errors, and without a call of the watch error handler.
func TestAStreamingListFallsBackToAListAsInClientGo(t *testing.T) {
	for name, refuse := range map[string]func() (watch.Interface, error){
		"any error":           failing(errors.New("streaming is not for us")),
		"unprocessable":       failing(apierrors.NewInvalid(schema.GroupKind{}, "", nil)),
		"forbidden":           failing(apierrors.NewForbidden(schema.GroupResource{}, "", nil)),
		"not found":           failing(apierrors.NewNotFound(schema.GroupResource{}, "")),
		"a failing server":    failing(apierrors.NewInternalError(errors.New("oh"))),
		"a broken connection": failing(io.ErrUnexpectedEOF),
		"refused":             failing(syscall.ECONNREFUSED),
		"too many requests":   failing(apierrors.NewTooManyRequests("", 1)),
		"ended at once": func() (watch.Interface, error) {
			w := watch.NewFake()
			w.Stop()
			return w, nil
		},
		"an error frame": func() (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Error(&metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError})
			return w, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				at := func(construct clientgo.Constructor) (synced bool, reported int) {
					lw := lister("7")
					refused := 0
					lw.WatchFunc = func(o metav1.ListOptions) (watch.Interface, error) { //nolint:staticcheck // programs have such ListWatches
						if o.SendInitialEvents != nil {
							refused++
							return refuse()
						}
						return watch.NewFake(), nil
					}
					i := construct(lw, &corev1.ConfigMap{}, 0, nil)
					if err := i.SetWatchErrorHandler(func(*cache.Reflector, error) { reported++ }); err != nil {
						t.Fatalf("set the error handler: %v", err)
					}
					run(t, func() { synctest.Wait(); synced = i.HasSynced() }, i)
					if refused == 0 {
						t.Error("no streaming list was tried")
					}
					return synced, reported
				}
				theirs, theirReports := at(cache.NewSharedIndexInformer)
				ours, ourReports := at(clientgo.New)
				if theirs != ours || ours && ourReports != theirReports {
					t.Errorf("at once: client-go %t, ours %t; reported: client-go %d, ours %d",
						theirs, ours, theirReports, ourReports)
				}
			})
		})
	}
}

// TestRunWaitsForCallsOfTheListerWatcher checks that its owner can close it after Run.
func TestRunWaitsForCallsOfTheListerWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		lw := lister("7")
		list := lw.ListFunc                                                //nolint:staticcheck // programs have such ListWatches
		lw.ListFunc = func(o metav1.ListOptions) (runtime.Object, error) { //nolint:staticcheck // programs have such ListWatches
			<-release // it knows nothing of contexts
			return list(o)
		}
		i := clientgo.New(semanticsOf(lw, noStreams{}), &corev1.ConfigMap{}, 0, nil)
		ended := make(chan struct{})
		go func() {
			i.RunWithContext(ctx)
			close(ended)
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("Run returned while a list was under way")
		default:
		}
		if !i.IsStopped() {
			t.Error("it has not stopped")
		}
		close(release)
		<-ended
	})
}

// lister lists one object.
func lister(version string) *cache.ListWatch {
	return &cache.ListWatch{ListFunc: func(metav1.ListOptions) (runtime.Object, error) { //nolint:staticcheck // programs have such ListWatches
		return &corev1.ConfigMapList{
			ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: []corev1.ConfigMap{*named("a")},
		}, nil
	}}
}

func named(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

func failing(err error) func() (watch.Interface, error) {
	return func() (watch.Interface, error) { return nil, err }
}

// noStreams is a client that says so.
type noStreams struct{}

// IsWatchListSemanticsUnSupported is what client-go asks clients.
func (noStreams) IsWatchListSemanticsUnSupported() bool { return true }
