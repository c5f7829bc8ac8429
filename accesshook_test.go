package gapless_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gapless-io/gapless"
)

// accessHook is a webhook that reviews tokens, or access, over TLS.
type accessHook struct {
	*httptest.Server
	// answer returns the status for a spec; nil: it never answers.
	answer func(spec map[string]any) any

	// mu guards asked.
	mu    sync.Mutex
	asked []map[string]any // the reviews
}

func newAccessHook(t *testing.T, answer func(spec map[string]any) any) *accessHook {
	t.Helper()
	h := &accessHook{answer: answer}
	stopped := make(chan struct{})
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var review map[string]any
		if err != nil || json.Unmarshal(body, &review) != nil {
			t.Errorf("the webhook was sent %s, %v", body, err)
			return
		}
		h.mu.Lock()
		h.asked = append(h.asked, review)
		h.mu.Unlock()
		spec, _ := review["spec"].(map[string]any)
		status := h.answer(spec)
		if status == nil {
			select {
			case <-stopped:
			case <-r.Context().Done():
			}
			return
		}
		if code, is := status.(int); is {
			w.WriteHeader(code)
			return
		}
		review["status"] = status
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("encode as JSON: %v", err)
		}
	}))
	t.Cleanup(h.Close)
	t.Cleanup(func() { close(stopped) })
	return h
}

// count returns how often the webhook was asked.
func (h *accessHook) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

func (h *accessHook) last() map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[len(h.asked)-1]
}

// file returns a kubeconfig for the webhook.
func (h *accessHook) file(t *testing.T) string {
	t.Helper()
	return hookFile(t, h.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})))
}

func hookFile(t *testing.T, url, ca string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.yaml")
	cluster := map[string]any{"server": url}
	if ca != "" {
		cluster["certificate-authority-data"] = []byte(ca)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []any{map[string]any{"name": "h", "cluster": cluster}},
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "h", "user": "u"}}},
		"users":    []any{map[string]any{"name": "u", "user": map[string]any{"token": "the-server"}}},
	})
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	put(t, path, string(body))
	return path
}

// TestAWebhookSaysWhoseTokenItIs asks it in both versions. Its answers are kept.
func TestAWebhookSaysWhoseTokenItIs(t *testing.T) {
	for _, version := range []string{"", "v1"} {
		t.Run(version, func(t *testing.T) {
			h := newAccessHook(t, func(spec map[string]any) any {
				switch spec["token"] {
				case "known":
					return map[string]any{"authenticated": true, "user": map[string]any{
						"username": "jim", "uid": "7", "groups": []string{"ops"}, "extra": map[string]any{"a": []string{"b"}},
					}}
				case "elsewhere":
					return map[string]any{
						"authenticated": true, "audiences": []string{"vault"}, "user": map[string]any{"username": "x"},
					}
				}
				return map[string]any{"authenticated": false, "error": "who?"}
			})
			g := newRig(t, gapless.Authentication{
				TokenAuthFile: tokenFile(t), Webhook: gapless.TokenWebhook{ConfigFile: h.file(t), Version: version},
			})
			for range 3 {
				code, who := g.whoami(g.client(), bearer("known")...)
				want := "[jim 7 [ops system:authenticated] [b]]"
				if got := fmt.Sprint([]any{
					who["username"], who["uid"], who["groups"], at(who, "extra", "a"),
				}); code != 201 || got != want {
					t.Errorf("%d %s, want %s", code, got, want)
				}
			}
			if n := h.count(); n != 1 {
				t.Errorf("the webhook was asked %d times, want once", n)
			}
			asked := h.last()
			if want := "authentication.k8s.io/" + strings.Replace(version+"v1beta1", "v1v1beta1", "v1",
				1); asked["apiVersion"] != want ||
				fmt.Sprint(at(asked, "spec", "audiences")) != "["+gapless.DefaultServiceAccountIssuer+"]" {
				t.Errorf("the webhook was asked %v", asked)
			}
			for token, want := range map[string]int{"unknown": 401, "elsewhere": 401, "secret": 201} {
				if code, who := g.whoami(g.client(), bearer(token)...); code != want {
					t.Errorf("%s: %d %v", token, code, who)
				}
			}
			review := g.admin("POST", "/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"unknown"}}`)
			if text := fmt.Sprint(at(review, "status", "error")); !strings.Contains(text, "who?") {
				t.Errorf("the review says %q", text)
			}
		})
	}
}

// TestAHangingWebhookSlowsOnlyWhoNeedsIt has requests that wait for it, and others that are answered meanwhile.
func TestAHangingWebhookSlowsOnlyWhoNeedsIt(t *testing.T) {
	h := newAccessHook(t, func(map[string]any) any { return nil })
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t), Webhook: gapless.TokenWebhook{ConfigFile: h.file(t)}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting sync.WaitGroup
	client := g.client()
	for n := range 50 {
		waiting.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/api/v1/pods", http.NoBody)
			if err != nil {
				t.Errorf("make a request: %v", err)
				return
			}
			r.Header.Set("Authorization", fmt.Sprintf("Bearer waits-%d", n))
			if resp, err := client.Do(r); err == nil {
				_ = resp.Body.Close()
				t.Errorf("an answer %d before the webhook's", resp.StatusCode)
			}
		})
	}
	for h.count() < 50 {
		if t.Context().Err() != nil {
			t.Fatal("the webhook is not asked")
		}
	}
	for _, headers := range [][]string{bearer("secret"), nil} {
		want := http.StatusCreated
		if headers == nil {
			want = http.StatusUnauthorized
		}
		if code, who := g.whoami(g.client(), headers...); code != want {
			t.Errorf("%v: %d %v, want %d", headers, code, who, want)
		}
	}
	if code, _ := g.whoami(g.client(g.own)); code != http.StatusCreated {
		t.Errorf("with a certificate: %d", code)
	}
	cancel()
	waiting.Wait()
}

