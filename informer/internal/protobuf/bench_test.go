package protobuf_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/informer/internal/protobuf"
)

// BenchmarkDecode decodes pods of which 35 at a time have a template in common: with shared
// parts, and by their own Unmarshal.
func BenchmarkDecode(b *testing.B) {
	raw := make([][]byte, 200*35)
	for n := range raw {
		p := pod()
		p.Name, p.Status.PodIP = fmt.Sprint("web-", n), fmt.Sprint("10.0.0.", n)
		p.Labels["pod-template-hash"] = fmt.Sprint("template-", n/35)
		p.Spec.NodeName = fmt.Sprint("node-", n*7919%97)
		p.Spec.Containers = []corev1.Container{{
			Name: "main", Image: fmt.Sprint("example.org/image:", n/35), TerminationMessagePath: "/dev/termination-log",
			Env: []corev1.EnvVar{{Name: "LEVEL", Value: "info"}, {Name: "TEMPLATE", Value: fmt.Sprint(n / 35)}},
		}}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}}
		raw[n] = inEnvelope(b, p)
	}
	d := protobuf.New[*corev1.Pod]()
	d.Share()
	n := 0 // each run goes on with other pods
	for name, decode := range map[string]func([]byte) (*corev1.Pod, error){"shared": d.Decode, "alone": d.DecodeAlone} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(raw[n%len(raw)]); err != nil {
					b.Fatalf("decode: %v", err)
				}
				n++
			}
		})
	}
}
