// Package etcd is a store over an etcd cluster, in the layout of kube-apiserver: etcd commits, its
// revisions are the resourceVersions, and a log of the replica's own has the history.
//
// A [Store] is one replica. A [Layout] says where an object is in etcd, and in which form. A
// [Cluster] says how to reach one etcd. A position is a revision of the replica's log, which numbers
// what it is given without gaps. A hole is a stretch of etcd's revisions of which only the difference
// between its ends is known, because etcd compacted the changes before the replica had seen them.
//
// follow.go has how a replica follows etcd, continues.go how it learns that etcd does not continue what it has,
// write.go what it records, positions.go how a position becomes a revision and back, load.go how a start finds
// that out, known.go what is done if the log lacks a resource; commit.go when a write is acknowledged, and what
// is done when etcd does not answer, attend.go when a write is given up; progress.go what a fresh read costs.
package etcd

import (
	"context"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
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
	// which it is stored. before returns the value in etcd that this one replaces, which may have what the
	// store's values do not show; it is nil for a creation. It does not keep value.
	Encode(key string, value []byte, before func() ([]byte, error)) ([]byte, error)
	// AppendDecoded is the reverse, of any form that kube-apiserver writes. It appends the value to b, which may have
	// been written to after an error. It does not keep stored.
	AppendDecoded(b []byte, key string, stored []byte) ([]byte, error)
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
	// Known says which resources the Layout knows by name, and what their keys are; "*" stands for all others.
	// If the log was written with another one, the state is read again.
	Known map[string]string
	// Dir is the directory of the replica's own log; with Memory it is not used.
	Dir    string
	Memory bool
	// History and HistoryBytes bound the history of the replica's log; see revlog.Options.
	History      time.Duration
	HistoryBytes int64
	// TTL, if not nil, is how long the object of a key of the store lives after each write of it that is
	// not lasting; 0: until it is deleted. etcd deletes it.
	TTL func(key string) time.Duration
	// Admit, if not nil, is asked before the store reads what etcd has, each time that it connects. A
	// *RefusedError ends Run.
	Admit func(ctx context.Context, client *clientv3.Client) error
	// FS replaces the file system below Dir, for tests of failures. SegmentBytes and GroupWrites are
	// for them too; see revlog.Options.
	FS           disk.FS
	SegmentBytes int64
	GroupWrites  int

	Logger *slog.Logger // nil: none
}
