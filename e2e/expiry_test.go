package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
)

// eventServer is a server in a bubble that keeps Events for an hour.
type eventServer struct {
	*gaplesstest.Server

	t       *testing.T
	clients kubernetes.Interface
	begun   time.Time
}

// withEvents runs a test in virtual time.
func withEvents(t *testing.T, test func(t *testing.T, s *eventServer)) {
	t.Helper()
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &eventServer{t: t, Server: gaplesstest.New(t, gaplesstest.WithoutPort(),
			gaplesstest.Config(func(c *gapless.Config) { c.EventTTL = time.Hour }))}
		cfg := s.RESTConfig()
		web, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatalf("make an HTTP client: %v", err)
		}
		t.Cleanup(web.CloseIdleConnections)
		if s.clients, err = kubernetes.NewForConfigAndClient(cfg, web); err != nil {
			t.Fatalf("make a client: %v", err)
		}
		s.begun = time.Now()
		test(t, s)
	})
}

// until waits until a time after the beginning.
func (s *eventServer) until(after time.Duration) {
	<-time.After(time.Until(s.begun.Add(after)))
}

// create creates an Event.
func (s *eventServer) create(name string, finalizers ...string) {
	s.t.Helper()
	_, err := s.clients.CoreV1().Events("default").Create(s.t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		InvolvedObject: corev1.ObjectReference{Namespace: "default", Kind: "Pod", Name: "p"}, Message: name + " began",
	}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatalf("create the Event %s: %v", name, err)
	}
}

