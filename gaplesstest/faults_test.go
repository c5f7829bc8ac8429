package gaplesstest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/gaplesstest"
)

func get(t *testing.T, c kubernetes.Interface, name string) error {
	t.Helper()
	_, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	return err
}

func TestFaultsAreInjectedUntilTheyAreRemoved(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	c := client(t, s.RESTConfig())
	create(t, c, "a")
	s.Inject(t, "forbidden,verbs=get,names=a")
	if err := get(t, c, "a"); !apierrors.IsForbidden(err) {
		t.Errorf("with the rule: %v", err)
	}
	s.Restart(t)
	if err := get(t, c, "a"); !apierrors.IsForbidden(err) {
		t.Errorf("after a restart: %v", err)
	}
	if all := s.Faults().Rules(); len(all) != 1 || all[0].Acted != 2 {
		t.Errorf("the rules are %+v, want one that acted twice", all)
	}
	s.Keep(t)
	s.Reset(t)
	if err := get(t, c, "a"); err != nil {
		t.Errorf("after a reset: %v", err)
	}
}

// TestResetsReachClients cuts a connection on the socket, which is wrapped several times.
func TestResetsReachClients(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	cfg := s.RESTConfig()
	cfg.NextProtos = []string{"http/1.1"} // that of HTTP/2 says "unexpected EOF" for it
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	s.Inject(t, "cut,how=reset,verbs=get")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/version", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	answer, err := web.Do(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the request ends with %v, want a reset connection", err)
	}
}

func TestRestartsWithOtherData(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	c := client(t, s.RESTConfig())
	create(t, c, "a")
	s.Keep(t)
	last := create(t, c, "b")
	s.RestartWith(t, fault.OlderStore)
	if got := fmt.Sprint(names(t, c)); got != "[a]" {
		t.Errorf("with the older store: %s", got)
	}
	if again := create(t, c, "c"); again.ResourceVersion > last.ResourceVersion {
		t.Errorf("resource versions went on: from %s to %s", last.ResourceVersion, again.ResourceVersion)
	}
	s.Reset(t)
	if got := fmt.Sprint(names(t, c)); got != "[a]" {
		t.Errorf("after a reset of the older store: %s", got)
	}
	s.RestartWith(t, fault.WipedStore)
	if got := fmt.Sprint(names(t, c)); got != "[]" {
		t.Errorf("with a wiped store: %s", got)
	}
	create(t, c, "d")
	s.Reset(t)
	if got := fmt.Sprint(names(t, c)); got != "[]" {
		t.Errorf("after a reset of the wiped store: %s", got)
	}
}

func TestAFaultRestartsWithOtherData(t *testing.T) {
	t.Parallel()
	s := gaplesstest.New(t)
	c := client(t, s.RESTConfig())
	s.Inject(t, "restart,store=older,verbs=get,names=a,count=1") // keeps what is stored now
	create(t, c, "a")
	_ = get(t, c, "a") // it may be cut off, or client-go asks again
	for !apierrors.IsNotFound(get(t, c, "a")) {
		<-time.After(time.Millisecond)
	}
}

// TestClientsInMemoryReachTheServerAgain restarts a server that has no port.
func TestClientsInMemoryReachTheServerAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := gaplesstest.New(t, gaplesstest.WithoutPort())
		c := client(t, s.RESTConfig())
		create(t, c, "a")
		s.Restart(t)
		s.Crash(t)
		if err := get(t, c, "a"); err != nil {
			t.Errorf("get: %v", err)
		}
		begin := time.Now()
		s.Inject(t, "delay,for=1h,verbs=get")
		if err := get(t, c, "a"); err != nil || time.Since(begin) < time.Hour {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}

