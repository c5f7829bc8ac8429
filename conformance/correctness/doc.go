// Package correctness holds gapless to upstream's executable specification of the
// storage, k8s.io/apiserver/pkg/storage/testing/correctness, which is in pre-releases
// of 0.38 only and needs Go 1.27.
//
// It has three nouns. A run is a server under concurrent writers, readers and
// watchers, with compactions and restarts. A history is everything that they were
// answered. A judge compares a history with upstream's model, by upstream's Replay
// and WatchValidator; that it can find fault is shown by changing what was seen.
package correctness
