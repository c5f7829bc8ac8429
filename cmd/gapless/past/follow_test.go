package past_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// text is what a command has printed so far.
type text struct {
	mu sync.Mutex
	// mu guards b.
	b bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}

// shows waits until something was printed.
func (t *text) shows(tb testing.TB, want string) {
	tb.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(t.String(), want); {
		if time.Now().After(deadline) {
			tb.Fatalf("%q was not printed in 30 s:\n%s", want, t)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// watches runs a command in the background; stop ends it, and returns its error.
func (r *rig) watches(args ...string) (out, stderr *text, stop func() error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	out, stderr = &text{}, &text{}
	ended := make(chan error, 1)
	go func() { ended <- r.runTo(ctx, out, stderr, args...) }() // ends with ctx
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	r.t.Cleanup(func() { _ = stop() }) // a test that wants to know has called it
	return out, stderr, stop
}

func TestAHistoryIsWatchedOverARestart(t *testing.T) {
	s, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.merge("b", configMaps+"/x", `{"data":{"a":"2"}}`)
	out, stderr, stop := r.watches("history", "cm/x", "--watch")
	out.shows(t, "1→2")
	r.merge("c", configMaps+"/x", `{"data":{"a":"3"}}`)
	r.apply("c", configMaps+"/y", configMap("y", "1"))
	out.shows(t, "2→3")
	s.Restart(t)
	r.merge("d", configMaps+"/x", `{"data":{"a":"4"}}`)
	r.merge("d", configMaps+"/x", `{"data":{"a":"5"}}`)
	r.remove(configMaps + "/x")
	out.shows(t, "deleted")
	if err := stop(); err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, stderr)
	}
	const want = `TIME RESOURCEVERSION BY CHANGE
# # a (Apply) created
# # b (Update) data.a 1→2
# # c (Update) data.a 2→3
# # d (Update) data.a 3→4
# # d (Update) data.a 4→5
# # - deleted
`
	if diff := cmp.Diff(want, general(out.String())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAHistoryOfASelectionIsWatchedFromNowOn(t *testing.T) {
	_, r := openServer(t)
	r.apply("a", configMaps+"/before", configMap("before", "1"))
	pause()
	out, stderr, stop := r.watches("history", "cm", "-w", "--since", "0s", "-l", "a=b", "-o", "json")
	stderr.shows(t, "# no change of configmaps is known after")
	r.apply("a", configMaps+"/other", configMap("other", "1"))
	r.apply("a", configMaps+"/x", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"a":"b"}}}`)
	r.merge("b", configMaps+"/x", `{"metadata":{"labels":{"a":"c"}}}`)
	out.shows(t, "DELETED")
	if err := stop(); err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, stderr)
	}
	if all := documents(t, out.String()); len(all) != 2 || all[0]["type"] != "ADDED" || all[0]["name"] != "x" {
		t.Errorf("got\n%s", out)
	}
}

// TestAWatchedHistoryEndsWithWhatDoesNotPass: the user may get the object, but not watch it.
func TestAWatchedHistoryEndsWithWhatDoesNotPass(t *testing.T) {
	s, r := openServer(t)
	s.Apply(t, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":"default"},
"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"r","namespace":"default"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	out, _, err := newRig(t, s.User(t, "eve")).run("history", "cm/x", "--watch")
	if err == nil || !strings.Contains(err.Error(), "forbidden") || !strings.Contains(out, "created") {
		t.Errorf("got %v\n%s", err, out)
	}
}
