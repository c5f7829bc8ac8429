// Package kubers runs kube-rs, the Rust client, against the server: 5.0 of 2026 with
// its feature gzip and without, whose watcher begins with a streaming list, and 0.78 of
// 2023, whose watcher lists.
package kubers
