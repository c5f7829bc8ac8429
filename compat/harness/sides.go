package harness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Sides are two ways to one cluster, for the same client: a direct one, and one through a relay
// that has the role which `gapless relay manifests` prints.
type Sides struct {
	Cluster *Cluster
	Relay   *Relay
	// Direct and Relayed are the two ways. Their users have these names in lower case.
	Direct, Relayed *Side
}

// Side is one way to a cluster.
type Side struct {
	Proxy *Proxy
	// Client is the identity for what is behind the proxy.
	Client *Identity
}

// StartSides starts a cluster and a relay, until the test ends.
func StartSides(t testing.TB) *Sides {
	t.Helper()
	s := &Sides{Cluster: StartCluster(t)}
	program := Program(t)
	s.allow(t, program)
	direct, relayed := s.Cluster.Identity("direct", "clients"), s.Cluster.Identity("relayed", "clients")
	s.Direct = &Side{Proxy: NewProxy(t, s.Cluster), Client: direct}
	s.Relay = StartRelay(t, program, s.Cluster.Identity("relay").WriteKubeconfig(t, s.Cluster.URL))
	s.Relay.Mirror(t, s.Relay.Known(t, s.Cluster.Admin).Client(t), "/api/v1/configmaps", "configmaps.v1")
	s.Relayed = &Side{Proxy: NewProxy(t, s.Relay), Client: s.Relay.Known(t, relayed)}
	return s
}

// allow gives the relay its role, and the clients theirs.
func (s *Sides) allow(t testing.TB, program string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "relay", "manifests", "--image", "none", "--resources", "*").Output()
	if err != nil {
		t.Fatalf("gapless relay manifests: %v", err)
	}
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	for document := range strings.SplitSeq(string(out), "---\n") {
		if regexp.MustCompile(`(?m)^kind: ClusterRole$`).MatchString(document) {
			s.create(t, rbac+"clusterroles", "application/yaml", document)
		}
	}
	binding := func(kind, role, subject, name string) string {
		return fmt.Sprintf(
			`{"metadata":{"name":"of-%[4]s"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%[1]q,"name":%[2]q},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":%[3]q,"name":%[4]q}]}`, kind, role, subject, name)
	}
	s.create(t, rbac+"clusterrolebindings", "application/json", binding("ClusterRole", "gapless-relay", "User", "relay"))
	s.create(t, rbac+"namespaces/kube-system/rolebindings", "application/json",
		binding("Role", "extension-apiserver-authentication-reader", "User", "relay"))
	s.create(t, rbac+"clusterrolebindings", "application/json", binding("ClusterRole", "cluster-admin", "Group", "clients"))
	s.create(t, "/api/v1/namespaces", "application/json", `{"metadata":{"name":"elsewhere"}}`)
}

func (s *Sides) create(t testing.TB, path, contentType, body string) {
	t.Helper()
	w := writer{web: s.Cluster.Admin.Client(t)}
	code, answer, err := w.once(t.Context(), http.MethodPost, s.Cluster.URL+path, contentType, []byte(body))
	if err != nil || code != http.StatusCreated {
		t.Fatalf("POST %s: %d %s, %v", path, code, answer, err)
	}
}

// Elsewhere makes writes on ConfigMaps in a namespace that no client reads.
func (s *Sides) Elsewhere(t testing.TB, writes int) {
	t.Helper()
	w := s.writer(t, "/api/v1/namespaces/elsewhere/configmaps", ConfigMap)
	if err := w.work(t.Context(), writes, time.Millisecond); err != nil {
		t.Fatal(err)
	}
}

func (s *Sides) writer(t testing.TB, path string, object func(string, int) map[string]any) *writer {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return &writer{
		web: s.Cluster.Admin.Client(t), url: s.Cluster.URL + path, object: object, live: map[string]bool{},
		random: rand.New(rand.NewPCG(seed, 0)),
	}
}

// Restart restarts kube-apiserver under two informers of one collection, one on each side, and
// checks that the relayed one resumes while the direct one lists again.
func (s *Sides) Restart(t *testing.T, direct, relayed *Informer) {
	t.Helper()
	w := s.writer(t, direct.Path, direct.Object)
	both := []*Informer{direct, relayed}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	write := func(what string) {
		if err := w.work(ctx, 40, pace); err != nil {
			t.Fatal(err)
		}
		for _, inf := range both {
			inf.waitForState(ctx, t, what)
		}
	}
	passed := s.Cluster.Reads(Passed)
	for _, inf := range both {
		inf.writer = w
		running.Go(func() { inf.Run(ctx) }) // ends with ctx
	}
	write("the start")
	s.Elsewhere(t, 20) // what clients have is older than the server's state, as always
	first := relayed.Counter.Lists()
	s.Cluster.Stop()
	s.Cluster.Start()
	write("the restart")
	for _, inf := range both {
		t.Logf("%-20s %s; %s", inf.Name, inf.Counter, inf.Witness)
		for _, v := range inf.Witness.Violations() {
			t.Errorf("%s: %s", inf.Name, v)
		}
	}
	for _, user := range []string{"direct", "relayed", "relay"} {
		t.Logf("kube-apiserver was asked by the user %-8s %s", user+":", s.Cluster.Reads(user))
	}
	if first != 1 || relayed.Counter.Lists() != 1 {
		t.Errorf("the relayed client listed %d times before the restart and %d times in all, want once",
			first, relayed.Counter.Lists())
	}
	if direct.Counter.Lists() < 2 {
		t.Error("the direct client did not list again: the test shows nothing")
	}
	if reads := s.Cluster.Reads("relayed"); reads != (Reads{}) {
		t.Errorf("kube-apiserver served the relayed client: %s", reads)
	}
	if now := s.Cluster.Reads(Passed); now != passed {
		t.Errorf("the relay passed on %s, before the informers began %s", now, passed)
	}
	if reads := s.Cluster.Reads("relay"); reads.Lists > 2 {
		t.Errorf("the relay listed more than at its start and after the restart: %s", reads)
	}
}

// RestartClients is [Sides.Restart] with a client in another language, run on both sides.
func RestartClients(t *testing.T, c Client) {
	t.Helper()
	s := StartSides(t)
	s.create(t, "/api/v1/namespaces", "application/json", fmt.Sprintf(`{"metadata":{"name":%q}}`, c.Namespace))
	informer := func(name string, side *Side) *Informer {
		p, w := c.start(t, side.Client, side.Proxy)
		return &Informer{
			Name: c.Name + ", " + name, Path: "/api/v1/namespaces/" + c.Namespace + "/configmaps", Object: ConfigMap,
			Run:   func(ctx context.Context) { <-ctx.Done() },
			Store: func() map[string]string { return p.Store(c.Namespace) }, Witness: w.Witness, Counter: w.Counter,
		}
	}
	s.Restart(t, informer("direct", s.Direct), informer("relayed", s.Relayed))
}
