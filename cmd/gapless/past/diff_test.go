package past_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/gaplesstest"
)

// differs runs gapless diff, and wants an exit code.
func (r *rig) differs(code verdict, args ...string) (out, stderr string) {
	r.t.Helper()
	out, stderr, err := r.run(append([]string{"diff"}, args...)...)
	got := verdict(0)
	if err != nil && !errors.As(err, &got) || got != code {
		r.t.Errorf("gapless diff %s: %v, want exit code %d\n%s%s", strings.Join(args, " "), err, int(code), out, stderr)
	}
	return out, stderr
}

// change changes what live made, and some ConfigMaps.
func change(r *rig) {
	r.merge("b", configMaps+"/changed", `{"data":{"a":"2","b":"3"}}`)
	r.merge("b", configMaps+"/back", `{"data":{"a":"2"}}`)
	r.merge("b", configMaps+"/back", `{"data":{"a":"1"}}`)
	r.remove(configMaps + "/removed")
	r.remove(configMaps + "/again")
	r.apply("a", configMaps+"/again", configMap("again", "2"))
	r.apply("a", configMaps+"/added", configMap("added", "1"))
	r.apply("a", configMaps+"/passing", configMap("passing", "1"))
	r.remove(configMaps + "/passing")
	r.merge("controller", deployments+"/web/status", `{"status":{"replicas":3}}`)
}

const summary = `OBJECT CHANGE
configmaps/added added
configmaps/again deleted and created again: data.a 1→2
configmaps/changed data.a 1→2, +data.b 3
configmaps/removed removed
`

