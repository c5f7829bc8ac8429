package authn_test

import (
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestLargeTokensAreNotKept requests tokens for more and more audiences: larger ones are verified each
// time, and the largest refused.
func TestLargeTokensAreNotKept(t *testing.T) {
	keys, err := authn.NewKeys(newKey(t), nil)
	if err != nil {
		t.Fatalf("make the keys: %v", err)
	}
	accounts := authn.NewAccounts(authn.AccountsConfig{
		Keys: keys, Issuers: []string{issuer}, Audiences: []string{issuer}, Objects: newCluster(t),
	})
	kept := 0
	for _, c := range []struct {
		audiences   int
		known, kept bool
	}{{0, true, true}, {10, true, true}, {1000, true, false}, {10000, false, false}} {
		req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{issuer}}}
		for i := range c.audiences {
			req.Spec.Audiences = append(req.Spec.Audiences, fmt.Sprint("audience-", i))
		}
		if err := accounts.Issue(t.Context(), wire.Key{Namespace: "ns", Name: "robot"}, req); err != nil {
			t.Fatalf("issue a token: %v", err)
		}
		if c.kept {
			kept++
		}
		for range 2 {
			_, known, err := accounts.AuthenticateToken(t.Context(), req.Status.Token)
			if known != c.known || err != nil || accounts.Kept() != kept {
				t.Errorf("%d audiences, %d bytes: %v, %v; %d tokens are kept, want %d",
					c.audiences, len(req.Status.Token), known, err, accounts.Kept(), kept)
			}
		}
	}
}

// TestCertificatesDoNotCountBeforeTheirTime asks an hour before a certificate begins: the clock was set
// back after the handshake.
func TestCertificatesDoNotCountBeforeTheirTime(t *testing.T) {
	state := certified(t, newKey(t))
	leaf := *state.VerifiedChains[0][0]
	leaf.NotBefore = leaf.NotAfter
	state.VerifiedChains[0][0] = &leaf
	r := request(t.Context(), "")
	r.TLS = state
	if _, err := authn.New(authn.Config{}).Authenticate(r); wire.StatusOf(err).Code != 401 {
		t.Error(err)
	}
}
