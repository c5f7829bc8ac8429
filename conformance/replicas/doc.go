// Package replicas holds tests of several servers over one etcd, and of one beside a real
// kube-apiserver: what one of them writes, the other reads. It has no code but tests.
//
//	go test -count=1 -v .
//	go test -count=1 -v -timeout 2h . -run TestRandomWritesBesideKubeAPIServer -seed 1 -writes 20000
package replicas
