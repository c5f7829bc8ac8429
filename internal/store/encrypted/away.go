package encrypted

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A key management service that does not answer costs whoever asks it a timeout. One who reads does not pay that
// twice: from then on, until an answer came, the service is asked in the background only.

// askEvery is how often a service that did not answer is asked again, while values are read that need it.
const askEvery = time.Second

// awayError is the error of a value whose key management service does not answer.
type awayError struct{ error }

// Unwrap returns the error of the service, or of the library.
func (e awayError) Unwrap() error { return e.error }

// outages are the key management services of a generation that did not answer when they were asked last. The zero
// value has none.
type outages struct {
	some atomic.Bool // there are some: usually no lock is taken

	// mu guards all, by what the values begin with (Encryption): others can be read meanwhile.
	mu  sync.Mutex
	all map[string]*outage
}

// outage is one of them.
type outage struct {
	why    error
	asked  time.Time // when the last answer did not come
	asking bool      // somebody does
}

// of returns why the service of a value is away; nil if it is not.
func (o *outages) of(v []byte) error {
	if !o.some.Load() {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if is := o.all[Encryption(v)]; is != nil {
		return is.why
	}
	return nil
}

// turn reports whether the caller is to ask the service of a value again, and then to call note.
func (o *outages) turn(v []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	is := o.all[Encryption(v)]
	if is == nil || is.asking || time.Since(is.asked) < askEvery {
		return false
	}
	is.asking = true
	return true
}

// mostOutages bounds the outages: others can write what the values begin with.
const mostOutages = 100

// note notes what came of asking the service of a value.
func (o *outages) note(v []byte, err error) {
	_, away := errors.AsType[awayError](err)
	if !away && !o.some.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if away {
		if o.all == nil || len(o.all) >= mostOutages {
			o.all = map[string]*outage{}
		}
		o.all[Encryption(v)] = &outage{why: err, asked: time.Now()}
	} else {
		delete(o.all, Encryption(v))
	}
	o.some.Store(len(o.all) > 0)
}

// managed decrypts a value whose key a management service has. Its error is awayError if that does not answer.
func (g *generation) managed(ctx context.Context, t *transformer, key string, v []byte) (out []byte, stale bool, err error) {
	why := g.outages.of(v)
	if why == nil {
		if out, stale, err = g.ask(ctx, t, key, v); err != nil && ctx.Err() == nil {
			g.outages.note(v, err)
		}
		return out, stale, err
	}
	// What was asked for before is known all the same. A context that has ended asks for nothing more.
	ended, end := context.WithCancel(ctx)
	end()
	if out, stale, err = t.decrypt(ended, key, v); err == nil {
		return out, stale, nil
	}
	if g.outages.turn(v) {
		v := bytes.Clone(v)
		// It ends with the generation, or after the timeout of the service. There is one for each service.
		go func() {
			_, _, err := g.ask(g.ends, t, key, v)
			g.outages.note(v, err)
		}()
	}
	return nil, false, why
}

// ask decrypts a value, whatever that takes.
func (g *generation) ask(ctx context.Context, t *transformer, key string, v []byte) (out []byte, stale bool, err error) {
	if out, stale, err = t.decrypt(ctx, key, v); err == nil {
		return out, stale, nil
	}
	// The library does not say whether the service was away, and a check may be what makes it
	// ask the service again: then the value can be read by now.
	if req, bad := http.NewRequestWithContext(ctx, http.MethodGet, "/healthz", http.NoBody); bad == nil && g.healthy(req) != nil {
		return nil, false, awayError{err}
	}
	if out, stale, err = t.decrypt(ctx, key, v); err != nil && passing(err) {
		err = awayError{err}
	}
	return out, stale, err
}

// passing reports whether a call of a key management service may succeed later.
func passing(err error) bool {
	switch status.Code(err) { //nolint:exhaustive // the others are answers of the service
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Canceled:
		return true
	}
	return false
}
