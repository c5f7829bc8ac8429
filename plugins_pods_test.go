package gapless_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless"
)

const ordinaryPod = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`

// TestPodsOfANewNamespaceHaveAnAccountAtOnce: the server makes the accounts default a moment after the namespaces.
func TestPodsOfANewNamespaceHaveAnAccountAtOnce(t *testing.T) {
	s := launch(t, gapless.Config{Memory: true, Bootstrap: gapless.BootstrapCluster})
	client := s.web(t)
	var wg sync.WaitGroup
	for i := range 20 {
		name := fmt.Sprintf("n%d", i)
		if code, body := s.exchange(t, client, "POST /api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`); code != 201 {
			t.Fatalf("create the namespace: %d %s", code, body)
		}
		wg.Go(func() {
			code, body := s.exchange(t, client, "POST /api/v1/namespaces/"+name+"/pods", ordinaryPod)
			if code != 201 || !strings.Contains(body, `"serviceAccountName":"default"`) ||
				!strings.Contains(body, `"name":"kube-api-access-`) {
				t.Errorf("create a pod: %d %s", code, body)
			}
		})
	}
	wg.Wait()
}

// TestPodsWithoutAnAccountAreRefused: nobody makes accounts.
func TestPodsWithoutAnAccountAreRefused(t *testing.T) {
	s := launch(t, gapless.Config{
		Memory: true, Bootstrap: gapless.BootstrapServer, EnableAdmissionPlugins: []string{"ServiceAccount"},
	})
	code, body := s.exchange(t, s.web(t), "POST /api/v1/namespaces/default/pods", ordinaryPod)
	if code != 403 ||
		!strings.Contains(body, `error looking up service account default/default: serviceaccount \"default\" not found`) {
		t.Errorf("without an account: %d %s", code, body)
	}
}

// TestAResizeStoresNoAnnotation: LimitRanger notes what it sets in one, which a resize cannot change.
func TestAResizeStoresNoAnnotation(t *testing.T) {
	s := launch(t, gapless.Config{Memory: true, Bootstrap: gapless.BootstrapCluster})
	client := s.web(t)
	const namespace = "/api/v1/namespaces/default"
	pod := strings.Replace(ordinaryPod, `"image":"i"`, `"image":"i","resources":{"requests":{"cpu":"100m"}}`, 1)
	code, body := s.exchange(t, client, "POST "+namespace+"/pods", pod)
	if code != 201 {
		t.Fatalf("create the pod: %d %s", code, body)
	}
	const limits = `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","defaultRequest":{"memory":"1Gi"}}]}}`
	if code, body := s.exchange(t, client, "POST "+namespace+"/limitranges", limits); code != 201 {
		t.Fatalf("create the LimitRange: %d %s", code, body)
	}
	code, body = s.exchange(t, client, "PUT "+namespace+"/pods/p/resize", strings.Replace(body, `"100m"`, `"200m"`, 1))
	if code != 200 || !strings.Contains(body, `"memory":"1Gi"`) || strings.Contains(body, "kubernetes.io/limit-ranger") {
		t.Errorf("resize: %d %s", code, body)
	}
}

// admissionConfig writes a file with the configuration of a plugin.
func admissionConfig(t *testing.T, plugin, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "admission.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: " + plugin +
		"\n  configuration: " + config
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("write the configuration: %v", err)
	}
	return file
}

const securityConfig = "{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, "

func TestPodSecurityIsAsConfigured(t *testing.T) {
	file := admissionConfig(t, "PodSecurity", securityConfig+"defaults: {enforce: baseline}, exemptions: {namespaces: [free]}}")
	s := launch(t, gapless.Config{Memory: true, Bootstrap: gapless.BootstrapCluster, AdmissionControlConfigFile: file})
	client := s.web(t)
	host := strings.Replace(ordinaryPod, `"spec":{`, `"spec":{"hostNetwork":true,`, 1)
	if code, body := s.exchange(t, client, "POST /api/v1/namespaces", `{"metadata":{"name":"free"}}`); code != 201 {
		t.Fatalf("create the namespace: %d %s", code, body)
	}
	for namespace, want := range map[string]int{"default": 403, "free": 201} {
		code, body := s.exchange(t, client, "POST /api/v1/namespaces/"+namespace+"/pods", host)
		if code != want || want == 403 && !strings.Contains(body, `violates PodSecurity \"baseline:latest\": host namespaces`) {
			t.Errorf("in %s: %d %s", namespace, code, body)
		}
	}
	_, metrics := s.exchange(t, client, "GET /metrics", "")
	for _, line := range []string{
		`pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="baseline",policy_version="latest",` +
			`request_operation="create",resource="pod",subresource=""} 1`,
		`pod_security_exemptions_total{request_operation="create",resource="pod",subresource=""} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	wrong := admissionConfig(t, "PodSecurity", securityConfig+"defaults: {enforce: strict}}")
	got := startError(t, gapless.Config{Memory: true, AdmissionControlConfigFile: wrong})
	for _, part := range []string{
		wrong, "PodSecurity", "defaults.enforce", `"strict"`, "must be one of privileged, baseline, restricted",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("a wrong configuration: %s, want %s", got, part)
		}
	}
}
