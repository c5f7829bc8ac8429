package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gapless-io/gapless"
)

// etcdFlags are the flags about objects in etcd that are not values of gapless.Etcd.
type etcdFlags struct {
	gapless.Etcd

	overrides  []string
	compaction time.Duration
	compacts   bool // compaction was given
	mediaType  string
}

// protobuf is the media type in which kube-apiserver stores built-in kinds.
const protobuf = "application/vnd.kubernetes.protobuf"

// add adds the flags of kube-apiserver about etcd. Those that would have no effect here are refused.
func (f *etcdFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.Servers, "etcd-servers", nil,
		"URLs of an etcd cluster that keeps the objects, as kube-apiserver keeps them; the data directory then has the history "+
			"and the certificates of this replica only")
	addEtcdAccess(flags, &f.Etcd)
	flags.DurationVar(&f.HealthcheckTimeout, "etcd-healthcheck-timeout", 0,
		"how long etcd may take to answer the health check (default 2s)")
	flags.DurationVar(&f.ReadycheckTimeout, "etcd-readycheck-timeout", 0,
		"how long etcd may take to answer the readiness check (default 2s)")
	flags.DurationVar(&f.compaction, "etcd-compaction-interval", gapless.DefaultCompactionInterval,
		"how often etcd's own history is compacted; 0 means never; the history of the replicas is longer: --history")
	flags.StringVar(&f.mediaType, "storage-media-type", protobuf, "form of built-in kinds in etcd; there is no other")
	flags.StringSliceVar(&f.overrides, "etcd-servers-overrides", nil,
		"etcd clusters that have some built-in resources, instead of the one of --etcd-servers: group/resource#servers, with "+
			"semicolons between the URLs of the servers, like /events#http://10.0.0.4:2379;http://10.0.0.5:2379")
	refuse(flags, "etcd-count-metric-poll-period", "objects are counted in memory at each scrape")
	refuse(flags, "etcd-db-metric-poll-interval", "the size of etcd's database is asked for at each scrape")
	refuse(flags, "lease-reuse-duration-seconds", "leases are shared as kube-apiserver does by default")
}

// addEtcdAccess adds the flags that say how the objects in etcd are reached.
func addEtcdAccess(flags *pflag.FlagSet, e *gapless.Etcd) {
	flags.StringVar(&e.CAFile, "etcd-cafile", "", "file with the CAs of etcd's certificates, in PEM (default the system's)")
	flags.StringVar(&e.CertFile, "etcd-certfile", "", "file with a client certificate for etcd, in PEM")
	flags.StringVar(&e.KeyFile, "etcd-keyfile", "", "file with the key of --etcd-certfile")
	flags.StringVar(&e.Prefix, "etcd-prefix", "", "what the keys of all objects in etcd begin with (default "+
		gapless.DefaultEtcdPrefix+")")
}

// config returns what the flags describe.
func (f *etcdFlags) config() (gapless.Etcd, error) {
	e := f.Etcd
	if f.mediaType != protobuf {
		return e, fmt.Errorf("--storage-media-type %q: want %s", f.mediaType, protobuf)
	}
	var err error
	if e.Overrides, err = parseOverrides(f.overrides); err != nil {
		return e, err
	}
	switch {
	case f.compaction < 0:
		return e, fmt.Errorf("--etcd-compaction-interval %v: cannot be negative; 0 means never", f.compaction)
	case !f.compacts:
	case f.compaction == 0:
		e.CompactionInterval = gapless.Forever
	default:
		e.CompactionInterval = f.compaction
	}
	return e, nil
}

// errOverride is upstream's text (apiserver server/options/etcd.go ParseEtcdServersOverrides).
var errOverride = errors.New("--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are " +
	"URLs, semicolon separated")

// parseOverrides reads the values of --etcd-servers-overrides.
func parseOverrides(values []string) ([]gapless.EtcdOverride, error) {
	var all []gapless.EtcdOverride
	for _, value := range values {
		what, list, one := strings.Cut(value, "#")
		group, resource, of := strings.Cut(what, "/")
		servers := strings.Split(list, ";")
		if !one || !of || resource == "" || strings.Contains(list, "#") || strings.Contains(resource, "/") ||
			slices.Contains(servers, "") {
			return nil, fmt.Errorf("%q: %w", value, errOverride)
		}
		all = append(all, gapless.EtcdOverride{Group: group, Resource: resource, Servers: servers})
	}
	return all, nil
}

// refused is a flag of kube-apiserver that has no effect here.
type refused string

// refuse adds a flag that cannot be given: why not is in its error.
func refuse(flags *pflag.FlagSet, name, why string) {
	flags.Var(new(refused(why)), name, "not available: "+why)
	if err := flags.MarkHidden(name); err != nil {
		panic(err) // it was added above
	}
}

// String implements pflag.Value.
func (*refused) String() string { return "" }

// Type implements pflag.Value.
func (*refused) Type() string { return "string" }

// Set implements pflag.Value.
func (r *refused) Set(string) error { return errors.New("it is not available: " + string(*r)) }
