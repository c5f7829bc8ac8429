package past_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/gaplesstest"
)

func TestBlameShowsWhoSetEachLine(t *testing.T) {
	_, r := openServer(t)
	live(r)
	r.merge("hpa", deployments+"/web/scale", `{"spec":{"replicas":5}}`)
	then := pause().Format(time.RFC3339Nano)
	r.merge("release", deployments+"/web",
		`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:2"}]}}}}`)
	r.merge("controller", deployments+"/web/status", `{"status":{"replicas":5}}`)
	out := r.shows("blame", "deploy/web", "-o", "wide")
	got := map[string]string{} // line -> who
	for line := range strings.Lines(out) {
		before, text, _ := strings.Cut(line, "| ")
		got[strings.TrimSpace(text)] = strings.TrimSpace(general(before))
	}
	for line, want := range map[string]string{
		`a: "1"`: "# # kubectl (Apply)", "replicas: 5": "# # hpa (Update scale)", "image: web:2": "# # release (Update)",
		"- image: web:2": "# # release (Update)", "name: web": "# # kubectl (Apply)", "spec:": "",
	} {
		if who, there := got[line]; there && who != want || !there && line == "replicas: 5" {
			t.Errorf("%q was set by %q, want %q", line, who, want)
		}
	}
	if strings.Contains(out, "status") || !strings.Contains(r.shows("blame", "deploy", "web", "--status"), "| status:") {
		t.Errorf("the status is for --status:\n%s", out)
	}
	if out := r.shows("blame", "deploy/web", "--at", then); strings.Contains(out, "web:2") || !strings.Contains(out, "web:1") {
		t.Errorf("as it was:\n%s", out)
	}

	// The lines are the object.
	var text strings.Builder
	for _, d := range documents(t, r.shows("blame", "deploy/web", "-o", "json")) {
		text.WriteString(d["line"].(string) + "\n")
		if strings.Contains(d["line"].(string), "replicas:") &&
			(d["resourceVersion"] == nil || d["time"] == nil || d["by"] == nil) {
			t.Errorf("as JSON: %v", d)
		}
	}
	var lines, object map[string]any
	if err := yaml.Unmarshal([]byte(text.String()), &lines); err != nil {
		t.Fatalf("the lines are no YAML: %v", err)
	}
	if err := yaml.Unmarshal([]byte(r.shows("get", "deploy/web", "--at", "0s", "-o", "json")), &object); err != nil {
		t.Fatalf("the object is no JSON: %v", err)
	}
	if diff := cmp.Diff(object["spec"], lines["spec"]); diff != "" {
		t.Errorf("-object +lines:\n%s", diff)
	}
}

func TestBlameMarksWhatWasBeforeHistory(t *testing.T) {
	s, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.merge("b", configMaps+"/x", `{"data":{"b":"1"}}`)
	s.CompactHistory(t)
	for _, change := range []func(){
		func() {}, // there is no change in the history
		func() { r.merge("c", configMaps+"/x", `{"data":{"c":"1"}}`) },
	} {
		change()
		out := general(r.shows("blame", "cm/x"))
		if !strings.Contains(out, `before history a (Apply) | a: "1"`) ||
			!strings.Contains(out, `before history b (Update) | b: "1"`) {
			t.Errorf("got\n%s", out)
		}
	}
	if out := general(r.shows("blame", "cm/x")); !strings.Contains(out, `# c (Update) | c: "1"`) {
		t.Errorf("got\n%s", out)
	}
	r.fails("there is no such object", "blame", "cm/none")
	r.remove(configMaps + "/x")
	r.fails("it was deleted", "blame", "cm/x")
}

func TestBlameThroughARelayKnowsWhatItHasSeen(t *testing.T) {
	upstream := gaplesstest.New(t)
	direct := newRig(t, upstream.RESTConfig())
	direct.apply("a", configMaps+"/x", configMap("x", "1"))
	relayed := newRig(t, relay(t, upstream))
	relayed.shows("history", "cm/x")
	direct.merge("b", configMaps+"/x", `{"data":{"b":"2"}}`)
	out := general(relayed.shows("blame", "cm/x"))
	if !strings.Contains(out, `before history a (Apply) | a: "1"`) || !strings.Contains(out, `# b (Update) | b: "2"`) {
		t.Errorf("got\n%s", out)
	}
}

func TestBlameHidesTheValuesOfSecrets(t *testing.T) {
	_, r := openServer(t)
	r.apply("a", "/api/v1/namespaces/default/secrets/s",
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"password":"hunter2"}}`)
	if out := r.shows("blame", "secret/s"); strings.Contains(out, "aHVudGVyMg") || !strings.Contains(out, "7 bytes") ||
		!strings.Contains(out, "a (Apply)") {
		t.Errorf("got\n%s", out)
	}
	if out := r.shows("blame", "secret/s", "--show-secrets"); !strings.Contains(out, "password: aHVudGVyMg==") {
		t.Errorf("with --show-secrets:\n%s", out)
	}
	plain := newRig(t, forgetful(t, r.cfg))
	plain.fails("keeps no past of secrets", "blame", "secret/s")
	plain.fails("--mirror-secrets", "blame", "secret/s", "--at", "0s")
}