// decides answers reviews of access: who is allowed and denied, by the verb.
func decides(spec map[string]any) any {
	switch at(spec, "resourceAttributes", "verb") {
	case "list":
		return map[string]any{"allowed": true, "reason": "lists are fine"}
	case "delete":
		return map[string]any{"allowed": false, "denied": true, "reason": "never"}
	case "watch":
		return http.StatusTeapot
	}
	return map[string]any{"allowed": false, "reason": "no opinion"}
}

// TestAWebhookDecidesInItsPlaceOfTheList asks it before the roles, which only count for what it has no opinion about.
func TestAWebhookDecidesInItsPlaceOfTheList(t *testing.T) {
	h := newAccessHook(t, decides)
	g := newRigOf(t, gapless.Config{
		Bootstrap:      gapless.BootstrapCluster,
		Authentication: gapless.Authentication{TokenAuthFile: tokenFile(t)}, AuthorizationMode: "Webhook,RBAC",
		Authorization: gapless.Authorization{Webhook: gapless.AccessWebhook{ConfigFile: h.file(t), Version: "v1"}},
	})
	g.admin("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"jane"},`+
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},`+
		`"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`)
	for _, c := range []struct {
		token, method, path string
		code                int
		text                string
	}{
		{"secret", "GET", "/api/v1/pods", 200, ""}, // the webhook allows it
		{"plain", "GET", "/api/v1/pods", 200, ""},
		{
			"secret", "DELETE", "/api/v1/namespaces/default/pods/x", 403,
			`User "jane" cannot delete resource "pods" in API group "" in the namespace "default": never`,
		},
		{"secret", "GET", "/api/v1/namespaces/default/pods/x", 404, ""}, // the roles allow it
		{"plain", "GET", "/api/v1/namespaces/default/pods/x", 403, "default: no opinion"},
		{"secret", "GET", "/api/v1/pods?watch=true&timeoutSeconds=1", 200, ""},
		{"master", "DELETE", "/api/v1/namespaces/default/pods/x", 404, ""}, // nobody is asked
	} {
		code, answer := g.do(g.client(), c.method, c.path, "", bearer(c.token)...)
		if text, _ := answer["message"].(string); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %s %s: %d %v, want %d %q", c.token, c.method, c.path, code, answer, c.code, c.text)
		}
	}
	before := h.count()
	for range 3 {
		g.do(g.client(), "GET", "/api/v1/pods", "", bearer("plain")...)
	}
	if n := h.count(); n != before {
		t.Errorf("the webhook was asked %d times about what it has answered", n-before)
	}
	// Who cannot be decided about is 500, in upstream's form.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/api/v1/pods?watch=1&labelSelector=a%3Db",
		http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	r.Header.Set("Authorization", "Bearer plain")
	resp, err := g.client().Do(r)
	if err != nil {
		t.Fatalf("do: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	const want = `Internal Server Error: "/api/v1/pods?watch=1&amp;labelSelector=a%3Db": `
	if resp.StatusCode != http.StatusInternalServerError || err != nil || !strings.HasPrefix(string(text), want) {
		t.Errorf("%d %s %v", resp.StatusCode, text, err)
	}
	if asked := h.last(); fmt.Sprint(at(asked, "spec", "resourceAttributes", "labelSelector", "requirements")) !=
		"[map[key:a operator:In values:[b]]]" || at(asked, "spec", "user") != "joe" {
		t.Errorf("the webhook was asked %v", asked)
	}
	for user, want := range map[string]string{"jane": "denied:true reason:never", "x": "denied:true reason:never"} {
		review := g.admin("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
			`{"spec":{"user":"`+user+`","resourceAttributes":{"verb":"delete","resource":"pods"}}}`)
		if text := fmt.Sprint(review["status"]); !strings.Contains(text, want) {
			t.Errorf("%s: %s", user, text)
		}
	}
	rules := g.admin("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{"namespace":"default"}}`)
	if at(rules, "status", "incomplete") != true {
		t.Errorf("the rules are %v", rules["status"])
	}
}

// authorizers is an AuthorizationConfiguration with a webhook, whose expressions match a verb, and the roles.
func authorizers(file, verb, policy string) string {
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hook
  webhook:
    authorizedTTL: 1ms
    unauthorizedTTL: 1ms
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: %s
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: %s
    matchConditions:
    - expression: has(request.resourceAttributes)
    - expression: request.resourceAttributes.verb == '%s'
- type: RBAC
  name: rbac
`, policy, file, verb)
}

// TestTheFileOfAuthorizersCountsAnewWhenItChanges also leaves the former ones when it is wrong.
func TestTheFileOfAuthorizersCountsAnewWhenItChanges(t *testing.T) {
	h := newAccessHook(t, decides)
	hook, file := h.file(t), filepath.Join(t.TempDir(), "authorization.yaml")
	put(t, file, authorizers(hook, "list", "NoOpinion"))
	g := newRigOf(t, gapless.Config{
		Bootstrap:      gapless.BootstrapCluster,
		Authentication: gapless.Authentication{TokenAuthFile: tokenFile(t)},
		Authorization:  gapless.Authorization{ConfigFile: file},
	})
	answers := func(path string) int {
		code, _ := g.do(g.client(), "GET", path, "", bearer("plain")...)
		return code
	}
	if list, get := answers("/api/v1/pods"), answers("/api/v1/namespaces/default/pods/x"); list != 200 || get != 403 ||
		h.count() != 1 {
		t.Errorf("list %d, get %d, asked %d times", list, get, h.count())
	}
	put(t, file, authorizers(hook, "delete", "NoOpinion"))
	for answers("/api/v1/pods") != 403 {
		if t.Context().Err() != nil {
			t.Fatal("the file never counts")
		}
	}
	put(t, file, authorizers(hook, "watch", "Deny"))
	for answers("/api/v1/pods?watch=true") != 500 {
		if t.Context().Err() != nil {
			t.Fatal("the file never counts")
		}
	}
	if asked := h.last(); at(asked, "spec", "resourceAttributes", "verb") != "watch" {
		t.Errorf("the webhook was asked %v", asked)
	}
}

func TestWrongConfigurationOfAuthorizersStopsTheStart(t *testing.T) {
	dir, hook := t.TempDir(), hookFile(t, "https://127.0.0.1:1", "")
	file := func(name, body string) gapless.Config {
		path := filepath.Join(dir, name)
		put(t, path, body)
		return gapless.Config{Authorization: gapless.Authorization{ConfigFile: path}}
	}
	right := authorizers(hook, "get", "Deny")
	both := file("both", right)
	both.AuthorizationMode = "RBAC"
	for name, c := range map[string]struct {
		cfg  gapless.Config
		want []string
	}{
		"no file": {
			gapless.Config{Authorization: gapless.Authorization{ConfigFile: filepath.Join(dir, "none")}}, []string{"none"},
		},
		"a typo": {file("typo", right+"wrong: 1\n"), []string{"typo", `unknown field "wrong"`}},
		"a policy": {
			file("policy", authorizers(hook, "get", "Allow")), []string{"policy", "authorizers[0].failurePolicy", "Deny"},
		},
		"an expression": {
			file("cel", authorizers(hook, "get' &&", "Deny")), []string{"cel", "matchConditions[1]", "Syntax error"},
		},
		"no kubeconfig": {file("config", authorizers("/none", "get", "Deny")), []string{"config", "kubeConfigFile", "/none"}},
		"a name": {
			file("name", strings.Replace(right, "name: rbac", "name: x", 1)), []string{"name", "expected name rbac"},
		},
		"a type": {
			file("type", strings.Replace(right, "RBAC", "ABAC", 1)), []string{"type", "authorizers[1].type", "ABAC"},
		},
		"in a cluster": {
			file("in",
				strings.Replace(strings.Replace(right, "      kubeConfigFile: "+hook+"\n", "", 1), "type: KubeConfigFile",
					"type: InClusterConfig", 1)), []string{"in", "runs in no cluster"},
		},
		"a file, a mode": {both, []string{"--authorization-config can not be specified"}},
		"no webhook":     {gapless.Config{AuthorizationMode: "RBAC,Webhook"}, []string{"config file not passed"}},
		"no mode": {
			gapless.Config{Authorization: gapless.Authorization{Webhook: gapless.AccessWebhook{ConfigFile: hook}}},
			[]string{"without mode Webhook"},
		},
		"a mode twice": {gapless.Config{AuthorizationMode: "RBAC,RBAC"}, []string{"given twice"}},
		"beside":       {gapless.Config{AuthorizationMode: "RBAC,MastersOnly"}, []string{"stands alone"}},
		"unknown":      {gapless.Config{AuthorizationMode: "Magic"}, []string{"Magic", "want RBAC"}},
	} {
		c.cfg.Memory, c.cfg.Listen = true, "127.0.0.1:0"
		err := tryRun(t, c.cfg)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %q", name, err, want)
			}
		}
	}
}
