package authn_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// anySecret finds one object, whatever is looked for.
type anySecret struct{ object *wire.Object }

func (a anySecret) Find(schema.GroupResource, wire.Key) *wire.Object { return a.object }

// FuzzBootstrapToken looks at tokens and Secrets: whatever they hold, who is known has the right name.
func FuzzBootstrapToken(f *testing.F) {
	f.Add("abcdef.0123456789abcdef",
		`{"token-id":"YWJjZGVm","token-secret":"MDEyMzQ1Njc4OWFiY2RlZg==","usage-bootstrap-authentication":"dHJ1ZQ=="}`)
	f.Add("abcdef.0123456789abcdef", `{"auth-extra-groups":"eA==","expiration":"eA=="}`)
	f.Add("", "null")
	f.Fuzz(func(t *testing.T, token, data string) {
		object, err := wire.ParseObject([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"n"},`+
			`"type":"bootstrap.kubernetes.io/token","data":`+data+`}`), nil)
		if err != nil {
			return
		}
		response, known, err := authn.BootstrapTokens{Objects: anySecret{object}}.AuthenticateToken(t.Context(), token)
		if known && (err != nil || response.User.GetName() != "system:bootstrap:"+token[:6]) {
			t.Errorf("%v, %v", response, err)
		}
	})
}
