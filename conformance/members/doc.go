// Package members checks how replicas know each other, over clusters of real members of etcd, each in
// a process of its own: killed, paused, without quorum, and beside the compactor of kube-apiserver.
package members
