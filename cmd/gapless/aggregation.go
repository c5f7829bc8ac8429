package main

import (
	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// aggregationFlags adds the flags about the API servers that APIServices name. Their names are kube-apiserver's.
func aggregationFlags(flags *pflag.FlagSet, a *gapless.Aggregation) {
	flags.StringVar(&a.ProxyClientCertFile, "proxy-client-cert-file", "",
		"file with the client certificate, in PEM, by which API servers that APIServices name trust what this one says about "+
			"users; read again when it changes")
	flags.StringVar(&a.ProxyClientKeyFile, "proxy-client-key-file", "", "file with the key of --proxy-client-cert-file")
}
