package past_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/gaplesstest"
)

// live makes a Deployment live: created, scaled, two statuses, deleted and created again.
func live(r *rig) {
	r.apply("kubectl", deployments+"/web", web)
	r.merge("hpa", deployments+"/web/scale", `{"spec":{"replicas":5}}`)
	r.merge("controller", deployments+"/web/status", `{"status":{"replicas":1}}`)
	r.merge("controller", deployments+"/web/status", `{"status":{"replicas":5}}`)
	r.merge("kubectl-edit", deployments+"/web", `{"metadata":{"annotations":{"why":"it \u001b[2J must"}}}`)
	r.remove(deployments + "/web")
	r.apply("kubectl", deployments+"/web", web)
}

func TestTheHistoryOfAnObjectSaysWhenWhoAndWhat(t *testing.T) {
	_, r := openServer(t)
	live(r)
	const want = `TIME RESOURCEVERSION BY CHANGE
# # kubectl (Apply) created
# # - deleted
# # kubectl-edit (Update) +metadata.annotations.why it ·[2J must
# # controller (Update status) 2 status changes, the first at #
# # hpa (Update scale) spec.replicas 3→5
# # kubectl (Apply) created
`
	for _, args := range [][]string{{"deployments/web"}, {"deploy", "web"}, {"Deployment.apps/web", "--since", "1h"}} {
		if diff := cmp.Diff(want, general(r.shows(append([]string{"history"}, args...)...))); diff != "" {
			t.Errorf("%v (-want +got):\n%s", args, diff)
		}
	}
	of := r.shows("history", "deployments")
	if !strings.Contains(general(of), "# # web hpa (Update scale) spec.replicas 3→5") {
		t.Errorf("of all objects there are no names:\n%s", of)
	}
	all := r.shows("history", "deploy", "-A", "--status")
	if !strings.Contains(all, "default/web") || strings.Count(all, "status.replicas") != 2 {
		t.Errorf("with --status:\n%s", all)
	}
	wide := r.shows("history", "deploy/web", "-o", "wide")
	if !strings.Contains(wide, "UID") || general(wide) == want {
		t.Errorf("wide:\n%s", wide)
	}
	if two := r.shows("history",
		"deploy/web", "--limit", "2"); strings.Count(two, "\n") != 3 || !strings.Contains(two, "deleted") {
		t.Errorf("with --limit 2:\n%s", two)
	}
}

func TestAHistoryHasUnifiedDiffs(t *testing.T) {
	_, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.merge("b", configMaps+"/x", `{"data":{"a":"2"}}`)
	const want = `# # b (Update) data.a 1→2
--- configmaps/x before
+++ configmaps/x #
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
- a: "1"
+ a: "2"
 kind: ConfigMap
 metadata:
`
	if got := general(r.shows("history", "cm/x", "--diff", "--limit", "1")); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.color = true
	if got := r.shows("history", "cm/x", "--diff"); !strings.Contains(got, "\x1b[32m+  a: \"2\"\x1b[0m\n") {
		t.Errorf("in colours:\n%q", got)
	}
}

func TestAHistoryIsPrintedInFormsForPrograms(t *testing.T) {
	_, r := openServer(t)
	live(r)
	all := documents(t, r.shows("history", "deploy/web", "-o", "json", "--diff"))
	if len(all) != 7 || all[1]["type"] != "DELETED" || all[3]["statusOnly"] != true {
		t.Fatalf("got %d changes: %v", len(all), all)
	}
	scaled := all[5]
	want := []any{map[string]any{"path": "spec.replicas", "kind": "changed", "before": 3.0, "after": 5.0}}
	if diff := cmp.Diff(want, scaled["changes"]); diff != "" || !strings.Contains(scaled["diff"].(string), "+  replicas: 5") {
		t.Errorf("%v (-want +got):\n%s", scaled, diff)
	}
	for _, name := range []string{"object", "previous"} {
		if o, is := scaled[name].(map[string]any); !is || o["kind"] != "Deployment" {
			t.Errorf("%s: %v", name, scaled[name])
		}
	}
	if out := r.shows("history", "deploy/web", "-o", "yaml"); strings.Count(out, "---\n") != 7 {
		t.Errorf("as YAML:\n%s", out)
	}
}

// TestTimesAreThoseOfTheZone: what is printed can be given back as a time.
func TestTimesAreThoseOfTheZone(t *testing.T) {
	_, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	at, err := time.Parse(time.RFC3339, documents(t, r.shows("history", "cm/x", "-o", "json"))[0]["time"].(string))
	if err != nil {
		t.Fatalf("parse the time: %v", err)
	}
	for _, zone := range []*time.Location{time.FixedZone("", 12*3600+45*60), time.FixedZone("", -11*3600)} {
		r.zone = zone
		if want, out := at.In(zone).Format(time.DateTime), r.shows("history", "cm/x"); !strings.Contains(out, "\n"+want+"  ") {
			t.Errorf("want the time %s in\n%s", want, out)
		}
		before, after := at.In(zone).Add(-2*time.Second).Format("2006-01-02 15:04:05"), at.In(zone).Format("2006-01-02 15:04:05")
		if out := r.shows("history", "cm/x", "--since", before); !strings.Contains(out, "created") {
			t.Errorf("since %s in %v:\n%s", before, zone, out)
		}
		if out, _, err := r.run("history", "cm/x", "--until", after); err != nil || strings.Contains(out, "created") {
			t.Errorf("until %s in %v: %v\n%s", after, zone, err, out)
		}
	}
}

