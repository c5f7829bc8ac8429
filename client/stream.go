package client

// Stream is an open watch, used by one goroutine. [Watch] implements it; code that reads
// watches takes a Stream, so that tests and other sources can provide one.
type Stream interface {
	// Next blocks until there is a frame. It returns io.EOF at a clean end.
	Next() (Frame, error)
	// Ready reports whether Next returns without waiting for the network.
	Ready() bool
	Close() error
}