// patch sets the message of an Event.
func (s *eventServer) patch(name, message string, dryRun ...string) {
	s.t.Helper()
	_, err := s.clients.CoreV1().Events("default").Patch(s.t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"message":%q}`, message), metav1.PatchOptions{DryRun: dryRun})
	if err != nil {
		s.t.Fatalf("patch the Event %s: %v", name, err)
	}
}

// names are the Events that there are, and the resourceVersion of their list.
func (s *eventServer) names() (all, rv string) {
	s.t.Helper()
	list, err := s.clients.CoreV1().Events("").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatalf("list Events: %v", err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return strings.Join(names, " "), list.ResourceVersion
}

// expect requires which Events there are some time after the beginning.
func (s *eventServer) expect(after time.Duration, want string) {
	s.t.Helper()
	s.until(after)
	if got, _ := s.names(); got != want {
		s.t.Errorf("%v after the beginning there are %q, want %q", after, got, want)
	}
}

func TestEventsExpireAnHourAfterTheirLastWrite(t *testing.T) {
	withEvents(t, func(t *testing.T, s *eventServer) {
		s.create("plain")
		s.create("renewed")
		s.create("held", "example.com/never") // a finalizer that nobody removes
		if err := s.clients.CoreV1().Events("default").Delete(t.Context(), "held", metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete an Event with a finalizer: %v", err)
		}
		if _, err := s.clients.EventsV1().Events("default").Create(t.Context(), &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: "viewed"}, EventTime: metav1.NowMicro(), ReportingController: "example.com/c",
			ReportingInstance: "c", Action: "act", Reason: "Reason", Type: "Normal",
		}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create an Event of events.k8s.io: %v", err)
		}
		s.until(30 * time.Minute)
		s.patch("renewed", "again")
		s.patch("plain", "plain began")         // nothing is written
		s.patch("plain", "not for good", "All") // nor here
		_, rv := s.names()
		timeout := int64(7200)
		open, err := s.clients.CoreV1().Events("").Watch(t.Context(),
			metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &timeout})
		if err != nil {
			t.Fatalf("watch Events: %v", err)
		}
		s.expect(time.Hour-time.Second, "held plain renewed viewed")
		s.expect(time.Hour+time.Minute, "renewed")
		s.expect(time.Hour+30*time.Minute-time.Second, "renewed")
		s.expect(time.Hour+31*time.Minute, "")
		last := map[string]string{}
		seen := map[string]bool{} // resourceVersions
		for range 4 {
			e := <-open.ResultChan()
			event, is := e.Object.(*corev1.Event)
			if !is || e.Type != watch.Deleted {
				t.Fatalf("the watch has %v %v", e.Type, e.Object)
			}
			last[event.Name] = event.Message
			seen[event.ResourceVersion] = true
		}
		open.Stop()
		want := map[string]string{"plain": "plain began", "renewed": "again", "held": "held began", "viewed": ""}
		if !maps.Equal(last, want) {
			t.Errorf("the last contents are %v, want %v", last, want)
		}
		if len(seen) != 4 {
			t.Errorf("the deletions have the resourceVersions %v, want one each", slices.Collect(maps.Keys(seen)))
		}
	})
}

func TestRestartsDoNotRenewEvents(t *testing.T) {
	withEvents(t, func(t *testing.T, s *eventServer) {
		s.create("early")
		s.until(40 * time.Minute)
		s.create("late")
		s.Restart(t)
		s.until(50 * time.Minute)
		s.Crash(t)
		s.expect(time.Hour-time.Second, "early late")
		s.expect(time.Hour+time.Minute, "late")
		s.expect(time.Hour+39*time.Minute, "late")
		s.expect(time.Hour+41*time.Minute, "")
	})
}

func TestAResetRenewsTheEventsThatItBringsBack(t *testing.T) {
	withEvents(t, func(t *testing.T, s *eventServer) {
		s.create("kept")
		s.Keep(t)
		s.create("other")
		s.expect(time.Hour+time.Minute, "")
		s.Reset(t)
		s.expect(2*time.Hour, "kept")
		s.expect(2*time.Hour+2*time.Minute, "")
	})
}

func TestRulesReachTheExpiryOfEvents(t *testing.T) {
	withEvents(t, func(t *testing.T, s *eventServer) {
		s.create("failing")
		s.Inject(t, "store-write,userAgents="+gapless.EventExpiry+",resources=events,verbs=delete,fail=before,count=3")
		s.until(20 * time.Minute)
		s.create("contended")
		s.expect(time.Hour+time.Minute, "contended") // after three failures
		s.Inject(t, "store-write,userAgents="+gapless.EventExpiry+",names=contended,delay=10m,count=1")
		s.until(time.Hour + 25*time.Minute)
		s.patch("contended", "written while its deletion waits")
		s.expect(2*time.Hour+25*time.Minute-time.Second, "contended")
		s.expect(2*time.Hour+31*time.Minute, "") // its age was not looked at while the deletion waited
	})
}

func TestAServerOfATestKeepsEventsUnlessItIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gaplesstest.New(t, gaplesstest.WithoutPort())
		s.Apply(t, "{apiVersion: v1, kind: Event, metadata: {name: a, namespace: default}, involvedObject: {namespace: default}}")
		<-time.After(3 * time.Hour)
		clients, err := kubernetes.NewForConfig(s.RESTConfig())
		if err != nil {
			t.Fatalf("make a client: %v", err)
		}
		if _, err := clients.CoreV1().Events("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Errorf("get the Event after three hours: %v", err)
		}
	})
}

// TestTheFlagSaysHowLongEventsStay runs the program in real time.
func TestTheFlagSaysHowLongEventsStay(t *testing.T) {
	t.Parallel()
	p := startProcessOn(t, filepath.Join(t.TempDir(), "data"), "--event-ttl", "1s")
	c := p.caller(t, http2)
	const events = "/api/v1/namespaces/default/events"
	made := time.Now()
	c.must(http.StatusCreated, http.MethodPost, events, `{"metadata":{"name":"a"},"involvedObject":{"namespace":"default"}}`)
	until(t, "the Event is gone", time.Minute, func() bool {
		return c.do(http.MethodGet, events+"/a", "").code == http.StatusNotFound
	})
	if lived := time.Since(made); lived < time.Second {
		t.Errorf("the Event was gone after %v", lived)
	}
	if n := c.metric(t, "gapless_event_expiry_deletions_total"); n != 1 {
		t.Errorf("%v deletions are counted", n)
	}
	if n := c.metric(t, "gapless_event_expiry_errors_total"); n != 0 {
		t.Errorf("%v errors are counted", n)
	}
}

func TestAnEventTTLOfLessThanASecondIsRefused(t *testing.T) {
	t.Parallel()
	_, err := gapless.New(gapless.Config{Memory: true, EventTTL: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "--event-ttl") || !strings.Contains(err.Error(), "at least 1s") {
		t.Errorf("the error is %v", err)
	}
}