func TestAHistoryHasMoreThanAPage(t *testing.T) {
	_, r := openServer(t)
	r.create(t.Context(), 600, "1")
	r.merge("m", configMaps+"/c000", `{"data":{"a":"2"}}`)
	out := r.shows("history", "configmaps")
	if n := strings.Count(out, " created"); n < 600 || !strings.Contains(out, "data.a 1→2") {
		t.Errorf("%d ConfigMaps were created, want at least 600", n)
	}
	if out := r.shows("history", "configmaps/c000"); strings.Count(out, "\n") != 3 {
		t.Errorf("of one of them:\n%s", out)
	}
}

func TestHistoriesOfLargeObjectsAndCustomResources(t *testing.T) {
	s, r := openServer(t)
	large := strings.Repeat("x", 1<<20-1<<10)
	for i := range 12 { // more than a page may have
		r.apply("m", configMaps+"/large", configMap("large", fmt.Sprint(large, i)))
	}
	if out := r.shows("history", "cm/large", "--diff"); strings.Count(out, "data.a") < 11 || strings.Count(out, "@@") < 11 {
		t.Errorf("12 versions of a large object became %d bytes", len(out))
	}
	s.Apply(t, books)
	const book = "/apis/example.com/v1/books/b"
	r.apply("a", book, `{"apiVersion":"example.com/v1","kind":"Book","metadata":{"name":"b"},"spec":{"pages":1}}`)
	r.merge("b", book, `{"spec":{"pages":2}}`)
	if out := r.shows("history", "bk/b"); !strings.Contains(out, "spec.pages 1→2") {
		t.Errorf("of a custom resource:\n%s", out)
	}
}

// books is a definition.
const books = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"books.example.com"},
"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"books","kind":"Book","shortNames":["bk"]},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
"x-kubernetes-preserve-unknown-fields":true}}}]}}`

func TestAHistorySaysHowFarItGoes(t *testing.T) {
	s, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.merge("b", configMaps+"/x", `{"data":{"a":"2"}}`)
	s.CompactHistory(t)
	r.merge("c", configMaps+"/x", `{"data":{"a":"3"}}`)
	for _, args := range [][]string{{"--since", "1h"}, {"--since", "1000000001"}} {
		out, stderr, err := r.run(append([]string{"history", "cm/x"}, args...)...)
		if err != nil || !strings.Contains(stderr, "# the history of configmaps goes back to 2") ||
			!strings.Contains(stderr, "removed on request") || strings.Count(out, "\n") != 2 ||
			!strings.Contains(out, "data.a 2→3") {
			t.Errorf("%v: %v\n%s%s", args, err, out, stderr)
		}
	}
	out, stderr, err := r.run("history", "cm/x")
	if err != nil || !strings.Contains(out, "data.a 2→3") || !strings.Contains(stderr, "# what was before is not known") {
		t.Errorf("without --since: %v\n%s%s", err, out, stderr)
	}
	if out, stderr, err = r.run("history", "cm/none"); err != nil || out != "" ||
		!strings.Contains(stderr, "# no change of configmaps/none is known") {
		t.Errorf("of an object that there was not: %v\n%s%s", err, out, stderr)
	}
}

func TestAHistoryHidesTheValuesOfSecrets(t *testing.T) {
	_, r := openServer(t)
	const path = "/api/v1/namespaces/default/secrets/s"
	r.apply("a", path, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"password":"hunter2"}}`)
	r.merge("b", path, `{"stringData":{"password":"correct horse"}}`)
	for _, args := range [][]string{{"--diff"}, {"-o", "json", "--diff"}, {"-o", "yaml"}, {"-o", "wide"}} {
		out := r.shows(append([]string{"history", "secret/s"}, args...)...)
		for _, secret := range []string{"hunter2", "aHVudGVyMg", "Y29ycmVjdCBob3JzZQ", "correct horse"} {
			if strings.Contains(out, secret) {
				t.Errorf("%v shows %q:\n%s", args, secret, out)
			}
		}
		if !strings.Contains(out, "13 bytes") {
			t.Errorf("%v does not show the length:\n%s", args, out)
		}
	}
	if out := r.shows("history", "secret/s", "--diff", "--show-secrets"); !strings.Contains(out, "aHVudGVyMg==") {
		t.Errorf("with --show-secrets:\n%s", out)
	}
}

