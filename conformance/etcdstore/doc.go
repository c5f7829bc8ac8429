// Package etcdstore tests the store over etcd against a real etcd, in this process, which is also
// written to by others: what the store shows is compared with what etcd itself has.
package etcdstore
