package past_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// pause waits until the clock of the server, which has milliseconds, is ahead of a moment.
func pause() time.Time {
	<-time.After(3 * time.Millisecond)
	defer func() { <-time.After(3 * time.Millisecond) }()
	return time.Now()
}

func TestObjectsAreShownAsTheyWere(t *testing.T) {
	_, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.apply("a", configMaps+"/y", configMap("y", "1"))
	then := pause().Format(time.RFC3339Nano)
	r.merge("b", configMaps+"/x", `{"data":{"a":"2","b":"2"}}`)
	r.remove(configMaps + "/y")
	r.apply("a", configMaps+"/z", configMap("z", "1"))

	table := r.shows("get", "cm", "--at", then)
	var lines []string
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		lines = append(lines, strings.Join(words[:len(words)-1], " "))
	}
	want := []string{"NAME DATA", "kube-root-ca.crt 1", "x 1", "y 1"}
	if len(lines) == 3 {
		want = []string{"NAME DATA", "x 1", "y 1"}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if out := r.shows("get",
		"cm", "-A", "--at", then); !strings.HasPrefix(out, "NAMESPACE ") || !strings.Contains(out, "default ") {
		t.Errorf("of all namespaces:\n%s", out)
	}
	if out := r.shows("get", "cm/y", "--at", then); !strings.HasPrefix(out, "NAME ") || strings.Count(out, "\n") != 2 {
		t.Errorf("one object as a table:\n%s", out)
	}
	if out := r.shows("get", "cm", "--at", then, "-o", "name"); !strings.Contains(out, "configmap/x\nconfigmap/y\n") ||
		strings.Contains(out, "configmap/z") {
		t.Errorf("names:\n%s", out)
	}
	for _, format := range []string{"json", "yaml"} {
		var list struct {
			Kind  string
			Items []struct {
				APIVersion, Kind string
				Metadata         struct{ Name, UID string }
				Data             map[string]string
			}
		}
		out := r.shows("get", "cm", "--at", then, "-o", format)
		if err := yaml.UnmarshalStrict([]byte(out), new(any)); err != nil {
			t.Fatalf("%s: %v\n%s", format, err, out)
		}
		if err := yaml.Unmarshal([]byte(out), &list); err != nil || list.Kind != "List" {
			t.Fatalf("%s: %v\n%s", format, err, out)
		}
		n := len(list.Items)
		if n < 2 || list.Items[n-2].Data["a"] != "1" || list.Items[n-1].Metadata.Name != "y" ||
			list.Items[n-1].Kind != "ConfigMap" ||
			list.Items[n-1].APIVersion != "v1" {
			t.Errorf("%s: %+v", format, list)
		}
		if out := r.shows("get", "cm", "--at", then, "-o", format, "-l", "no=one"); yaml.Unmarshal([]byte(out), &list) != nil ||
			len(list.Items) != 0 || !strings.Contains(out, "[") {
			t.Errorf("%s of none:\n%s", format, out)
		}
	}
	rv := documents(t, r.shows("history", "cm/x", "-o", "json"))[1]["resourceVersion"].(string)
	if out := r.shows("get", "cm/x", "--rv", rv, "-o", "yaml"); !strings.Contains(out, `a: "1"`) || strings.Contains(out, "b:") {
		t.Errorf("at resourceVersion %s:\n%s", rv, out)
	}
	if out := r.shows("get", "cm", "--rv", rv, "-o", "name"); !strings.Contains(out, "configmap/x\n") ||
		strings.Contains(out, "configmap/y") {
		t.Errorf("at resourceVersion %s:\n%s", rv, out)
	}
	r.fails("it did not exist at that time", "get", "cm/z", "--at", then, "-o", "yaml")
}

// TestWhatWasCanBePutBack: what --clean leaves is applied, and becomes what it was.
func TestWhatWasCanBePutBack(t *testing.T) {
	_, r := openServer(t)
	r.apply("kubectl", deployments+"/web", web)
	r.merge("controller", deployments+"/web/status", `{"status":{"replicas":3}}`)
	then := pause().Format(time.RFC3339Nano)
	before := r.shows("get", "deploy/web", "--at", then, "--clean", "-o", "yaml")
	r.remove(deployments + "/web")
	r.apply("kubectl", deployments+"/web", before)
	after := r.shows("get", "deploy/web", "--at", pause().Format(time.RFC3339Nano), "--clean", "-o", "yaml")
	if diff := cmp.Diff(before, after); diff != "" || strings.Contains(before, "uid") || strings.Contains(before, "status") {
		t.Errorf("it has become something else (-before +after):\n%s", diff)
	}
}

func TestGetSaysHowFarHistoryGoes(t *testing.T) {
	s, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.merge("b", configMaps+"/x", `{"data":{"a":"2"}}`)
	s.CompactHistory(t)
	r.merge("c", configMaps+"/x", `{"data":{"a":"3"}}`)
	for _, args := range [][]string{{"cm/x", "--at", "1h"}, {"cm", "--at", "1h"}, {"cm", "--at", "1h", "-o", "yaml"}} {
		r.fails("history goes back to 2", append([]string{"get"}, args...)...)
	}
}