func TestServersWithoutAPastAreRecognised(t *testing.T) {
	_, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	plain := newRig(t, forgetful(t, r.cfg))
	const want = "keeps no past of configmaps: it is no gapless server"
	for _, args := range [][]string{
		{"history", "cm/x"},
		{"history", "cm"},
		{"history", "cm/gone"},
		{"get", "cm/x", "--at", "0s"},
		{"get", "cm", "--at", "0s"},
		{"get", "cm/gone", "--at", "0s", "-o", "yaml"},
		{"get", "cm", "--at", "0s", "-o", "yaml"},
		{"get", "cm/x", "--rv", "5", "-o", "json"},
	} {
		plain.fails(want, args...)
	}
}

func TestWhoMayNotReadTheObjectsIsRefusedOnce(t *testing.T) {
	s, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	eve := newRig(t, s.User(t, "eve"))
	for _, args := range [][]string{
		{"history", "cm/x"}, {"history", "cm"}, {"get", "cm", "--at", "0s"}, {"get", "cm/x", "--at", "0s"},
	} {
		_, stderr, err := eve.run(args...)
		if err == nil || strings.Count(err.Error()+stderr, "forbidden") != 1 {
			t.Errorf("%v: %v\n%s", args, err, stderr)
		}
	}
}

func TestWrongCommandLinesOfThePastAreUsageErrors(t *testing.T) {
	_, r := openServer(t)
	for _, args := range [][]string{
		{"history", "cm/x", "--since", "tomorrow"},
		{"history", "cm/x", "--limit", "-1"},
		{"history", "cm/x", "--limit", "1", "--watch"},
		{"history", "cm/x", "--until", "1s", "--watch"},
		{"history", "cm/x", "-o", "xml"},
		{"history", "cm", "-l", "a in"},
		{"history", "cm", "--field-selector", "a"},
		{"history", "cm", "-A", "-n", "x"},
		{"get", "cm/x"},
		{"get", "cm/x", "--at", "1h", "--rv", "5"},
		{"get", "cm/x", "--rv", "abc"},
		{"get", "cm/x", "--at", "1h", "--clean"},
		{"get", "cm/x", "--at", "25:00"},
	} {
		if _, _, err := r.run(args...); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for _, args := range [][]string{{}, {"a", "b", "c"}, {"cm/"}, {"/x"}, {"cm/x", "y"}} {
		if _, _, err := r.run(append([]string{"history"}, args...)...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	r.fails("leave it out", "history", "cm/x", "-l", "a=b")
	r.fails("with -n instead of -A", "history", "cm/x", "-A")
	r.fails("did you mean configmaps", "history", "configmap5/x")
}

func TestARelayHasThePastThatItHasSeen(t *testing.T) {
	upstream := gaplesstest.New(t)
	direct := newRig(t, upstream.RESTConfig())
	direct.apply("a", configMaps+"/x", configMap("x", "1"))
	relayed := newRig(t, relay(t, upstream))
	relayed.shows("history", "cm/x") // from then on it mirrors them
	direct.merge("b", configMaps+"/x", `{"data":{"a":"2"}}`)
	then := pause().Format(time.RFC3339Nano)
	direct.merge("c", configMaps+"/x", `{"data":{"a":"3"}}`)
	const want = `TIME RESOURCEVERSION BY CHANGE
# # c (Update) data.a 2→3
# # b (Update) data.a 1→2
# # a (Apply) first seen
`
	out, stderr, err := relayed.run("history", "cm/x")
	if diff := cmp.Diff(want, general(out)); diff != "" || err != nil ||
		!strings.Contains(stderr, "# what was before is not known") {
		t.Errorf("%v, %s (-want +got):\n%s", err, stderr, diff)
	}
	followed, _, stop := relayed.watches("history", "cm/x", "--watch", "--since", then)
	followed.shows(t, "2→3")
	direct.merge("d", configMaps+"/x", `{"data":{"a":"4"}}`)
	followed.shows(t, "3→4")
	if err := stop(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	if out := relayed.shows("get", "cm/x", "--at", then, "-o", "yaml"); !strings.Contains(out, `a: "2"`) {
		t.Errorf("as it was:\n%s", out)
	}
	if out := relayed.shows("get", "cm", "--at", then); !strings.HasPrefix(out, "NAME ") || !strings.Contains(out, "\nx ") {
		t.Errorf("as a table:\n%s", out)
	}
}

// relay is a relay before a server, for its administrator.
func relay(t *testing.T, upstream *gaplesstest.Server) *rest.Config {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, upstream.RESTConfig().CAData, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	r, err := gapless.NewRelay(gapless.RelayConfig{
		Upstream: upstream.RESTConfig(), Memory: true, DataDir: t.TempDir(), Listen: "127.0.0.1:0",
		Access: gapless.RelayAccess{ClientCAFile: ca},
	})
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }() // it ends with stop
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	select {
	case <-r.Ready():
	case err := <-ended:
		ended <- err
		t.Fatalf("the relay has ended: %v", err)
	}
	cfg := rest.CopyConfig(upstream.RESTConfig())
	cfg.Host, cfg.CAData, cfg.CAFile, cfg.Dial = r.URL(), r.CA(), "", nil
	return cfg
}
