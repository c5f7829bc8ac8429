// Package replicas holds tests of several servers over one etcd, and of one beside a real
// kube-apiserver: what one of them writes, the other reads. It has no code but tests.
//
//	go test -count=1 -v .
package replicas
