// Package correctness checks gapless against upstream's executable specification of the
// storage, k8s.io/apiserver/pkg/storage/testing/correctness, which is in pre-releases
// of 0.38 only and needs Go 1.27.
//
// A run is a server under concurrent writers, readers and watchers, with compactions and
// restarts. A history is all answers that they got. A judge compares a history with upstream's
// model, by upstream's Replay and WatchValidator; tests that change a history show that it
// detects errors.
package correctness
