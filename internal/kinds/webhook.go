package kinds

import (
	"fmt"
	"strings"
)

// Webhook converts the objects of a custom resource between its versions. It is immutable.
type Webhook struct {
	URL     string            // "" if Service is set
	Service *ServiceReference // nil if URL is set
	// CABundle has the certificates of those who sign the webhook's, in PEM; empty: the
	// system's.
	CABundle []byte
	// ReviewVersions are the versions of ConversionReview that the webhook understands, the
	// preferred one first.
	ReviewVersions []string
}

// ServiceReference names a port and a path of a Service.
type ServiceReference struct {
	Namespace, Name string
	Path            string
	Port            int32
}

// Identity returns a text that is equal for webhooks that are called in the same way.
func (w *Webhook) Identity() string {
	var s ServiceReference
	if w.Service != nil {
		s = *w.Service
	}
	return strings.Join([]string{w.URL, fmt.Sprintf("%+q", s), string(w.CABundle)}, "\n")
}

// Converts reports whether an object that is stored in another version of a custom resource
// must be converted to this one: by a webhook, or because the versions have different
// schemas. Otherwise they differ in apiVersion only.
func (r *Resource) Converts() bool { return r.Webhook != nil || r.Coerce != nil }
