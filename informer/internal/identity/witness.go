package identity

import (
	"net/http"
	"sync"
)

// historyHeader asks a gapless server to refuse positions from before its data was
// replaced; see docs/extensions.md. Other servers ignore it.
const historyHeader = "Gapless-History"

// Witness tells a server which of its starts sent the position that a stream continues
// from. It belongs to one stream: others have other positions.
type Witness struct {
	Base http.RoundTripper // set before the first request

	// mu guards the rest.
	mu      sync.Mutex
	start   string // what the server answered last; "": it does not know the header
	vouched bool   // the server compared the start in the last request
}

// RoundTrip adds the header and records the response's.
func (w *Witness) RoundTrip(req *http.Request) (*http.Response, error) {
	w.mu.Lock()
	start := w.start
	w.mu.Unlock()
	if start == "" {
		start = "?"
	}
	req = req.Clone(req.Context())
	req.Header.Set(historyHeader, start)
	resp, err := w.Base.RoundTrip(req)
	if err != nil || resp.StatusCode/100 != 2 {
		return resp, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start = resp.Header.Get(historyHeader)
	w.vouched = w.start != "" && start != "?"
	return resp, nil
}

// WrappedRoundTripper returns the transport below (k8s.io/apimachinery net).
func (w *Witness) WrappedRoundTripper() http.RoundTripper { return w.Base }

// Vouches reports whether the server compared histories in its last answer.
func (w *Witness) Vouches() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.vouched
}
