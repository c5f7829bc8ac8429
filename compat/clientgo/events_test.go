package clientgo

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gapless-io/gapless/compat/harness"
)

// eventTTL is long enough that a machine that is busy writes in between.
const eventTTL = 4 * time.Second

// renewal is a request about an Event that exists. n is another number each time.
type renewal func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, n int) error

// renewals are the requests that write an Event: it lives for a TTL from then.
func renewals() map[string]renewal {
	text := func(n int) string { return fmt.Sprintf("written %d times", n) }
	return map[string]renewal{
		"put": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, n int) error {
			e = e.DeepCopy()
			e.Message, e.ResourceVersion = text(n), ""
			_, err := c.CoreV1().Events("default").Update(ctx, e, metav1.UpdateOptions{})
			return err
		},
		"patch": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, n int) error {
			_, err := c.CoreV1().Events("default").Patch(ctx, e.Name, types.MergePatchType,
				fmt.Appendf(nil, `{"message":%q}`, text(n)), metav1.PatchOptions{})
			return err
		},
		"apply": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, n int) error {
			applied := applycorev1.Event(e.Name, "default").WithUID(e.UID).WithMessage(text(n))
			_, err := c.CoreV1().Events("default").Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "test", Force: true})
			return err
		},
		"view": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, n int) error {
			_, err := c.EventsV1().Events("default").Patch(ctx, e.Name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n), metav1.PatchOptions{})
			return err
		},
	}
}

