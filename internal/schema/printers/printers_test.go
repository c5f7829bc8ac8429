package printers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/schema/printers"
	"github.com/gapless-io/gapless/kube"
)

func born() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// show prints one object as name=cell pairs, 90 minutes after it was created.
func show(t *testing.T, resource, body string) []string {
	t.Helper()
	o, err := kube.NewObject([]byte(body), 7, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := printers.For(schema.ParseGroupResource(resource))
	cells := p.Row(o, born().Add(90*time.Minute))
	if len(cells) != len(p.Columns) {
		t.Fatalf("%d cells for %d columns", len(cells), len(p.Columns))
	}
	shown := make([]string, len(cells))
	for i, c := range cells {
		shown[i] = fmt.Sprintf("%s=%v", p.Columns[i].Name, c)
	}
	return shown
}

const meta = `"metadata":{"name":"x","namespace":"default","creationTimestamp":"2026-05-01T12:00:00Z"`

func TestRowsAreWhatKubectlUsersKnow(t *testing.T) {
	for _, c := range []struct {
		resource, body string
		want           []string
	}{
		{"configmaps", `{"apiVersion":"v1","kind":"ConfigMap",` + meta + `},"data":{"a":"1","b":"2"}}`, []string{"Name=x", "Data=2", "Age=90m"}},
		{"foos.example.com", `{"apiVersion":"example.com/v1","kind":"Foo",` + meta + `}}`, []string{"Name=x", "Age=90m"}},
		{
			"deployments.apps",
			`{"apiVersion":"apps/v1","kind":"Deployment",` + meta + `},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"web"}},"template":{"spec":{"containers":[{"name":"c","image":"nginx"}]}}},"status":{"readyReplicas":2,"updatedReplicas":3,"availableReplicas":2}}`,
			[]string{"Name=x", "Ready=2/3", "Up-to-date=3", "Available=2", "Age=90m", "Containers=c", "Images=nginx", "Selector=app=web"},
		},
		{
			"services",
			`{"apiVersion":"v1","kind":"Service",` + meta + `},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30080,"protocol":"TCP"}],"selector":{"app":"web"}}}`,
			[]string{"Name=x", "Type=NodePort", "Cluster-IP=<none>", "External-IP=<none>", "Port(s)=80:30080/TCP", "Age=90m", "Selector=app=web"},
		},
		{
			"persistentvolumeclaims",
			`{"apiVersion":"v1","kind":"PersistentVolumeClaim",` + meta + `},"spec":{"volumeName":"pv","storageClassName":"fast","volumeMode":"Filesystem"},"status":{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"}}}`,
			[]string{"Name=x", "Status=Bound", "Volume=pv", "Capacity=1Gi", "Access Modes=RWO", "StorageClass=fast", "VolumeAttributesClass=<unset>", "Age=90m", "VolumeMode=Filesystem"},
		},
		{
			"jobs.batch",
			`{"apiVersion":"batch/v1","kind":"Job",` + meta + `},"spec":{"completions":2,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"succeeded":2,"startTime":"2026-05-01T12:00:00Z","completionTime":"2026-05-01T12:00:30Z","conditions":[{"type":"Complete","status":"True"}]}}`,
			[]string{"Name=x", "Status=Complete", "Completions=2/2", "Duration=30s", "Age=90m", "Containers=c", "Images=i", "Selector=<none>"},
		},
	} {
		t.Run(c.resource, func(t *testing.T) {
			if diff := cmp.Diff(c.want, show(t, c.resource, c.body)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPodStatusNamesWhatHoldsThePodUp(t *testing.T) {
	for _, c := range []struct{ name, extra, status, want string }{
		{"phase", "", `"phase":"Pending"`, "Pending"},
		{"waiting container", "", `"phase":"Pending","containerStatuses":[{"name":"c","state":{"waiting":{"reason":"ImagePullBackOff"}}}]`, "ImagePullBackOff"},
		{"init container", "", `"phase":"Pending","initContainerStatuses":[{"name":"i","state":{"running":{}}}]`, "Init:0/1"},
		{"signal", "", `"phase":"Failed","containerStatuses":[{"name":"c","state":{"terminated":{"signal":9}}}]`, "Signal:9"},
		{"deleting", `,"deletionTimestamp":"2026-05-01T12:10:00Z"`, `"phase":"Running"`, "Terminating"},
		{"gated", "", `"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]`, "SchedulingGated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"apiVersion":"v1","kind":"Pod",` + meta + c.extra + `},"spec":{"containers":[{"name":"c"}],"initContainers":[{"name":"i"}]},"status":{` + c.status + `}}`
			if got := show(t, "pods", body)[2]; got != "Status="+c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestUndecodableObjectKeepsItsName(t *testing.T) {
	got := show(t, "pods", `{"apiVersion":"v1","kind":"Pod",`+meta+`},"spec":17}`)
	if got[0] != "Name=x" || got[2] != "Status=<unknown>" {
		t.Errorf("got %v", got)
	}
}
