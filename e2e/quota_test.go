package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/fault"
)

// quotaOf returns a ResourceQuota of the namespace default.
func quotaOf(name, hard string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":%q},"spec":{"hard":%s}}`, name, hard)
}

const (
	resourceQuotas = "/api/v1/namespaces/default/resourcequotas"
	ofPods         = "/api/v1/namespaces/default/pods"
)

// pod returns a pod that requests processors.
func podOf(name, cpu string) string {
	return fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"terminationGracePeriodSeconds":0,"containers":[`+
			`{"name":"c","image":"i","resources":{"requests":{"cpu":%q}}}]}}`, name, cpu)
}

// used returns the usage in the status of a quota: "cpu=1,pods=2"; "" if there is none.
func (c *caller) used(name string) string {
	c.t.Helper()
	return listOf(c, name, "used")
}

func listOf(c *caller, name, member string) string {
	c.t.Helper()
	var o struct {
		Status map[string]map[string]string `json:"status"`
	}
	r := c.do(http.MethodGet, resourceQuotas+"/"+name, "")
	if err := json.Unmarshal(r.body, &o); err != nil {
		c.t.Fatalf("decode a quota: %v", err)
	}
	var parts []string
	for _, of := range []string{"configmaps", "count/pods", "cpu", "pods", "requests.cpu", "secrets", "services"} {
		if n, has := o.Status[member][of]; has {
			parts = append(parts, of+"="+n)
		}
	}
	return strings.Join(parts, ",")
}

// counted waits until the usage of a quota is something.
func (c *caller) counted(name, want string) {
	c.t.Helper()
	last := ""
	defer func() {
		if c.t.Failed() {
			c.t.Logf("the quota %s has %s", name, last)
		}
	}()
	until(c.t, "the quota "+name+" has "+want, 20*time.Second, func() bool { last = c.used(name); return last == want })
}

func TestAQuotaIsCountedAndHolds(t *testing.T) {
	t.Parallel()
	c := launch(t, gapless.Config{}).caller(t, http1)
	c.must(http.StatusCreated, http.MethodPost, ofPods, podOf("before", "1"))
	c.must(http.StatusCreated, http.MethodPost, resourceQuotas, quotaOf("q", `{"cpu":"3","pods":"2"}`))
	c.counted("q", "cpu=1,pods=1")
	c.must(http.StatusCreated, http.MethodPost, ofPods, podOf("second", "1500m"))
	if got := c.used("q"); got != "cpu=2500m,pods=2" {
		t.Errorf("after a creation the usage is %s", got)
	}
	r := c.do(http.MethodPost, ofPods, podOf("third", "1"))
	const want = `pods \"third\" is forbidden: exceeded quota: q, requested: cpu=1,pods=1, used: cpu=2500m,pods=2, ` +
		`limited: cpu=3,pods=2`
	if r.code != http.StatusForbidden || !strings.Contains(string(r.body), want) {
		t.Errorf("a third pod: %d %s", r.code, r.body)
	}
	c.must(http.StatusOK, http.MethodDelete, ofPods+"/before", "")
	c.counted("q", "cpu=1500m,pods=1")
	c.merge(resourceQuotas+"/q", `{"spec":{"hard":{"pods":"5","cpu":null,"configmaps":"9"}}}`)
	c.counted("q", "configmaps=0,pods=1")
	c.create("default", "a", "1")
	if got := listOf(c, "q", "hard"); got != "configmaps=9,pods=5" {
		t.Errorf("the limits are %s", got)
	}
	// A write that has no effect is given back.
	c.must(http.StatusConflict, http.MethodPost, ofPods, podOf("second", "1"))
	if got := c.used("q"); got != "configmaps=1,pods=1" {
		t.Errorf("after a creation of what is there the usage is %s", got)
	}
	c.must(http.StatusCreated, http.MethodPost, ofPods+"?dryRun=All", podOf("dry", "1"))
	if got := c.used("q"); got != "configmaps=1,pods=1" {
		t.Errorf("after a dry run the usage is %s", got)
	}
	c.must(http.StatusOK, http.MethodPatch, ofPods+"/second/status", `{"status":{"phase":"Succeeded"}}`,
		"Content-Type: application/merge-patch+json")
	c.counted("q", "configmaps=1,pods=0")
}

