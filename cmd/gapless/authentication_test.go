package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// parsed returns the flags about callers as the configuration has them.
func parsed(t *testing.T, args ...string) (serveFlags, error) {
	t.Helper()
	var f serveFlags
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	authenticationFlags(flags, &f.callers)
	authorizationFlags(flags, &f)
	flags.BoolVar(&f.extendTokens, "service-account-extend-token-expiration", true, "")
	err := flags.Parse(args)
	accessOf(&f, flags)
	return f, err
}

// TestEachFlagAboutCallersReachesTheConfiguration gives all of them.
func TestEachFlagAboutCallersReachesTheConfiguration(t *testing.T) {
	f, err := parsed(
		t, "--anonymous-auth=false", "--service-account-max-token-expiration=2h", "--enable-bootstrap-token-auth",
		"--service-account-extend-token-expiration=false", "--authentication-config=a.yaml", "--oidc-issuer-url=https://i",
		"--oidc-client-id=c", "--oidc-ca-file=ca", "--oidc-username-claim=email", "--oidc-username-prefix=-",
		"--oidc-groups-claim=roles", "--oidc-groups-prefix=p:", "--oidc-signing-algs=ES256,PS512", "--oidc-required-claim=a=b=c",
		"--oidc-required-claim=d=e", "--authentication-token-webhook-config-file=t",
		"--authentication-token-webhook-version=v1", "--authentication-token-webhook-cache-ttl=0",
		"--requestheader-client-ca-file=r", "--requestheader-allowed-names=x,y", "--requestheader-username-headers=X-User",
		"--requestheader-uid-headers=X-Remote-Uid", "--requestheader-group-headers=X-Group",
		"--requestheader-extra-headers-prefix=X-Extra-", "--authorization-mode=Node,Webhook",
		"--authorization-webhook-config-file=w", "--authorization-webhook-version=v1",
		"--authorization-webhook-cache-authorized-ttl=1m", "--authorization-webhook-cache-unauthorized-ttl=0",
	)
	want := gapless.Authentication{
		PrivateHealth: true, ServiceAccountMaxTokenExpiration: 2 * time.Hour, FixedTokenExpiration: true, BootstrapTokens: true,
		ConfigFile: "a.yaml",
		OIDC: gapless.OIDC{
			IssuerURL: "https://i", ClientID: "c", CAFile: "ca", UsernameClaim: "email", UsernamePrefix: "-",
			GroupsClaim:  "roles",
			GroupsPrefix: "p:", SigningAlgs: []string{"ES256", "PS512"}, RequiredClaims: map[string]string{"a": "b=c", "d": "e"},
		},
		Webhook: gapless.TokenWebhook{ConfigFile: "t", Version: "v1", CacheTTL: -1},
		FrontProxy: gapless.FrontProxy{
			ClientCAFile: "r", AllowedNames: []string{"x", "y"}, UsernameHeaders: []string{"X-User"},
			UIDHeaders:   []string{"X-Remote-Uid"},
			GroupHeaders: []string{"X-Group"}, ExtraHeaderPrefixes: []string{"X-Extra-"},
		},
	}
	unexported := cmpopts.IgnoreUnexported(gapless.Authentication{})
	if diff := cmp.Diff(want, f.callers, unexported, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	decides := gapless.Authorization{Webhook: gapless.AccessWebhook{
		ConfigFile: "w", Version: "v1", CacheAuthorizedTTL: time.Minute, CacheUnauthorizedTTL: -1,
	}}
	if diff := cmp.Diff(decides, f.authorization) + cmp.Diff([]string{"Node", "Webhook"}, f.modes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAFileOfAuthorizersStandsForTheDefaults has only the flags that are given beside it.
func TestAFileOfAuthorizersStandsForTheDefaults(t *testing.T) {
	f, err := parsed(t, "--authorization-config=f")
	if want := (gapless.Authorization{ConfigFile: "f"}); f.authorization != want || len(f.modes) > 0 || err != nil {
		t.Errorf("%+v, %q, %v", f.authorization, f.modes, err)
	}
	for _, flag := range []string{"--authorization-mode=RBAC", "--authorization-webhook-version=v1"} {
		f, err := parsed(t, "--authorization-config=f", flag)
		if len(f.modes) == 0 || f.authorization.Webhook.Version == "" || err != nil {
			t.Errorf("%s is lost: %+v, %q, %v", flag, f.authorization, f.modes, err)
		}
	}
	if _, err := parsed(t, "--oidc-required-claim=a"); err == nil {
		t.Error("a claim without a value is taken")
	}
}
