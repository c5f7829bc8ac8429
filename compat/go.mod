// What the clients in other languages need of Go, and the harness of all clients. A client
// in Go has its own module, with its own versions of the libraries.
module github.com/gapless-io/gapless/compat

go 1.26.0
