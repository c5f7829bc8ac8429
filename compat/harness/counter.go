package harness

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// Counter counts the requests of an informer. Its Wrap goes into a rest.Config.
type Counter struct {
	// Path is a part of the URL of the resource that is counted.
	Path string

	lists, streams, watches, failed atomic.Int64
}

// Wrap counts the requests that go through it.
func (c *Counter) Wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		if strings.Contains(r.URL.Path, c.Path) && r.Method == http.MethodGet {
			q := r.URL.Query()
			switch {
			case q.Get("watch") == "" || q.Get("watch") == "false": // client-java sends it
				c.lists.Add(1)
			case q.Get("sendInitialEvents") == "true":
				c.streams.Add(1)
			default:
				c.watches.Add(1)
				return next.RoundTrip(r)
			}
			resp, err := next.RoundTrip(r)
			if err == nil && resp.StatusCode >= http.StatusInternalServerError {
				c.failed.Add(1)
			}
			return resp, err
		}
		return next.RoundTrip(r)
	})
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Lists returns how often the whole state was requested, by LIST or by streaming
// list, including requests that failed.
func (c *Counter) Lists() int64 { return c.lists.Load() + c.streams.Load() }

// Answered returns how many of Lists the server did not answer with an error of its own, such as
// that its etcd was too slow.
func (c *Counter) Answered() int64 { return c.Lists() - c.failed.Load() }

// String returns all three numbers.
func (c *Counter) String() string {
	return fmt.Sprintf("%d LISTs, %d streaming lists, %d WATCHes", c.lists.Load(), c.streams.Load(), c.watches.Load())
}
