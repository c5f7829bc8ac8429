// Package hook calls webhooks over HTTPS: those that convert objects, and those that are asked
// about writes.
//
// [Callers] are the connections to all webhooks of one purpose. A [Caller] posts to one
// webhook. A [Cluster] knows where services are.
//
// A webhook that hangs costs no more than the places that its callers have: more of them wait,
// no longer than their own time. Nothing here holds a lock while a webhook is called.
package hook

import (
	"fmt"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Credentials returns what a webhook at a host and port (a Service: NAME.NAMESPACE.svc:PORT) is shown. Only credentials count
// of the result, which the caller may change. Its errors are those of calls.
type Credentials func(host string) (*rest.Config, error)

// Config says how webhooks are called. All members but Redirects and Credentials are required.
type Config struct {
	Cluster Cluster
	// MaxAnswer bounds an answer, in bytes.
	MaxAnswer int
	// Concurrent bounds the calls of one webhook at a time; more wait.
	Concurrent int
	// MaxCallers bounds the webhooks to which connections are kept.
	MaxCallers int
	// Redirects says whether redirects are followed, as upstream's client does. A webhook of
	// which nothing is known but its URL should not choose what else this server calls.
	Redirects bool
	// Credentials are what webhooks are shown; nil: nothing.
	Credentials Credentials
}

// Callers are the callers of webhooks. They are safe for concurrent use. The user calls Close
// when nothing is called any more.
type Callers struct {
	cfg Config

	// mu guards known and order.
	mu    sync.Mutex
	known map[string]*Caller // by what they call
	order []string           // the oldest first
}

// NewCallers returns callers without connections. It starts no goroutine.
func NewCallers(cfg Config) *Callers {
	return &Callers{cfg: cfg, known: map[string]*Caller{}}
}

// Of returns the caller of a webhook.
func (c *Callers) Of(w *kinds.Webhook) *Caller {
	key := w.Identity()
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[key]; known != nil {
		return known
	}
	made := newCaller(c.cfg, w)
	if made.passing {
		return made
	}
	if len(c.order) == c.cfg.MaxCallers {
		oldest := c.order[0]
		c.order = append(c.order[:0], c.order[1:]...)
		c.known[oldest].connections.CloseIdleConnections()
		delete(c.known, oldest)
	}
	c.known[key] = made
	c.order = append(c.order, key)
	return made
}

// Close closes the connections that are not in use.
func (c *Callers) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.known {
		k.connections.CloseIdleConnections()
	}
}

// TooLargeError says that an answer has more bytes than it may.
type TooLargeError struct{ Limit int }

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer has more than %d bytes", e.Limit)
}
