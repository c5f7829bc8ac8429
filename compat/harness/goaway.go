package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// goAwayWrites is how many ConfigMaps a client creates and updates.
	goAwayWrites = 300
	// goAwayChance is the highest that kube-apiserver takes: one request of 50.
	goAwayChance = "0.02"
)

// Writing writes with a client: it creates so many ConfigMaps in a namespace, whose names the server
// generates, and updates each once, several at the same time. It returns an error if a request fails,
// and does not repeat one.
type Writing func(ctx context.Context, kubeconfig, namespace string, count int) error

// WritingProgram returns the Writing of a program, which takes these three as its arguments and fails
// with an exit code.
func WritingProgram(command ...string) Writing {
	return func(ctx context.Context, kubeconfig, namespace string, count int) error {
		args := append(command[1:len(command):len(command)], kubeconfig, namespace, fmt.Sprint(count))
		if out, err := exec.CommandContext(ctx, command[0], args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	}
}

// WritesUnderGoAway lets clients write through a relay and through a proxy to a kube-apiserver that
// closes connections under them (--goaway-chance), which loses the requests that it has not begun. No
// write may fail, and kube-apiserver may see none twice.
func WritesUnderGoAway(t *testing.T, clients map[string]Writing) {
	t.Helper()
	s := &Sides{Cluster: StartCluster(t, "--goaway-chance="+goAwayChance)}
	program := Program(t)
	s.allow(t, program)
	behindRelay, behindProxy := NewProxy(t, s.Cluster), NewProxy(t, s.Cluster)
	relay := StartRelay(t, program, s.Cluster.Identity("relay").WriteKubeconfig(t, behindRelay.URL()))
	client := s.Cluster.Identity("writer", "clients")
	for _, way := range []struct {
		name, kubeconfig string
		upstream         *Proxy
	}{
		{"relay", relay.Known(t, client).WriteKubeconfig(t, relay.URL), behindRelay},
		{"proxy", StartFront(t, program, client.WriteKubeconfig(t, behindProxy.URL())), behindProxy},
	} {
		for name, write := range clients {
			t.Run(name+", "+way.name, func(t *testing.T) {
				namespace := way.name + "-" + strings.ToLower(regexp.MustCompile(`\W`).ReplaceAllString(name, "-"))
				s.create(t, "/api/v1/namespaces", "application/json", fmt.Sprintf(`{"metadata":{"name":%q}}`, namespace))
				before := way.upstream.Connections()
				if err := write(t.Context(), way.kubeconfig, namespace, goAwayWrites); err != nil {
					t.Errorf("writes fail: %v", err)
				}
				again := way.upstream.Connections() - before
				seen := s.Cluster.Writes(namespace)
				t.Logf("%d connections more; kube-apiserver has seen %v", again, seen)
				if again == 0 {
					t.Error("kube-apiserver has sent nobody away: the test shows nothing")
				}
				want := map[string]int{"create": goAwayWrites, "update": goAwayWrites}
				if seen["create"] != want["create"] || seen["update"] != want["update"] || len(seen) != len(want) {
					t.Errorf("kube-apiserver has seen %v, want %v", seen, want)
				}
				code, answer := Get(t, s.Cluster.Admin.Client(t), s.Cluster.URL+"/api/v1/namespaces/"+namespace+"/configmaps")
				var list struct {
					Items []struct{ Data map[string]string }
				}
				if err := json.Unmarshal([]byte(answer), &list); err != nil || code != http.StatusOK {
					t.Fatalf("list: %d, %v", code, err)
				}
				updated := len(slices.DeleteFunc(list.Items, func(o struct{ Data map[string]string }) bool {
					return o.Data["updated"] != "true"
				}))
				if updated != goAwayWrites {
					t.Errorf("%d objects are updated, want %d", updated, goAwayWrites)
				}
			})
		}
	}
}

// Writes returns how many requests that write ConfigMaps of a namespace kube-apiserver has seen, by verb.
func (c *Cluster) Writes(namespace string) map[string]int {
	c.t.Helper()
	log, err := os.ReadFile(c.file("audit.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range bytes.Lines(log) {
		var event struct{ Verb, RequestURI string }
		if json.Unmarshal(line, &event) != nil {
			continue // a last line may not be complete yet
		}
		asked, err := url.Parse(event.RequestURI)
		if err != nil {
			c.t.Fatal(err)
		}
		if strings.HasPrefix(asked.Path, "/api/v1/namespaces/"+namespace+"/") &&
			!slices.Contains([]string{"get", "list", "watch"}, event.Verb) {
			seen[event.Verb]++
		}
	}
	return seen
}
