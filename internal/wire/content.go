package wire

import "k8s.io/apimachinery/pkg/runtime/schema"

// Content is what other servers, which are aggregated, have in a namespace under deletion.
type Content struct {
	// Objects counts what is left, and Finalizers in how many of these objects each is.
	Objects    map[schema.GroupResource]int
	Finalizers map[string]int
	// Undiscovered says what is not known of the servers; nil: nothing.
	Undiscovered error
	// Failed are what could not be deleted.
	Failed []error
}
