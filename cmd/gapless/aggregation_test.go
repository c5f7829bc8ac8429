package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// TestFlagsOfAggregationAreKubeAPIServers holds which field each flag sets.
func TestFlagsOfAggregationAreKubeAPIServers(t *testing.T) {
	var got gapless.Aggregation
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	aggregationFlags(flags, &got)
	if err := flags.Parse([]string{"--proxy-client-cert-file=a.crt", "--proxy-client-key-file=a.key"}); err != nil {
		t.Fatalf("parse flags: %v", err)
	}
	if want := (gapless.Aggregation{ProxyClientCertFile: "a.crt", ProxyClientKeyFile: "a.key"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	cfg, err := serveFlags{
		aggregation: got, etcd: etcdFlags{mediaType: protobuf}, logFormat: "text", logLevel: "info", bootstrap: "auto",
	}.config(true, streams{})
	if err != nil || cfg.Aggregation != got {
		t.Errorf("%+v %v, want that serve takes them", cfg.Aggregation, err)
	}
}
