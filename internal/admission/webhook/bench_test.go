package webhook_test

import (
	"fmt"
	"testing"

	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/webhook"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// BenchmarkNoMatch is a write that none of 50 configurations concerns.
func BenchmarkNoMatch(b *testing.B) {
	live := kinds.NewLive(builtin.Catalog())
	p := webhook.New(webhook.Config{Live: live})
	var all []*wire.Object
	for i := range 50 {
		o, err := wire.ParseObject(fmt.Appendf(nil,
			`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"c%d"},
"webhooks":[{"name":"v.example.com","clientConfig":{"url":"https://127.0.0.1:1"},"sideEffects":"None","admissionReviewVersions":["v1"],"matchPolicy":"Equivalent",
"namespaceSelector":{},"objectSelector":{},"rules":[{"apiGroups":["apps"],"apiVersions":["*"],"resources":["*/*"],`+
				`"operations":["*"]}]}]}`, i), nil)
		if err != nil {
			b.Fatalf("parse the object: %v", err)
		}
		all = append(all, o)
	}
	p.Replace(p.Follows()[0], all)
	p.Replace(p.Follows()[1], all)
	maps, found := live.Load().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	if !found {
		b.Fatal("no configmaps")
	}
	b.ReportAllocs()
	for b.Loop() {
		if p.Handles(maps, "", upstream.Create) {
			b.Fatal("a webhook matches")
		}
	}
}
