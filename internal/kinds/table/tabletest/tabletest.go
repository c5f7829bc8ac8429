package printers_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	resources "github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/printers"
	"github.com/gapless-io/gapless/internal/wire"
)

// Objects were created at born and are shown 90 minutes later.
func born() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }
func now() time.Time  { return born().Add(90 * time.Minute) }

// parse reads an object in YAML, which is called x and was created at born unless it says
// otherwise.
func parse(t *testing.T, body string) *wire.Object {
	t.Helper()
	var content map[string]any
	if err := yaml.UnmarshalStrict([]byte(body), &content); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	metadata := map[string]any{"name": "x", "namespace": "default", "creationTimestamp": "2026-05-01T12:00:00Z"}
	if given, has := content["metadata"].(map[string]any); has {
		maps.Copy(metadata, given)
	}
	if content == nil {
		content = map[string]any{}
	}
	content["metadata"] = metadata
	encoded, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	o, err := wire.NewObject(encoded, 7, []wire.FieldPath{{Label: "status.phase", Path: []string{"status", "phase"}}})
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return o
}

// printer returns the printer of a resource.
func printer(resource string) printers.Printer {
	return printers.For(schema.ParseGroupResource(resource))
}

// cells are those of an object now.
func cells(p printers.Printer, o *wire.Object) []any { return resources.Shown(p.Row(o), now()) }

// join shows cells as "x | 1/1 | Running".
func join(cells []any) string {
	shown := make([]string, len(cells))
	for i, c := range cells {
		shown[i] = fmt.Sprint(c)
	}
	return strings.TrimSpace(strings.Join(shown, " | "))
}

// header shows columns as "Name | Ready | IP*"; those that only -o wide has end in "*".
func header(p printers.Printer) string {
	var names []any
	for _, c := range p.Columns {
		names = append(names, c.Name+strings.Repeat("*", int(c.Priority)))
	}
	return join(names)
}

// rowCase is an object and its row.
type rowCase struct{ name, object, want string }

// checkRows compares the header and the rows of a resource.
func checkRows(t *testing.T, resource, columns string, cases []rowCase) {
	t.Helper()
	p := printer(resource)
	if diff := cmp.Diff(columns, header(p)); diff != "" {
		t.Errorf("columns of %s: -want +got:\n%s", resource, diff)
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cells := cells(p, parse(t, c.object))
			if len(cells) != len(p.Columns) {
				t.Fatalf("%d cells for %d columns", len(cells), len(p.Columns))
			}
			if diff := cmp.Diff(c.want, join(cells)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOtherKindsHaveNameAndAge(t *testing.T) {
	checkRows(t, "foos.example.com", "Name | Age", []rowCase{
		{"created", ``, "x | 90m"},
		{"not created", `metadata: {creationTimestamp: null}`, "x | <unknown>"},
		{"created in the future", `metadata: {creationTimestamp: "2030-01-01T00:00:00Z"}`, "x | <invalid>"},
	})
}

func TestUndecodableObjectKeepsItsName(t *testing.T) {
	for resource, want := range map[string]string{
		"configmaps": "x | <unknown> | <unknown>",
		"events":     strings.Repeat("<unknown> | ", 9) + "x",
	} {
		if got := join(cells(printer(resource), parse(t, `{data: 17, involvedObject: 17}`))); got != want {
			t.Errorf("%s: got %s, want %s", resource, got, want)
		}
	}
}

func TestColumnsSayWhatTheyShow(t *testing.T) {
	describe := func(resource string, i int) string {
		c := printer(resource).Columns[i]
		return fmt.Sprintf("%s %q %s: %s", c.Type, c.Format, c.Name, strings.SplitAfter(c.Description, ".")[0])
	}
	for _, c := range []struct {
		resource string
		column   int
		want     string
	}{
		{"pods", 0, `string "name" Name: Name must be unique within a namespace.`},
		{"pods", 1, `string "" Ready: The aggregate readiness state of this pod for accepting traffic.`},
		{"pods", 6, `string "" Node: NodeName indicates in which node this pod is scheduled.`},
		{"replicasets.apps", 1, `integer "" Desired: Replicas is the number of desired pods.`},
		{"cronjobs.batch", 3, `boolean "" Suspend: This flag tells the controller to suspend subsequent executions, it does not apply to already started executions.`},
		{"roles.rbac.authorization.k8s.io", 1, `date "" Created At: CreationTimestamp is a timestamp representing the server time when this object was created.`},
		{"volumeattachments.storage.k8s.io", 1, `string "name" Attacher: attacher indicates the name of the volume driver that MUST handle this request.`},
	} {
		if got := describe(c.resource, c.column); got != c.want {
			t.Errorf("%s: got %s, want %s", c.resource, got, c.want)
		}
	}
}

// A client that sorts by a column needs its type: kubectl prints the JSON of cells.
func TestNumbersAndBooleansAreNotText(t *testing.T) {
	for resource, c := range map[string]struct{ object, want string }{
		"deployments.apps":                  {`{spec: {replicas: 2}, status: {updatedReplicas: 1}}`, `["x","0/2",1,0,"90m","","",""]`},
		"configmaps":                        {`{data: {a: b}}`, `["x",1,"90m"]`},
		"controllerrevisions.apps":          {`{revision: 7}`, `["x","<none>",7,"90m"]`},
		"priorityclasses.scheduling.k8s.io": {`{value: -5, globalDefault: true}`, `["x",-5,true,"90m",""]`},
		"volumeattachments.storage.k8s.io":  {`{status: {attached: true}}`, `["x","","","",true,"90m"]`},
		"cronjobs.batch":                    {`{spec: {suspend: true}}`, `["x","","<none>","True",0,"<none>","90m","","","<none>"]`},
		"events":                            {`{count: 3}`, `["<unknown>","","","","","","","<unknown>",3,"x"]`},
	} {
		cells, err := json.Marshal(cells(printer(resource), parse(t, c.object)))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(cells)); got != c.want {
			t.Errorf("%s: got %s, want %s", resource, got, c.want)
		}
	}
}