func TestWritersAtOnceNeverExceedAQuota(t *testing.T) {
	t.Parallel()
	const writers, each, most = 64, 8, 100
	c := launch(t, gapless.Config{DataDir: t.TempDir()}).caller(t, http2)
	c.must(http.StatusCreated, http.MethodPost, resourceQuotas, quotaOf("q", fmt.Sprintf(`{"pods":"%d","cpu":"1k"}`, most)))
	c.must(http.StatusCreated, http.MethodPost, resourceQuotas, quotaOf("r", `{"pods":"200"}`))
	c.counted("q", "cpu=0,pods=0")
	c.counted("r", "pods=0")
	from := c.do(http.MethodGet, ofPods, "").tree(t).rv()
	var accepted, present atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("p-%d-%d", w, i)
				r := c.do(http.MethodPost, ofPods, podOf(name, "1"))
				switch r.code {
				case http.StatusCreated:
					accepted.Add(1)
					present.Add(1)
				case http.StatusForbidden:
				default:
					t.Errorf("create: %d %s", r.code, r.body)
				}
				if r.code == http.StatusCreated && i%2 == 0 {
					present.Add(-1)
					c.must(http.StatusOK, http.MethodDelete, ofPods+"/"+name, "")
				}
			}
		})
	}
	wg.Wait()
	if n := c.mostAtOnce(ofPods, from); n > most {
		t.Errorf("there were %d pods at once, of %d", n, most)
	}
	t.Logf("%d of %d pods were created", accepted.Load(), writers*each)
	left := present.Load()
	c.counted("q", fmt.Sprintf("cpu=%d,pods=%d", left, left))
	c.counted("r", fmt.Sprintf("pods=%d", left))
}

// mostAtOnce returns how many objects of a collection that was empty there were at most, since a resourceVersion.
func (c *caller) mostAtOnce(path, from string) (most int) {
	c.t.Helper()
	r := c.do(http.MethodGet, path+"?watch=1&timeoutSeconds=2&resourceVersion="+from, "")
	now := 0
	for line := range strings.Lines(string(r.body)) {
		var e struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			c.t.Fatalf("decode an event: %v", err)
		}
		switch e.Type {
		case "ADDED":
			now++
		case "DELETED":
			now--
		}
		most = max(most, now)
	}
	return most
}

// TestQuotasAreCountedAfterAStart: what nobody has counted while the controller was away, and what was charged for
// objects that were never stored.
func TestQuotasAreCountedAfterAStart(t *testing.T) {
	t.Parallel()
	l := launchRestartable(t)
	l.must(http.StatusCreated, http.MethodPost, resourceQuotas, quotaOf("q", `{"configmaps":"10","pods":"10","secrets":"10"}`))
	l.counted("q", "configmaps=0,pods=0,secrets=0")
	l.cfg.Controllers = []string{"*", "-resourcequota"}
	l.cfg.Faults = fault.New(1)
	l.restart(t)
	if err := l.cfg.Faults.Add(fault.Rule{
		Name: "lost", Match: fault.Match{Resources: []string{"secrets"}}, Action: &fault.StoreWrite{Fail: "before"},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		l.create("default", name, "1")
	}
	l.remove("default", "a")
	l.must(http.StatusInternalServerError, http.MethodPost, "/api/v1/namespaces/default/secrets", `{"metadata":{"name":"lost"}}`)
	l.must(http.StatusCreated, http.MethodPost, ofPods, podOf("p", "1"))
	if got := l.used("q"); got != "configmaps=3,pods=1,secrets=1" {
		t.Errorf("without the controller the usage is %s", got)
	}
	l.cfg.Controllers, l.cfg.Faults = nil, nil
	l.restart(t)
	l.counted("q", "configmaps=2,pods=1,secrets=0")
}

func TestLimitedResourcesNeedAQuota(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - {resource: pods, matchContains: [cpu], matchScopes: [
        {scopeName: PriorityClass, operator: In, values: [system-node-critical]}]}
`), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	c := launch(t, gapless.Config{AdmissionControlConfigFile: file}).caller(t, http1)
	refused := func(want, body string) {
		t.Helper()
		if r := c.do(http.MethodPost, ofPods, body); r.code < http.StatusForbidden || !strings.Contains(string(r.body), want) {
			t.Errorf("%d %s, want %s", r.code, r.body, want)
		}
	}
	refused("insufficient quota to consume: cpu,requests.cpu", podOf("p", "1"))
	critical := strings.Replace(podOf("p", "0"), `"spec":{`, `"spec":{"priorityClassName":"system-node-critical",`, 1)
	refused("insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]", critical)
	c.must(http.StatusCreated, http.MethodPost, ofPods, podOf("none", "0"))
	c.create("default", "a", "1")
	c.must(http.StatusCreated, http.MethodPost, resourceQuotas, quotaOf("q", `{"cpu":"5","requests.cpu":"5"}`))
	c.counted("q", "cpu=0,requests.cpu=0")
	c.must(http.StatusCreated, http.MethodPost, ofPods, podOf("p", "1"))
}
