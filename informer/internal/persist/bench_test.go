package persist_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer/internal/decode"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/persist"
)

// benchPods is how many pods the benchmarks have.
const benchPods = 100_000

// podText is about 4.5 KB of JSON, like what a Deployment's pod has: two managedFields
// entries, one container, four conditions.
func podText(n int) []byte {
	var fields strings.Builder
	fields.WriteString(`"f:metadata":{"f:labels":{".":{}}}`)
	for k := range 7 {
		fmt.Fprintf(&fields,
			`,"f:container%d":{"f:imagePullPolicy":{},"f:terminationMessagePath":{},"f:resources":{".":{},`+
				`"f:requests":{".":{},"f:cpu":{}}}}`, k)
	}
	// What is another one in each pod must not be made up of few digits.
	id := sha256.Sum256(fmt.Append(nil, n))
	return fmt.Appendf(nil,
		`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-7c5ddbdf54-%05d","generateName":"web-7c5ddbdf54-","namespace":"prod-%d","uid":"%x-%x-%x-%x-%x","resourceVersion":"%d","creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"web","pod-template-hash":"7c5ddbdf54","team":"core"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"9090"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7c5ddbdf54","uid":"9c3d4c5e-7c3d-4c5e-9a3f-6a1e0d1c2b3a","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:05Z","fieldsType":"FieldsV1","fieldsV1":{%s}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-02T03:04:09Z","fieldsType":"FieldsV1","fieldsV1":{%s},"subresource":"status"}]},"spec":{"volumes":[{"name":"kube-api-access-x7k2p","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],"containers":[{"name":"web","image":"example.org/shop/web:1.42.7","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access-x7k2p","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-%d","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"},{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:09Z"},{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:09Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-02T03:04:05Z"}],"hostIP":"10.0.0.17","podIP":"10.1.2.%d","startTime":"2026-01-02T03:04:05Z","containerStatuses":[{"name":"web","state":{"running":{"startedAt":"2026-01-02T03:04:08Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"example.org/shop/web:1.42.7","imageID":"sha256:0f7f5c9e7c3d4c5e9a3f6a1e0d1c2b3a","containerID":"containerd://%x"}],"qosClass":"Burstable"}}`,
		n, n%20, id[:4], id[4:6], id[6:8], id[8:10], id[10:16], 1_000_000_000+n*7919%1_000_000, fields.String(), fields.String(),
		n%100, n%250, id)
}

func podCodec() persist.Codec[*corev1.Pod] {
	return persist.Codec[*corev1.Pod]{
		Encode: func(dst []byte, p *corev1.Pod) ([]byte, error) { return persist.JSON(dst, p) },
		Decode: decode.New(func(raw []byte) (*corev1.Pod, error) {
			p := &corev1.Pod{}
			return p, json.Unmarshal(raw, p)
		}).Decode,
		Lends: true,
	}
}

// benchFile is a file of benchPods pods.
func benchFile(b *testing.B, disk persist.Disk) *persist.File {
	b.Helper()
	f := open(b, disk)
	batch, err := f.Rewrite()
	if err != nil {
		b.Fatalf("rewrite: %v", err)
	}
	for i := range benchPods {
		k := handle.Key{Namespace: fmt.Sprint("prod-", i%20), Name: fmt.Sprintf("web-7c5ddbdf54-%05d", i)}
		if err := batch.Put(k, podText(i)); err != nil {
			b.Fatalf("put into the batch: %v", err)
		}
	}
	if err := batch.Commit(stateOf(1, benchPods)); err != nil {
		b.Fatalf("commit the batch: %v", err)
	}
	return f
}

// perPod reports the time that each pod took: of the clock, and of all processors.
func perPod(b *testing.B, begin int64) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/benchPods, "µs/pod")
	b.ReportMetric(float64(cpuMicros()-begin)/float64(b.N)/benchPods, "µs-cpu/pod")
}

// BenchmarkLoad opens a file of 100 000 pods and loads it.
func BenchmarkLoad(b *testing.B) {
	c := podCodec()
	disk := persist.Dir(b.TempDir())
	f := benchFile(b, disk)
	size := f.Size()
	if err := f.Close(); err != nil {
		b.Fatalf("close: %v", err)
	}
	b.ReportAllocs()
	begin := cpuMicros()
	for b.Loop() {
		f := open(b, disk)
		objects, err := persist.Load(b.Context(), f, c)
		if err != nil || len(objects) != benchPods {
			b.Fatal(len(objects), err)
		}
		if err := f.Close(); err != nil {
			b.Fatalf("close: %v", err)
		}
	}
	perPod(b, begin)
	b.ReportMetric(float64(size)/benchPods, "B/pod-on-disk")
}

// BenchmarkOpen is the part of it that looks for the last whole state.
func BenchmarkOpen(b *testing.B) {
	disk := persist.Dir(b.TempDir())
	if err := benchFile(b, disk).Close(); err != nil {
		b.Fatalf("close: %v", err)
	}
	for b.Loop() {
		if err := open(b, disk).Close(); err != nil {
			b.Fatalf("close: %v", err)
		}
	}
}

// BenchmarkWrite writes 100 000 pods as the writer does: encoded, looked at, packed.
// Half of the time it pauses.
func BenchmarkWrite(b *testing.B) {
	pods, c := make([]*corev1.Pod, benchPods), podCodec()
	for i := range pods {
		var err error
		if pods[i], err = c.Decode(podText(i)); err != nil {
			b.Fatalf("decode: %v", err)
		}
	}
	cache := persist.Cache[*corev1.Pod, []*corev1.Pod]{
		Take: func() ([]*corev1.Pod, persist.State, bool) { return pods, stateOf(1, benchPods), true },
		All: func(pods []*corev1.Pod) iter.Seq2[handle.Key, *corev1.Pod] {
			return func(yield func(handle.Key, *corev1.Pod) bool) {
				for _, p := range pods {
					if !yield(handle.Key{Namespace: p.Namespace, Name: p.Name}, p) {
						return
					}
				}
			}
		},
		Changes: func(_, _ []*corev1.Pod) iter.Seq2[handle.Key, *corev1.Pod] {
			return func(func(handle.Key, *corev1.Pod) bool) {}
		},
	}
	b.ReportAllocs()
	begin := cpuMicros()
	for b.Loop() {
		disk := persist.Dir(b.TempDir())
		w := persist.NewWriter(cache, c, persist.Settings{
			Open:   func() (*persist.File, error) { return persist.Open(disk, identity()) },
			Report: func(err error) { b.Error(err) },
		})
		w.Begin()
		w.Write(b.Context())
		w.Finish(b.Context())
	}
	perPod(b, begin)
}

// TestPodsAreRestored checks what the benchmarks are about.
func TestPodsAreRestored(t *testing.T) {
	c := podCodec()
	for _, edit := range []func(p *corev1.Pod){
		func(*corev1.Pod) {},
		func(p *corev1.Pod) { p.TypeMeta = metav1.TypeMeta{} },
		func(p *corev1.Pod) { p.Spec.Containers, p.Labels = nil, map[string]string{} },
		func(p *corev1.Pod) { p.Annotations = map[string]string{"html": "<a & b>\u2028", "empty": ""} },
	} {
		p, err := c.Decode(podText(7))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		edit(p)
		raw, err := c.Encode(nil, p)
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		again, err := c.Decode(raw)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if diff := cmp.Diff(p, again, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
}
