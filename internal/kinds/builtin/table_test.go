package builtin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

// tableOf returns the table of a built-in resource.
func tableOf(resource string) kinds.Table {
	return tabletest.Of(builtin.Catalog().Resources(), resource)
}

func TestUndecodableObjectKeepsItsName(t *testing.T) {
	for resource, want := range map[string]string{
		"configmaps": "x | <unknown> | <unknown>",
		"events":     strings.Repeat("<unknown> | ", 9) + "x",
	} {
		if got := tabletest.Join(tabletest.Cells(tableOf(resource),
			tabletest.Parse(t, `{data: 17, involvedObject: 17}`))); got != want {
			t.Errorf("%s: got %s, want %s", resource, got, want)
		}
	}
}

func TestColumnsSayWhatTheyShow(t *testing.T) {
	describe := func(resource string, i int) string {
		c := tableOf(resource).Columns[i]
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
		{
			"cronjobs.batch", 3,
			`boolean "" Suspend: This flag tells the controller to suspend subsequent executions, it does not apply to already ` +
				`started executions.`,
		},
		{
			"roles.rbac.authorization.k8s.io", 1,
			`date "" Created At: CreationTimestamp is a timestamp representing the server time when this object was created.`,
		},
		{
			"volumeattachments.storage.k8s.io", 1,
			`string "name" Attacher: attacher indicates the name of the volume driver that MUST handle this request.`,
		},
	} {
		if got := describe(c.resource, c.column); got != c.want {
			t.Errorf("%s: got %s, want %s", c.resource, got, c.want)
		}
	}
}

// A client that sorts by a column needs its type: kubectl prints the JSON of cells.
func TestNumbersAndBooleansAreNotText(t *testing.T) {
	for resource, c := range map[string]struct{ object, want string }{
		"deployments.apps": {
			`{spec: {replicas: 2}, status: {updatedReplicas: 1}}`, `["x","0/2",1,0,"90m","","",""]`,
		},
		"configmaps":                        {`{data: {a: b}}`, `["x",1,"90m"]`},
		"controllerrevisions.apps":          {`{revision: 7}`, `["x","<none>",7,"90m"]`},
		"priorityclasses.scheduling.k8s.io": {`{value: -5, globalDefault: true}`, `["x",-5,true,"90m",""]`},
		"volumeattachments.storage.k8s.io":  {`{status: {attached: true}}`, `["x","","","",true,"90m"]`},
		"cronjobs.batch": {
			`{spec: {suspend: true}}`, `["x","","<none>","True",0,"<none>","90m","","","<none>"]`,
		},
		"events": {`{count: 3}`, `["<unknown>","","","","","","","<unknown>",3,"x"]`},
	} {
		cells, err := json.Marshal(tabletest.Cells(tableOf(resource), tabletest.Parse(t, c.object)))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(cells)); got != c.want {
			t.Errorf("%s: got %s, want %s", resource, got, c.want)
		}
	}
}
