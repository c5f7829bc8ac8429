package user

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gapless-io/gapless/gaplesstest/processtest"
)

// TestServer needs the program in the version of the module, which the go command builds.
func TestServer(t *testing.T) {
	s := processtest.New(t)
	clients := kubernetes.NewForConfigOrDie(s.RESTConfig())
	s.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
	s.Crash(t)
	if _, err := clients.CoreV1().Namespaces().Get(t.Context(), "shop", metav1.GetOptions{}); err != nil {
		t.Errorf("get namespaces: %v", err)
	}
}
