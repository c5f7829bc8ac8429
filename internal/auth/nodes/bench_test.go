package nodes_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/wire"
)

// filled is a cluster with so many pods on each of its nodes, "n0" and so on, each of which has a secret and a claim of its
// own; the volumes of all claims have one secret.
func filled(b *testing.B, count, pods int) *cluster {
	b.Helper()
	c := newCluster(b)
	for n := range count {
		for i := range pods {
			name := fmt.Sprintf("p%d-%d", n, i)
			c.put("pods",
				fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"ns"},"spec":{"nodeName":"n%d","serviceAccountName":"sa",
				"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}},"envFrom":[{"configMapRef":{"name":"all"}}]}],
				"volumes":[{"name":"s","secret":{"secretName":%q}},{"name":"c","persistentVolumeClaim":{"claimName":%q}}]}}`,
					name, n, name, name))
			c.put("persistentvolumes", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"claimRef":{"namespace":"ns","name":%q},
				"csi":{"driver":"d","volumeHandle":"h","nodeStageSecretRef":{"namespace":"ns","name":"shared"}}}}`, name, name))
		}
	}
	return c
}

func (c *cluster) get(b *testing.B, asked string, want bool) {
	if d := c.Decide(b.Context(), kubelet("n0"), wish(asked)); d.Allowed != want {
		b.Fatalf("%s: %v, want %v", asked, d.Allowed, want)
	}
}

func BenchmarkDecision(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{1, 100}, {100, 100}, {1, 10_000}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			c := filled(b, size.nodes, size.pods)
			for name, asked := range map[string]string{
				"secret": "get secrets ns/p0-1", "volume": "get persistentvolumes /p0-1",
				"secretOfVolumes": "get secrets ns/shared",
			} {
				b.Run(name, func(b *testing.B) {
					c.get(b, asked, true) // the first one decodes what there is
					for b.Loop() {
						c.get(b, asked, true)
					}
				})
			}
			b.Run("none", func(b *testing.B) {
				for b.Loop() {
					c.get(b, "get secrets ns/none", false)
				}
			})
		})
	}
}

// BenchmarkFirstDecision is what a node's first request costs, which decodes its pods.
func BenchmarkFirstDecision(b *testing.B) {
	for _, pods := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			c := filled(b, 1, pods)
			var all []*wire.Object
			for _, o := range c.objects {
				if o.Fields().Get("spec.nodeName") != "" {
					all = append(all, o)
				}
			}
			for b.Loop() {
				c.Replace(schema.GroupResource{Resource: "pods"}, all)
				c.get(b, "get secrets ns/p0-1", true)
			}
		})
	}
}

func BenchmarkPodChange(b *testing.B) {
	c := filled(b, 100, 100)
	pods, o := schema.GroupResource{Resource: "pods"}, c.objects["pods ns/p0-1"]
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			c.Change(pods, o, false)
		}
	})
	b.Run("writeAndDecision", func(b *testing.B) {
		for b.Loop() {
			c.Change(pods, o, false)
			c.get(b, "get secrets ns/p0-1", true)
		}
	})
}
