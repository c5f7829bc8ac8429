package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// authenticationFlags adds the flags about who is calling. Their names are kube-apiserver's.
func authenticationFlags(flags *pflag.FlagSet, a *gapless.Authentication) {
	flags.BoolVar(&a.Anonymous, "anonymous-auth", false,
		"take requests without a certificate and a token for those of system:anonymous, instead of answering 401; if false is "+
			"given, health checks and the version are 401 as well")
	flags.StringVar(&a.TokenAuthFile, "token-auth-file", "",
		"file with static bearer tokens, in lines of token,user,uid,\"group1,group2\"")
	flags.StringVar(&a.ClientCAFile, "client-ca-file", "",
		"file with further CAs of client certificates, in PEM; read again when it changes")
	flags.StringVar(&a.TLSCertFile, "tls-cert-file", "",
		"file with a serving certificate and its intermediates, in PEM, for the names and addresses that it is valid for; read "+
			"again when it changes")
	flags.StringVar(&a.TLSPrivateKeyFile, "tls-private-key-file", "", "file with the key of --tls-cert-file")
	flags.StringArrayVar(&a.ServiceAccountIssuers, "service-account-issuer", nil,
		"issuer of service account tokens; if repeated, the first issues them and all are accepted (default "+
			gapless.DefaultServiceAccountIssuer+")")
	flags.StringVar(&a.ServiceAccountSigningKeyFile, "service-account-signing-key-file", "",
		"file with the private key, RSA or ECDSA, that signs service account tokens (default pki/sa.key in the data directory, "+
			"made at the first start)")
	flags.StringArrayVar(&a.ServiceAccountKeyFiles, "service-account-key-file", nil,
		"file with further keys, public or private, that verify service account tokens; can be repeated")
	flags.StringVar(&a.ServiceAccountJWKSURI, "service-account-jwks-uri", "",
		"address of the public keys in the discovery document of the issuer (default at this server)")
	flags.StringSliceVar(&a.APIAudiences, "api-audiences", nil,
		"audiences of this server, one of which a service account token must be for (default the issuers)")
	flags.DurationVar(&a.ServiceAccountMaxTokenExpiration, "service-account-max-token-expiration", 0,
		"longest time that a service account token is valid that is issued; 0 means what is asked for")
	flags.BoolVar(&a.BootstrapTokens, "enable-bootstrap-token-auth", false,
		"take the tokens of Secrets of the type bootstrap.kubernetes.io/token in kube-system")
	externalFlags(flags, a)
	proxyFlags(flags, &a.FrontProxy)
}

// externalFlags adds the flags about tokens that others have issued.
func externalFlags(flags *pflag.FlagSet, a *gapless.Authentication) {
	flags.StringVar(&a.ConfigFile, "authentication-config", "",
		"file that says which issuers of OpenID Connect tokens are trusted and which requests are anonymous "+
			"(AuthenticationConfiguration of apiserver.config.k8s.io/v1); read again when it changes")
	o := &a.OIDC
	flags.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "https URL of an issuer of OpenID Connect tokens")
	flags.StringVar(&o.ClientID, "oidc-client-id", "", "audience that a token of --oidc-issuer-url must be for")
	flags.StringVar(&o.CAFile, "oidc-ca-file", "", "file with the CAs of the issuer, in PEM (default those of the system)")
	flags.StringVar(&o.UsernameClaim, "oidc-username-claim", "", "claim with the name of the user (default sub)")
	flags.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "",
		"what stands before the name of the user; - is nothing (default the issuer and #, unless the claim is email)")
	flags.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "claim with the groups of the user (default none)")
	flags.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "what stands before each group")
	flags.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", nil,
		"algorithms that a token may be signed with, of RS, ES and PS with 256, 384 and 512 (default RS256)")
	flags.Var(pairs{&o.RequiredClaims}, "oidc-required-claim", "claim that a token must have, as key=value; can be repeated")
	w := &a.Webhook
	flags.StringVar(&w.ConfigFile, "authentication-token-webhook-config-file", "",
		"kubeconfig of a server that is asked about tokens that nobody else knows, by TokenReviews")
	flags.StringVar(&w.Version, "authentication-token-webhook-version", "v1beta1", "version of those TokenReviews, v1 or v1beta1")
	flags.DurationVar(&w.CacheTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute,
		"how long its answers count; 0 means that none is kept")
}