// idle are the requests that do not write one.
func idle() map[string]renewal {
	return map[string]renewal{
		"nothing": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, _ int) error {
			_, err := c.CoreV1().Events("default").Get(ctx, e.Name, metav1.GetOptions{})
			return err
		},
		"same": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, _ int) error {
			_, err := c.CoreV1().Events("default").Patch(ctx, e.Name, types.MergePatchType,
				fmt.Appendf(nil, `{"message":%q}`, e.Message), metav1.PatchOptions{})
			return err
		},
		"dry": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, n int) error {
			_, err := c.CoreV1().Events("default").Patch(ctx, e.Name, types.MergePatchType,
				fmt.Appendf(nil, `{"message":"%d"}`, n), metav1.PatchOptions{DryRun: []string{"All"}})
			return err
		},
		"conflict": func(ctx context.Context, c kubernetes.Interface, e *corev1.Event, n int) error {
			_, err := c.CoreV1().Events("default").Patch(ctx, e.Name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"resourceVersion":"1"},"message":"%d"}`, n), metav1.PatchOptions{})
			if apierrors.IsConflict(err) {
				return nil
			}
			return err
		},
	}
}

// TestEventsExpireAsThoseOfKubeAPIServer asks both for what renews an Event and what does not. There is
// one difference: kube-apiserver writes an Event without a lease when a finalizer holds its deletion,
// so that it stays until the finalizer is removed.
func TestEventsExpireAsThoseOfKubeAPIServer(t *testing.T) {
	flag := "--event-ttl=" + eventTTL.String()
	for name, server := range map[string]struct {
		start func() *rest.Config
		holds bool // a finalizer holds an Event under deletion
	}{
		"kube-apiserver": {func() *rest.Config {
			c := harness.StartCluster(t, flag)
			return configOf(t, c.Admin.WriteKubeconfig(t, c.URL))
		}, true},
		"gapless": {func() *rest.Config { return configOf(t, harness.Start(t, flag).Kubeconfig) }, false},
	} {
		cfg := server.start()
		web, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatalf("make an HTTP client: %v", err)
		}
		t.Cleanup(web.CloseIdleConnections)
		cfg.QPS = -1
		c, err := kubernetes.NewForConfigAndClient(cfg, web)
		if err != nil {
			t.Fatalf("make a client: %v", err)
		}
		harness.Eventually(t, "the namespace default is there", func() bool {
			_, err := c.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
			return err == nil
		})
		t.Run(name, func(t *testing.T) {
			for name, renew := range renewals() {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					eventOf(t, c, name).renewed(renew)
				})
			}
			for name, request := range idle() {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					eventOf(t, c, name).expires(request)
				})
			}
			t.Run("finalizer", func(t *testing.T) {
				t.Parallel()
				eventOf(t, c, "finalizer", "example.com/nobody").expires(idle()["nothing"])
			})
			t.Run("deleted", func(t *testing.T) {
				t.Parallel()
				x := eventOf(t, c, "deleted", "example.com/nobody")
				x.remove()
				if !server.holds {
					x.expires(idle()["nothing"])
					return
				}
				for range 2 { // the second one certainly expires later
					eventOf(t, c, "later").expires(idle()["nothing"])
				}
				e, err := c.CoreV1().Events("default").Get(t.Context(), "deleted", metav1.GetOptions{})
				if err != nil || e.UID != x.event.UID {
					t.Errorf("the Event is %v: %v", e, err)
				}
			})
		})
	}
}

func configOf(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	return cfg
}

// rvOf is the resourceVersion of an Event, as a number.
func rvOf(t *testing.T, e *corev1.Event) int {
	t.Helper()
	rv, err := strconv.Atoi(e.ResourceVersion)
	if err != nil {
		t.Fatalf("read a resourceVersion: %v", err)
	}
	return rv
}

// expiring is an Event of a test.
type expiring struct {
	t       *testing.T
	c       kubernetes.Interface
	event   *corev1.Event // as it was created
	written time.Time     // a moment before its last write
}

// eventOf creates an Event.
func eventOf(t *testing.T, c kubernetes.Interface, name string, finalizers ...string) *expiring {
	t.Helper()
	x := &expiring{t: t, c: c, written: time.Now()}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: "default", Finalizers: finalizers},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"}, Message: "created",
	}
	var err error
	if x.event, err = c.CoreV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create the Event %s: %v", name, err)
	}
	return x
}

// remove deletes the Event, which a finalizer holds.
func (x *expiring) remove() {
	x.t.Helper()
	x.written = time.Now()
	err := x.c.CoreV1().Events("default").Delete(x.t.Context(), x.event.Name, metav1.DeleteOptions{})
	if err == nil {
		x.event, err = x.c.CoreV1().Events("default").Get(x.t.Context(), x.event.Name, metav1.GetOptions{})
	}
	if err != nil || x.event.DeletionTimestamp == nil {
		x.t.Fatalf("delete the Event, which is %v: %v", x.event, err)
	}
}

// renewed writes the Event for longer than its TTL, and then waits for its end.
func (x *expiring) renewed(renew renewal) {
	x.t.Helper()
	const pause = eventTTL / 4
	rounds := 0
	for n := 1; n <= 6; n++ {
		<-time.After(pause)
		before := time.Now()
		err := renew(x.t.Context(), x.c, x.event, n)
		now, getErr := x.c.CoreV1().Events("default").Get(x.t.Context(), x.event.Name, metav1.GetOptions{})
		switch {
		case err == nil && getErr == nil && now.UID == x.event.UID:
			x.written = before
		case time.Since(x.written) < eventTTL:
			x.t.Fatalf("the Event is %v: %v, %v, %v after its last write", now, err, getErr, time.Since(x.written))
		case rounds == 10:
			x.t.Fatal("this machine writes too seldom for the test")
		default: // the machine was busy: again, with another Event
			rounds++
			err := x.c.CoreV1().Events("default").Delete(x.t.Context(), x.event.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				x.t.Fatalf("delete the Event: %v", err)
			}
			*x = *eventOf(x.t, x.c, x.event.Name)
			n = 0
		}
	}
	x.expires(idle()["nothing"])
}

// expires repeats a request until the Event is gone, and looks at what watches see of that.
func (x *expiring) expires(request renewal) {
	x.t.Helper()
	n := 0
	harness.Eventually(x.t, "the Event is gone", func() bool {
		<-time.After(eventTTL / 20)
		n++
		err := request(x.t.Context(), x.c, x.event, n)
		if err != nil && !apierrors.IsNotFound(err) {
			x.t.Fatalf("ask about the Event: %v", err)
		}
		return err != nil
	})
	if lived := time.Since(x.written); lived < eventTTL {
		x.t.Errorf("the Event lived for %v", lived)
	}
	open, err := x.c.CoreV1().Events("default").Watch(x.t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + x.event.Name, ResourceVersion: x.event.ResourceVersion,
	})
	if err != nil {
		x.t.Fatalf("watch the Event: %v", err)
	}
	defer open.Stop()
	last := x.event
	for e := range open.ResultChan() {
		event, is := e.Object.(*corev1.Event)
		switch {
		case is && e.Type == watch.Modified:
			last = event
		case !is || e.Type != watch.Deleted:
			x.t.Fatalf("the watch has %v %v", e.Type, e.Object)
		case event.UID != x.event.UID || event.Message != last.Message || rvOf(x.t, event) <= rvOf(x.t, last):
			x.t.Fatalf("the Event was deleted as %v, its last content was %v", event, last)
		default:
			return
		}
	}
	x.t.Error("the watch has ended")
}