// TestAFaultRestartsAServerInABubble restarts a server with each kind of data, and then lets it refuse
// connections for ten minutes, in virtual time.
func TestAFaultRestartsAServerInABubble(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	for store, want := range map[fault.Store]string{fault.SameStore: "[a b]", fault.OlderStore: "[a]", fault.WipedStore: "[]"} {
		synctest.Test(t, func(t *testing.T) {
			s := gaplesstest.New(t, gaplesstest.WithoutPort())
			c := client(t, s.RESTConfig())
			create(t, c, "a")
			s.Inject(t, "restart,store="+string(store)+",verbs=get,names=x,count=1") // keeps what is stored now
			create(t, c, "b")
			open, err := c.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=x"})
			if err != nil {
				t.Fatalf("watch config maps: %v", err)
			}
			_ = get(t, c, "x")            // it may be cut off, or client-go asks again
			for range open.ResultChan() { // its end is what matters: the server drains
			}
			for !apierrors.IsNotFound(get(t, c, "x")) {
				<-time.After(time.Second)
			}
			if got := fmt.Sprint(names(t, c)); got != want {
				t.Errorf("after a restart with the store %q there are %s, want %s", store, got, want)
			}
			s.Inject(t, "restart,for=10m,verbs=get,names=y,count=1")
			begin := time.Now()
			for first := true; first || !apierrors.IsNotFound(get(t, c, "y")); first = false {
				_ = get(t, c, "y") // it is cut off, or refused
				<-time.After(time.Second)
			}
			if passed := time.Since(begin); passed < 10*time.Minute || passed > 20*time.Minute {
				t.Errorf("connections were refused for %v, want 10 minutes", passed)
			}
		})
	}
}

// TestOneSeedFailsTheSameRequests compares servers with one seed.
func TestOneSeedFailsTheSameRequests(t *testing.T) {
	t.Parallel()
	failed := func(seed uint64) string {
		s := gaplesstest.New(t, gaplesstest.Seed(seed))
		c := client(t, s.RESTConfig())
		s.Inject(t, "forbidden,verbs=get,resources=configmaps,probability=0.5")
		var b strings.Builder
		for range 64 {
			fmt.Fprint(&b, apierrors.IsForbidden(get(t, c, "a")), " ")
		}
		return b.String()
	}
	first := failed(7)
	if again := failed(7); again != first {
		t.Errorf("the same seed:\n%s\n%s", first, again)
	}
	if other := failed(8); other == first {
		t.Errorf("another seed fails the same requests: %s", other)
	}
}

// slow is an action that takes half a second, whatever becomes of its rule or the server.
type slow struct{}

func (slow) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	<-time.After(500 * time.Millisecond)
	next.ServeHTTP(w, r)
}

// TestARestartAnswersRequestsInProgress stops a server while it serves a request.
func TestARestartAnswersRequestsInProgress(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2", "http/1.1"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			if got, _ := restarted(t, protocol, slow{}); !strings.HasPrefix(got, "200") {
				t.Errorf("the request that was in progress ends with %s", got)
			}
		})
	}
}

// TestARestartEndsWhatFaultsHold at once: the request is answered, or its connection is cut.
func TestARestartEndsWhatFaultsHold(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"h2", "http/1.1"} {
		for want, action := range map[string]fault.Action{"200": &fault.Delay{For: time.Hour}, "Get": &fault.Silence{}} {
			t.Run(protocol+" "+want, func(t *testing.T) {
				t.Parallel()
				got, took := restarted(t, protocol, action)
				if !strings.HasPrefix(got, want) {
					t.Errorf("the request that was held ends with %q, want %s…", got, want)
				}
				if took > 5*time.Second { // which is half of what a server waits for requests
					t.Errorf("the restart took %v", took)
				}
			})
		}
	}
}

// restarted restarts a server while an action is applied to a request. It returns the status of
// the answer, or the error, and how long the restart took.
func restarted(t *testing.T, protocol string, action fault.Action) (got string, took time.Duration) {
	t.Helper()
	s := gaplesstest.New(t)
	cfg := s.RESTConfig()
	cfg.NextProtos = []string{protocol}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	t.Cleanup(web.CloseIdleConnections)
	if err := s.Faults().Add(fault.Rule{Match: fault.Match{Verbs: []string{"get"}}, Action: action, Count: 1}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/version", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	answered := make(chan string, 1)
	go func() { // ends with the answer
		answer, err := web.Do(request)
		if err != nil {
			answered <- err.Error()
			return
		}
		_ = answer.Body.Close()
		answered <- answer.Status
	}()
	for s.Faults().Rules()[0].Acted == 0 {
		<-time.After(time.Millisecond)
	}
	begin := time.Now()
	s.Restart(t)
	took = time.Since(begin)
	return <-answered, took
}
