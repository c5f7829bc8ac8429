// Package java runs the official Java client, whose HTTP client is OkHttp, against the
// server.
package java