func TestDiffShowsWhatIsDifferent(t *testing.T) {
	_, r := openServer(t)
	for _, name := range []string{"changed", "back", "removed", "again", "same"} {
		r.apply("a", configMaps+"/"+name, configMap(name, "1"))
	}
	r.apply("kubectl", deployments+"/web", web)
	pause()
	first := documents(t, r.shows("history", "cm/same", "-o", "json"))[0]["resourceVersion"].(string)
	then := pause().Format(time.RFC3339Nano)
	change(r)
	later := pause().Format(time.RFC3339Nano)
	r.apply("a", configMaps+"/afterwards", configMap("afterwards", "1"))

	for _, args := range [][]string{{"--to", later}, {"configmaps", "deployments", "--to", later}} {
		out, stderr := r.differs(1, append([]string{"--from", then}, args...)...)
		if diff := cmp.Diff(summary, general(out)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", args, diff)
		}
		if !strings.Contains(stderr, "# 1 added, 1 removed, 2 changed\n# 1 objects have another status only") {
			t.Errorf("%v: %s", args, stderr)
		}
	}
	if out, _ := r.differs(1, "--since", then); !strings.Contains(out, "configmaps/afterwards") {
		t.Errorf("up to now:\n%s", out)
	}
	if out, _ := r.differs(1, "-A", "--from", then, "--to", later); !strings.Contains(out, "configmaps/default/added") {
		t.Errorf("of all namespaces:\n%s", out)
	}
	if out, _ := r.differs(1, "cm", "--from", first); !strings.Contains(out, "configmaps/changed") {
		t.Errorf("from a resourceVersion:\n%s", out)
	}
	r.differs(1, "deploy/web", "--from", then, "--status")
	r.differs(0, "deploy/web", "--from", then)
	r.differs(0, "cm/same", "cm/back", "--from", then)
	r.differs(0, "cm", "-l", "no=one", "--from", then)
	out, _ := r.differs(1, "cm/changed", "cm/removed", "--from", then, "--diff")
	for _, want := range []string{
		"\n--- configmaps/default/changed ", "\n-  a: \"1\"\n+  a: \"2\"\n", "\n-kind: ConfigMap\n", "@@ -1,",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	out, _ = r.differs(1, "cm/changed", "cm/removed", "--from", then, "-o", "json", "--diff")
	if all := documents(t, out); len(all) != 2 || all[0]["change"] != "changed" || all[1]["change"] != "removed" ||
		all[0]["before"] == nil || all[1]["after"] != nil || all[0]["diff"] == "" {
		t.Errorf("as JSON:\n%s", out)
	}
}

// TestDiffsByListsAreThoseByChanges: what has more changes than a page is compared list by list, and names are in the
// order of keys there, in which a- is before a/.
func TestDiffsByListsAreThoseByChanges(t *testing.T) {
	s, r := openServer(t)
	s.Apply(t, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`,
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a-b"}}`)
	for _, namespace := range []string{"a", "a-b"} {
		for _, name := range []string{"x", "y"} {
			r.apply("a", "/api/v1/namespaces/"+namespace+"/configmaps/"+name, configMap(name, "1"))
		}
	}
	for _, name := range []string{"changed", "back", "removed", "again", "same"} {
		r.apply("a", configMaps+"/"+name, configMap(name, "1"))
	}
	r.apply("kubectl", deployments+"/web", web)
	then := pause().Format(time.RFC3339Nano)
	change(r)
	for _, namespace := range []string{"a", "a-b"} {
		r.merge("b", "/api/v1/namespaces/"+namespace+"/configmaps/x", `{"data":{"a":"2"}}`)
	}
	few := pause().Format(time.RFC3339Nano)
	byChanges, _ := r.differs(1, "cm", "-A", "--from", then, "--to", few)
	for i := range 520 {
		r.merge("b", configMaps+"/same", fmt.Sprintf(`{"data":{"a":"1","b":"%d"}}`, i))
	}
	r.merge("b", configMaps+"/same", `{"data":{"b":null}}`)
	for _, to := range [][]string{nil, {"--to", pause().Format(time.RFC3339Nano)}} {
		byLists, _ := r.differs(1, append([]string{"cm", "-A", "--from", then}, to...)...)
		if diff := cmp.Diff(byChanges, byLists); diff != "" || strings.Count(byLists, "data.a 1→2") != 4 {
			t.Errorf("%v (-by changes +by lists):\n%s", to, diff)
		}
	}
	r.differs(0, "cm/same", "--from", then)
	r.differs(0, "cm/none", "--from", then)
}

func TestDiffFailsWhereItCannotCompare(t *testing.T) {
	s, r := openServer(t)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	r.remove(configMaps + "/x")
	s.CompactHistory(t)
	r.apply("a", configMaps+"/x", configMap("x", "2"))
	then := pause().Format(time.RFC3339Nano)
	for _, c := range []struct {
		rig  *rig
		args []string
		want string
	}{
		{newRig(t, forgetful(t, r.cfg)), []string{"cm", "--since", then}, "keeps no past of configmaps"},
		{newRig(t, forgetful(t, r.cfg)), []string{"--since", then}, "keeps no past of"},
		{r, []string{"cm", "--since", "1h"}, "history goes back to 2"},
		{r, []string{"configmap5", "--since", then}, "did you mean"},
		{newRig(t, s.User(t, "eve")), []string{"cm", "--since", then}, "forbidden"},
		{newRig(t, s.User(t, "eve")), []string{"--since", then}, "forbidden"},
	} {
		if out, stderr := c.rig.differs(2, c.args...); !strings.Contains(stderr, c.want) || out != "" {
			t.Errorf("%v: want %q\n%s%s", c.args, c.want, out, stderr)
		}
	}
	for _, args := range [][]string{
		nil,
		{"--since", "1h", "--from", "2h"},
		{"--from", "1h", "--to", "2h"},
		{"cm/", "--since", "1h"},
		{"--since", "1h", "-o", "x"},
	} {
		if _, _, err := r.run(append([]string{"diff"}, args...)...); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestDiffLeavesOutWhatTheUserMayNotList(t *testing.T) {
	s, r := openServer(t)
	s.Apply(t, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":"default"},
"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"]}]}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"r","namespace":"default"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"eve"}]}`)
	then := pause().Format(time.RFC3339Nano)
	r.apply("a", configMaps+"/x", configMap("x", "1"))
	out, stderr := newRig(t, s.User(t, "eve")).differs(1, "--since", then)
	if !strings.Contains(out, "configmaps/x  added") || strings.Count(stderr, "may not list") != 1 {
		t.Errorf("got\n%s%s", out, stderr)
	}
}

// TestDiffOfAResourceIsSinceItsDefinition: there were no objects before, and those of a former one are not its own.
func TestDiffOfAResourceIsSinceItsDefinition(t *testing.T) {
	s, r := openServer(t)
	then := pause().Format(time.RFC3339Nano)
	for range 2 {
		s.Apply(t, books)
		r.apply("a", "/apis/example.com/v1/books/b", `{"apiVersion":"example.com/v1","kind":"Book","metadata":{"name":"b"}}`)
		if out, _ := r.differs(1, "-A", "--since", then); !strings.Contains(out, "\nbooks.example.com/b ") ||
			!strings.Contains(out, "customresourcedefinitions.apiextensions.k8s.io/books.example.com") {
			t.Errorf("got\n%s", out)
		}
		r.remove("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/books.example.com")
		for deadline := time.Now().Add(20 * time.Second); ; {
			if _, _, err := r.run("history", "books"); err != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the definition is not deleted")
			}
		}
	}
}

// TestDiffThroughARelayDoesNotGuess: what was before it is not known, and not new.
func TestDiffThroughARelayDoesNotGuess(t *testing.T) {
	upstream := gaplesstest.New(t)
	direct := newRig(t, upstream.RESTConfig())
	direct.apply("a", configMaps+"/x", configMap("x", "1"))
	before := pause().Format(time.RFC3339Nano)
	relayed := newRig(t, relay(t, upstream))
	relayed.shows("history", "cm/x")
	if out, stderr := relayed.differs(2, "cm", "--since", before); out != "" || !strings.Contains(stderr, "history") {
		t.Errorf("got\n%s%s", out, stderr)
	}
	then := pause().Format(time.RFC3339Nano)
	direct.merge("b", configMaps+"/x", `{"data":{"a":"2"}}`)
	// Of all resources those are compared that it knows so far back, and the others are named: it is no success.
	out, stderr := relayed.differs(2, "--since", then)
	if !strings.Contains(out, "data.a 1→2") || !strings.Contains(stderr, "history does not reach back so far") {
		t.Errorf("of all resources:\n%s%s", out, stderr)
	}
	if out, _ := relayed.differs(1, "cm", "--since", then); !strings.Contains(out, "data.a 1→2") {
		t.Errorf("got\n%s", out)
	}
}
