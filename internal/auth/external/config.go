// Package external identifies callers by tokens that others have issued: those of OpenID Connect issuers, whose
// signatures it verifies, and those about which it asks a webhook.
//
// [Read] checks what is configured. [Tokens] is the authenticator: Start begins to ask the issuers for their keys, and Run
// follows the file with the issuers. Both use the packages of k8s.io/apiserver, so that rules and texts are upstream's
// (kubernetes pkg/kubeapiserver/authenticator and options/authentication.go).
package external

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"

	"github.com/gapless-io/gapless/internal/auth"
)

// Config says whose tokens are taken.
type Config struct {
	// File has an AuthenticationConfiguration of apiserver.config.k8s.io; "": none.
	File string
	// OIDC is an issuer instead of those of a file; without its IssuerURL there is none.
	OIDC OIDC
	// Webhook is asked about tokens that nobody else knows.
	Webhook Webhook
	// Disallowed are the issuers of service accounts, whose tokens no other issuer may have.
	Disallowed []string
	// Audiences are those of this server.
	Audiences []string
	Reloads   *auth.Reloads // counts changes of File; nil: nothing does
	Logger    *slog.Logger  // required
}

// OIDC is one issuer, by kube-apiserver's flags --oidc-*.
type OIDC struct {
	IssuerURL, ClientID, CAFile   string
	UsernameClaim, UsernamePrefix string
	GroupsClaim, GroupsPrefix     string
	SigningAlgs                   []string
	RequiredClaims                map[string]string
}

// given reports whether something is configured.
func (o OIDC) given() bool {
	return o.IssuerURL != "" || o.ClientID != "" || o.CAFile != "" || o.UsernameClaim != "" || o.UsernamePrefix != "" ||
		o.GroupsClaim != "" || o.GroupsPrefix != "" || len(o.SigningAlgs) > 0 || len(o.RequiredClaims) > 0
}

// Webhook is a server that reviews tokens, by kube-apiserver's flags --authentication-token-webhook-*.
type Webhook struct {
	ConfigFile string // a kubeconfig; "": none
	Version    string // of the TokenReview: v1 or v1beta1
	CacheTTL   time.Duration
}

// settings are what a configuration comes to.
type settings struct {
	content   []byte // of the file
	issuers   []apiserver.JWTAuthenticator
	anonymous *apiserver.AnonymousAuthConfig // nil: the configuration does not say it
	// algorithms are those that a token may be signed with.
	algorithms []string
}

// settings reads the configuration. Its errors name the file or the flags.
func (c Config) settings() (settings, error) {
	switch {
	case c.File != "" && c.OIDC.given():
		return settings{}, errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	case c.File != "":
		content, err := os.ReadFile(c.File)
		if err != nil {
			return settings{}, fmt.Errorf("read the authentication configuration: %w", err)
		}
		s, err := c.parse(content)
		if err != nil {
			return settings{}, fmt.Errorf("authentication configuration %s: %w", c.File, err)
		}
		return s, nil
	case !c.OIDC.given():
		return settings{}, nil
	case c.OIDC.IssuerURL == "" || c.OIDC.ClientID == "":
		return settings{}, errors.New(
			"oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	one, err := c.OIDC.issuer()
	if err != nil {
		return settings{}, err
	}
	s := settings{issuers: []apiserver.JWTAuthenticator{one}, algorithms: c.OIDC.SigningAlgs}
	if len(s.algorithms) == 0 {
		s.algorithms = []string{"RS256"}
	}
	for _, algorithm := range s.algorithms {
		if !slices.Contains(oidc.AllValidSigningAlgorithms(), algorithm) {
			return settings{}, fmt.Errorf("oidc-signing-algs: %q is unknown: want some of %v",
				algorithm, oidc.AllValidSigningAlgorithms())
		}
	}
	if err := c.check(&apiserver.AuthenticationConfiguration{JWT: s.issuers}); err != nil {
		return settings{}, fmt.Errorf("oidc-* flags: %w", err)
	}
	return s, nil
}

// SaysAnonymous reports whether a file says which requests are anonymous. One that cannot be read does not.
func SaysAnonymous(file string) bool {
	if file == "" {
		return false
	}
	s, err := Config{File: file}.settings()
	return err == nil && s.anonymous != nil
}

// parse reads the content of a file.
func (c Config) parse(content []byte) (settings, error) {
	if len(content) == 0 {
		return settings{}, errors.New("empty config data")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), content)
	if err != nil {
		return settings{}, err
	}
	read, is := decoded.(*apiserver.AuthenticationConfiguration)
	if !is {
		return settings{}, fmt.Errorf("expected AuthenticationConfiguration, got %T", decoded)
	}
	if err := c.check(read); err != nil {
		return settings{}, err
	}
	return settings{content, read.JWT, read.Anonymous, oidc.AllValidSigningAlgorithms()}, nil
}

func (c Config) check(read *apiserver.AuthenticationConfiguration) error {
	errs := validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), read, c.Disallowed)
	for i, issuer := range read.JWT {
		if issuer.Issuer.EgressSelectorType != "" {
			errs = append(errs, field.Forbidden(field.NewPath("jwt").Index(i).Child("issuer", "egressSelectorType"),
				"this server has no egress selector"))
		}
	}
	return errs.ToAggregate()
}

// issuer returns the issuer of the flags as one of a file.
func (o OIDC) issuer() (apiserver.JWTAuthenticator, error) {
	claim, prefix := o.UsernameClaim, o.UsernamePrefix
	if claim == "" {
		claim = "sub"
	}
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	}
	one := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}},
		ClaimMappings: apiserver.ClaimMappings{
			Username: apiserver.PrefixedClaimOrExpression{Prefix: &prefix, Claim: claim},
		},
	}
	if o.GroupsClaim != "" {
		one.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Prefix: &o.GroupsPrefix, Claim: o.GroupsClaim}
	}
	if o.CAFile != "" {
		ca, err := os.ReadFile(o.CAFile)
		if err != nil {
			return one, fmt.Errorf("read the CA of the issuer (oidc-ca-file): %w", err)
		}
		one.Issuer.CertificateAuthority = string(ca)
	}
	for _, claim := range slices.Sorted(maps.Keys(o.RequiredClaims)) {
		one.ClaimValidationRules = append(one.ClaimValidationRules,
			apiserver.ClaimValidationRule{Claim: claim, RequiredValue: o.RequiredClaims[claim]})
	}
	return one, nil
}
