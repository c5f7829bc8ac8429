package certificates_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission/plugins/certificates"
	"github.com/gapless-io/gapless/internal/admission/plugins/pluginstest"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
)

// uses allows one verb on one signer.
type uses struct{ verb, name string }

func (u uses) Decide(_ context.Context, _ user.Info, w auth.Attributes) auth.Decision {
	return auth.Decision{Allowed: w.Verb == u.verb && w.Resource.String() == "signers.certificates.k8s.io" && w.Name == u.name}
}

func (uses) Authorize(context.Context, user.Info, auth.Attributes) error { return nil }

func (uses) Rules(context.Context, user.Info, string) (auth.Rules, error) { return auth.Rules{}, nil }

func TestWhoWritesATrustBundleAttestsForItsSigner(t *testing.T) {
	bundle := func(signer, rest string) string {
		return "{apiVersion: certificates.k8s.io/v1, kind: ClusterTrustBundle, metadata: {name: b" + rest +
			"}, spec: {signerName: '" +
			signer + "'}}"
	}
	bundles := kinds.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
	const refused = `clustertrustbundles.certificates.k8s.io "b" is forbidden: user not permitted to attest ` +
		`for signerName "e.x/s"`
	for name, c := range map[string]struct{ now, old, may, want string }{
		"without a signer":      {now: bundle("", "")},
		"with one":              {now: bundle("e.x/s", ""), want: refused},
		"who may":               {now: bundle("e.x/s", ""), may: "e.x/s"},
		"who may all of it":     {now: bundle("e.x/s", ""), may: "e.x/*"},
		"an update":             {now: bundle("e.x/s", ", labels: {a: b}"), old: bundle("e.x/s", ""), want: refused},
		"of a collector":        {now: bundle("e.x/s", ", finalizers: [a]"), old: bundle("e.x/s", "")},
		"which changes nothing": {now: bundle("e.x/s", ""), old: bundle("e.x/s", "")},
	} {
		q := pluginstest.Of(certificates.ClusterTrustBundleAttest(uses{"attest", c.may}), bundles).By("jane")
		var err error
		if c.old == "" {
			err = q.About(t, pluginstest.Tree(t, c.now), nil)
		} else {
			err = q.About(t, pluginstest.Tree(t, c.now), pluginstest.Tree(t, c.old))
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
