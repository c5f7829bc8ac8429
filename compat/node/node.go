// Package node runs the official JavaScript client against the server.
package node