// proxyFlags adds the flags about a front proxy.
func proxyFlags(flags *pflag.FlagSet, p *gapless.FrontProxy) {
	flags.StringVar(&p.ClientCAFile, "requestheader-client-ca-file", "",
		"file with the CAs of the client certificate of a front proxy, which names users in headers, in PEM; read again when "+
			"it changes")
	flags.StringSliceVar(&p.AllowedNames, "requestheader-allowed-names", nil,
		"common names of the front proxy's certificate (default any)")
	flags.StringSliceVar(&p.UsernameHeaders, "requestheader-username-headers", nil,
		"headers with the name of the user, for example X-Remote-User")
	flags.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil,
		"headers with the UID of the user, among them X-Remote-Uid")
	flags.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", nil,
		"headers with groups of the user, for example X-Remote-Group")
	flags.StringSliceVar(&p.ExtraHeaderPrefixes, "requestheader-extra-headers-prefix", nil,
		"beginnings of headers with more about the user, for example X-Remote-Extra-")
}

// pairs is a flag that can be repeated, with a key and a value.
type pairs struct{ all *map[string]string }

// String implements pflag.Value.
func (p pairs) String() string {
	if p.all == nil {
		return ""
	}
	var texts []string
	for _, key := range slices.Sorted(maps.Keys(*p.all)) {
		texts = append(texts, key+"="+(*p.all)[key])
	}
	return strings.Join(texts, ",")
}

// Set implements pflag.Value.
func (p pairs) Set(text string) error {
	key, value, has := strings.Cut(text, "=")
	if !has {
		return fmt.Errorf("malformed pair %q: want key=value", text)
	}
	if *p.all == nil {
		*p.all = map[string]string{}
	}
	(*p.all)[strings.TrimSpace(key)] = strings.TrimSpace(value)
	return nil
}

// Type implements pflag.Value.
func (pairs) Type() string { return "key=value" }

// authorizationFlags adds the flags about who decides what callers may do. Their names are kube-apiserver's.
func authorizationFlags(flags *pflag.FlagSet, f *serveFlags) {
	flags.StringSliceVar(&f.modes, "authorization-mode", []string{gapless.AuthorizationRBAC},
		"who may do what, by the first of several that allows or denies it: "+gapless.AuthorizationNode+
			" kubelets what their node needs, "+gapless.AuthorizationRBAC+" by roles and bindings, "+gapless.AuthorizationWebhook+
			" another server, "+gapless.AuthorizationAlwaysAllow+
			" allows everything to everybody who is known, "+gapless.AuthorizationAlwaysDeny+" allows nothing; or alone "+
			gapless.AuthorizationMastersOnly+", for members of system:masters only")
	a := &f.authorization
	flags.StringVar(&a.ConfigFile, "authorization-config", "",
		"file with that list, instead of --authorization-mode and --authorization-webhook-* (AuthorizationConfiguration of "+
			"apiserver.config.k8s.io/v1); read again when it changes")
	flags.StringVar(&a.Webhook.ConfigFile, "authorization-webhook-config-file", "",
		"kubeconfig of the server that the mode Webhook asks, by SubjectAccessReviews")
	flags.StringVar(&a.Webhook.Version, "authorization-webhook-version", "v1beta1",
		"version of those SubjectAccessReviews, v1 or v1beta1")
	flags.DurationVar(&a.Webhook.CacheAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute,
		"how long its answers count that allow; 0 means that none is kept")
	flags.DurationVar(&a.Webhook.CacheUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second,
		"how long its other answers count; 0 means that none is kept")
}

// accessOf takes for the configuration what flags say: a 0 that means none, and what is only a default beside a file.
func accessOf(f *serveFlags, flags *pflag.FlagSet) {
	f.callers.PrivateHealth = flags.Changed("anonymous-auth") && !f.callers.Anonymous
	f.callers.FixedTokenExpiration = !f.extendTokens
	for _, ttl := range []*time.Duration{
		&f.callers.Webhook.CacheTTL, &f.authorization.Webhook.CacheAuthorizedTTL, &f.authorization.Webhook.CacheUnauthorizedTTL,
	} {
		if *ttl == 0 {
			*ttl = -1
		}
	}
	given := false
	for _, name := range []string{
		"mode", "webhook-config-file", "webhook-version", "webhook-cache-authorized-ttl", "webhook-cache-unauthorized-ttl",
	} {
		given = given || flags.Changed("authorization-"+name)
	}
	if f.authorization.ConfigFile != "" && !given {
		f.modes, f.authorization.Webhook = nil, gapless.AccessWebhook{}
	}
}
