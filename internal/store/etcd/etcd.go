// Package etcd is a store over an etcd cluster, in the layout of kube-apiserver: etcd commits, its
// revisions are the resourceVersions, and a log of the replica's own has the history.
//
// A [Store] is one replica. A [Layout] says where an object is in etcd, and in which form. A
// [Cluster] says how to reach one etcd.
package etcd

import (
	"context"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Layout translates between the keys and values of a store and those of etcd. It is safe for concurrent
// use.
type Layout interface {
	// Key returns the key in etcd of a key of the store, with the prefix: for "configmaps/default/a" it is
	// "/registry/configmaps/default/a".
	Key(key string) (string, error)
	// StoreKey is the reverse. known is false for what the server does not serve, and leaves alone.
	StoreKey(etcdKey string) (key string, known bool)
	// Encode makes the value in etcd of a value of the store, the JSON of an object in the version in
	// which it is stored. It does not keep value.
	Encode(key string, value []byte) ([]byte, error)
	// Decode is the reverse, of any form that kube-apiserver writes. It does not keep stored.
	Decode(key string, stored []byte) ([]byte, error)
}

// Cluster says how to reach an etcd cluster: kube-apiserver's flags --etcd-….
type Cluster struct {
	Servers  []string // URLs
	CAFile   string   // PEM; "": the system's
	CertFile string   // PEM; "": no client certificate
	KeyFile  string
}

// Options configure a Store.
type Options struct {
	Cluster Cluster
	// Prefix is the first part of all keys of objects, "/registry".
	Prefix string
	Layout Layout
	// Dir is the directory of the replica's own log; with Memory it is not used.
	Dir    string
	Memory bool
	// History and HistoryBytes bound the history of the replica's log; see revlog.Options.
	History      time.Duration
	HistoryBytes int64
	Logger       *slog.Logger
}

// Dial returns a client of a cluster. It does not wait for a connection. The caller closes it.
func Dial(ctx context.Context, c Cluster) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Context: ctx, Endpoints: c.Servers})
}
