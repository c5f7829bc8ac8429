// Package kubers runs kube-rs, the Rust client, against the server: 5.0 of 2026 with
// its feature gzip and without, whose watcher begins with a streaming list, and 0.78 of
// 2023, whose watcher lists. It also runs what 5.0 writes, and kube-rs's own tests.
package kubers
