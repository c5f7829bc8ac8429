package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer"
)

// realisticPod is about 4.5 KB of JSON, like what a Deployment's pod has: two
// managedFields entries, one container, four conditions. 35 pods in a row have one
// ReplicaSet, and beside that what a cluster makes for each: UID, IP, node, times,
// container, and the volume with its token.
func realisticPod(n, rv int) string {
	var fields strings.Builder
	fields.WriteString(`"f:metadata":{"f:labels":{".":{}}}`)
	for k := range 7 {
		fmt.Fprintf(&fields,
			`,"f:container%d":{"f:imagePullPolicy":{},"f:terminationMessagePath":{},"f:resources":{".":{},`+
				`"f:requests":{".":{},"f:cpu":{}}}}`, k)
	}
	set, own := rand.New(rand.NewPCG(1, uint64(n/35))), rand.New(rand.NewPCG(2, uint64(n))) //nolint:gosec // the same each time
	digits := func(r *rand.Rand, n int) string {
		return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())[:n]
	}
	app, hash := fmt.Sprintf("web-%d", n/35), digits(set, 10)
	return strings.NewReplacer(
		"<set>", app+"-"+hash, "<app>", app, "<hash>", hash, "<set-uid>", digits(set, 32), "<ns>", fmt.Sprint(set.IntN(20)),
		"<id>", fmt.Sprintf("%05d", n), "<uid>", digits(own, 32), "<rv>", fmt.Sprint(rv), "<fields>", fields.String(),
		"<token>", digits(own, 5), "<node>", fmt.Sprint(own.IntN(250)), "<ip>", fmt.Sprintf("10.1.%d.%d", n>>8&255, n&255),
		"<container>", digits(own, 32)+digits(own, 32), "<day>", fmt.Sprint(10+own.IntN(19)), "<time>",
		fmt.Sprintf("%02d:%02d:%d", own.IntN(24), own.IntN(60), own.IntN(6)),
	).Replace(podTemplate)
}

const podTemplate = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"<set>-<id>","generateName":"<set>-",` +
	`"namespace":"prod-<ns>","uid":"<uid>","resourceVersion":"<rv>","creationTimestamp":"2026-01-<day>T<time>5Z","labels":{"app":"<app>","pod-template-hash":"<hash>","team":"core"},"annotations":{"prometheus.io/scrape":"true","prometheus.io/port":"9090"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"<set>","uid":"<set-uid>","controller":true,"blockOwnerDeletion":true}],"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-<day>T<time>5Z","fieldsType":"FieldsV1","fieldsV1":{<fields>}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-<day>T<time>9Z","fieldsType":"FieldsV1","fieldsV1":{<fields>},"subresource":"status"}]},"spec":{"volumes":[{"name":"kube-api-access-<token>","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}}],"defaultMode":420}}],"containers":[{"name":"<app>","image":"example.org/shop/<app>:1.42.7","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"volumeMounts":[{"name":"kube-api-access-<token>","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","nodeName":"node-<node>","securityContext":{},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true},"status":{"phase":"Running","conditions":[{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-<day>T<time>5Z"},{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-<day>T<time>9Z"},{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-<day>T<time>9Z"},{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-<day>T<time>5Z"}],"hostIP":"10.0.0.<node>","podIP":"<ip>","startTime":"2026-01-<day>T<time>5Z","containerStatuses":[{"name":"<app>","state":{"running":{"startedAt":"2026-01-<day>T<time>8Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"example.org/shop/<app>:1.42.7","imageID":"sha256:0f7f5c9e7c3d4c5e9a3f6a1e0d1c2b3a","containerID":"containerd://<container>"}],"qosClass":"Burstable"}}`

// BenchmarkDecodePod decodes the pods of 30 ReplicaSets in turn.
func BenchmarkDecodePod(b *testing.B) {
	raw := make([][]byte, 30*35)
	for n := range raw {
		raw[n] = []byte(realisticPod(n, 7))
	}
	decode := informer.SharedJSON[*corev1.Pod]()
	b.SetBytes(int64(len(raw[0])))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := decode(raw[n%len(raw)]); err != nil {
			b.Fatalf("decode: %v", err)
		}
		n++
	}
}

// BenchmarkEvents is one event from its bytes to a handler.
func BenchmarkEvents(b *testing.B) {
	b.ReportAllocs()
	lines := make([]string, 64)
	for k := range lines {
		lines[k] = realisticPod(k, 0)
	}
	in, out := io.Pipe()
	backend := canned(podList(64), in)
	pods := informer.New(informer.From("pods", backend, informer.SharedJSON[*corev1.Pod]()), informer.NoStreamingLists())
	last := make(chan struct{})
	final := fmt.Sprint(1000 + b.N - 1)
	pods.Handle(func(_ context.Context, e informer.Event[*corev1.Pod]) error {
		if e.RV == final {
			close(last)
		}
		return nil
	})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		b.Fatalf("wait until it is synced: %v", err)
	}
	b.ResetTimer()
	for n := range b.N {
		object := strings.Replace(lines[n%64], `"resourceVersion":"0"`, fmt.Sprintf(`"resourceVersion":"%d"`, 1000+n), 1)
		if _, err := fmt.Fprintf(out, "{\"type\":\"MODIFIED\",\"object\":%s}\n", object); err != nil {
			b.Fatalf("print: %v", err)
		}
	}
	<-last
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	cancel()
	if err := errors.Join(out.Close(), <-done); err != nil {
		b.Fatalf("close the file and wait for the end: %v", err)
	}
}

// BenchmarkSync reads 10 000 pods by LIST and hands each to a handler. Retained is
// what the cache holds afterwards.
func BenchmarkSync(b *testing.B) {
	const n = 10_000
	list := podList(n)
	b.ReportAllocs()
	var held uint64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		pods := informer.New(informer.From("pods", canned(list, nil), informer.SharedJSON[*corev1.Pod]()),
			informer.NoStreamingLists())
		reg := pods.Handle(func(context.Context, informer.Event[*corev1.Pod]) error { return nil })
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		b.StartTimer()
		go func() { done <- pods.Run(ctx) }()
		if err := reg.WaitSynced(ctx); err != nil {
			b.Fatalf("wait until it is synced: %v", err)
		}
		b.StopTimer()
		cancel()
		if err := <-done; err != nil {
			b.Fatalf("wait for the end: %v", err)
		}
		held = heap() - before
		runtime.KeepAlive(pods)
		b.StartTimer()
	}
	b.ReportMetric(float64(held)/n, "retained-B/pod")
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
