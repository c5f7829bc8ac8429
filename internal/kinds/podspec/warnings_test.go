package podspec_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// TestTheWorkOnOnePodIsBounded takes a pod of the maximum size of which each port and each file is to
// be compared with all others.
func TestTheWorkOnOnePodIsBounded(t *testing.T) {
	const n = 60_000
	ports := make([]corev1.ContainerPort, n)
	items := make([]corev1.KeyToPath, n)
	for i := range n {
		// One number, and no two that collide: nothing to warn about.
		ports[i] = corev1.ContainerPort{ContainerPort: 1, HostPort: 1, HostIP: fmt.Sprintf("10.0.%d.%d", i/256, i%256)}
		items[i] = corev1.KeyToPath{Path: fmt.Sprint(i)}
	}
	files := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: items}}
	for name, spec := range map[string]corev1.PodSpec{
		"ports": {Containers: []corev1.Container{{Ports: ports}}},
		"files": {Volumes: []corev1.Volume{{VolumeSource: files}}},
	} {
		var l warn.List
		podspec.Warn(&l, nil, &spec, &metav1.ObjectMeta{})
		if l.Spend(100_000) {
			t.Errorf("%s: no pairs were counted", name)
		}
		if l.Texts() != nil {
			t.Errorf("%s: warnings: %q", name, l.Texts()[0])
		}
	}
}
