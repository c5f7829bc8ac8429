// Package fabric8 runs the Java client of fabric8 against the server: 4.2.2 of 2019,
// whose watch is a WebSocket and compares resource versions as strings, and 7.8.0 of
// 2026 with its informers, over WebSocket and over HTTP, with what it writes, and an
// operator of java-operator-sdk, which is built on it. The
// program under test is a JVM that prints the events that it gets.
package fabric8
