// Package authn identifies the callers of requests, as kube-apiserver does.
//
// An [Authenticator] looks at the client certificate, then at the bearer token; a request with
// neither is by system:anonymous, if that is configured. [FrontProxy] is what it asks first, about the headers of a
// proxy, and then [Certificates].
// [Tokens] are those of a file. [Accounts] are service accounts: they issue tokens and verify
// them against the objects in memory. [BootstrapTokens] are those of Secrets; package external has tokens that others
// verify. [Keys] sign and verify tokens. [Impersonation] makes a caller another
// user, if the caller may.
package authn

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
)

// Config says what an Authenticator asks. Members that are nil are left out.
type Config struct {
	// Trusted reports whether a CA is one whose client certificates count now. Nil: the TLS
	// layer has decided it, and nothing changes.
	Trusted    func(ca *x509.Certificate) bool
	FrontProxy *FrontProxy
	Tokens     *Tokens
	Accounts   *Accounts
	// Others know further tokens. They are asked last, in their order.
	Others []authenticator.Token
	// Audiences are those that a token must be for, if it is for any.
	Audiences []string
	// Anonymous makes requests without a certificate and without a token those of
	// system:anonymous, of the group system:unauthenticated. Otherwise they are 401.
	Anonymous bool
	// AnonymousPaths are the only paths for which requests are anonymous; without any, all are.
	AnonymousPaths []string
	Logger         *slog.Logger
}

// Authenticator identifies the caller of a request. It is safe for concurrent use.
type Authenticator struct {
	all       authenticator.Request
	reviewed  authenticator.Request // what is asked for the token of a TokenReview
	accounts  *Accounts             // nil: no tokens are issued
	proxy     *FrontProxy           // nil: none is trusted
	audiences authenticator.Audiences
	logger    *slog.Logger
}

// New returns an Authenticator. Its order and its rules are those of upstream
// (pkg/kubeapiserver/authenticator): the first that knows the caller decides, and a bad token or
// certificate is 401 also for who could be anonymous, unless another one knows the caller.
func New(cfg Config) *Authenticator {
	var tokens []authenticator.Token
	if cfg.Tokens != nil {
		tokens = append(tokens, authenticator.WrapAudienceAgnosticToken(cfg.Audiences, cfg.Tokens))
	}
	if cfg.Accounts != nil {
		tokens = append(tokens, cfg.Accounts)
	}
	token := tokenunion.New(append(tokens, cfg.Others...)...)
	requests := []authenticator.Request{NewCertificates(cfg.Trusted), Bearer(token)}
	if cfg.FrontProxy != nil {
		requests = append([]authenticator.Request{cfg.FrontProxy}, requests...)
	}
	all := union.New(requests...)
	if cfg.Anonymous {
		all = union.NewFailOnError(all, authenticator.RequestFunc(anonymous(cfg.AnonymousPaths)))
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Authenticator{
		all: all, reviewed: bearertoken.New(token), accounts: cfg.Accounts, proxy: cfg.FrontProxy, audiences: cfg.Audiences,
		logger: cfg.Logger,
	}
}

// Bearer returns what identifies callers by a token, in the header Authorization or among the
// subprotocols of a WebSocket. It removes the token of a caller that it knows from the request.
func Bearer(token authenticator.Token) authenticator.Request {
	return union.New(bearertoken.New(token), webSocketProtocol{token})
}

// Authenticate implements auth.Authenticator. The error is 401, and never says why: the log does,
// at the level debug. It removes the headers with the token of a caller that it knows.
func (a *Authenticator) Authenticate(r *http.Request) (user.Info, error) {
	response, known, err := a.all.AuthenticateRequest(r)
	if err != nil || !known {
		if err != nil {
			a.logger.LogAttrs(r.Context(), slog.LevelDebug, "a caller is not known", slog.Any("error", err))
		}
		return nil, wire.Unauthorized()
	}
	r.Header.Del("Authorization") // as upstream's filter, also after a certificate
	if a.proxy != nil {
		a.proxy.Clear(r.Header) // as upstream's: those that no proxy has sent
	}
	return response.User, nil
}

// anonymous is the last of the union: it takes everybody, or who asks for one of some paths (upstream's
// request/anonymous).
func anonymous(paths []string) func(*http.Request) (*authenticator.Response, bool, error) {
	return func(r *http.Request) (*authenticator.Response, bool, error) {
		if len(paths) > 0 && !slices.Contains(paths, r.URL.Path) {
			return nil, false, nil
		}
		return &authenticator.Response{
			User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}},
		}, true, nil
	}
}

// Review answers what a TokenReview asks: whose token it is, and for which of the audiences; without
// any, for those of the server. The error, if the user is nil, is upstream's text for the answer.
func (a *Authenticator) Review(ctx context.Context, token string, audiences []string) (user.Info, []string, error) {
	if len(audiences) == 0 {
		audiences = a.audiences
	}
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	// A request that has nothing but the token, as upstream's registry/authentication/tokenreview;
	// but nobody is anonymous, for a token of spaces.
	r := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}).WithContext(ctx)
	response, known, err := a.reviewed.AuthenticateRequest(r)
	if err != nil || !known {
		return nil, nil, err
	}
	return response.User, response.Audiences, nil
}

// Issue answers a TokenRequest for a service account, as Accounts.Issue.
func (a *Authenticator) Issue(ctx context.Context, account wire.Key, req *authenticationv1.TokenRequest) error {
	if a.accounts == nil {
		return wire.NotServed(accounts(), account.Name, "this server issues no tokens")
	}
	return a.accounts.Issue(ctx, account, req)
}

// Authenticated returns who has a token that another program has verified, with the group of everybody who is known.
func Authenticated(u user.Info) user.Info {
	return withGroup(&user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()})
}

// withGroup returns u with the group of everybody who is known, once. Upstream's
// group.AuthenticatedGroupAdder does it for each request; here it is done when a user is made.
func withGroup(u *user.DefaultInfo) *user.DefaultInfo {
	if u.Name == user.Anonymous {
		return u
	}
	for _, group := range u.Groups {
		if group == user.AllAuthenticated || group == user.AllUnauthenticated {
			return u
		}
	}
	out := *u
	out.Groups = append(append(make([]string, 0, len(u.Groups)+1), u.Groups...), user.AllAuthenticated)
	return &out
}
