package main

import (
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
}
