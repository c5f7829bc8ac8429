package gapless_test

import (
	"net/http"
	"testing"

	"github.com/gapless-io/gapless"
)

// TestAnAuthorizerThatHangsHoldsUpNobodyElse creates an object whose owner the authorizer is asked about, and meanwhile
// deletes another namespace, which waits for creations that are under way.
func TestAnAuthorizerThatHangsHoldsUpNobodyElse(t *testing.T) {
	h := newAccessHook(t, func(spec map[string]any) any {
		if at(spec, "resourceAttributes", "subresource") == "finalizers" {
			return nil
		}
		return map[string]any{"allowed": true}
	})
	g := newRigOf(t, gapless.Config{
		Bootstrap: gapless.BootstrapNone, EnableAdmissionPlugins: []string{"OwnerReferencesPermissionEnforcement"},
		Authentication: gapless.Authentication{TokenAuthFile: tokenFile(t)}, AuthorizationMode: "Webhook",
		Authorization: gapless.Authorization{Webhook: gapless.AccessWebhook{ConfigFile: h.file(t), Version: "v1"}},
	})
	g.admin("POST", "/api/v1/namespaces", `{"metadata":{"name":"other"}}`)
	created := make(chan int, 1)
	go func() { // ends with the answer, after the webhook's
		code, _ := g.do(g.client(), "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"owned",
			"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u","blockOwnerDeletion":true}]}}`,
			bearer("secret")...)
		created <- code
	}()
	until(t, func() bool { return h.count() > 1 })
	g.admin("DELETE", "/api/v1/namespaces/other", "")
	until(t, func() bool {
		code, _ := g.do(g.client(g.own), "GET", "/api/v1/namespaces/other", "")
		return code == http.StatusNotFound
	})
	select {
	case code := <-created:
		t.Errorf("the authorizer has not answered, and the creation is %d: the namespace may have waited for it", code)
	default:
	}
	h.CloseClientConnections()
	<-created
}
