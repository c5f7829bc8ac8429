package past_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// unread counts the answers to lists that were not read to their end.
type unread struct {
	http.RoundTripper

	answers atomic.Int64
	lists   atomic.Int64 // all that there were
}

func (u *unread) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.RoundTripper.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/configmaps") && !r.URL.Query().Has("changes") {
		u.lists.Add(1)
		u.answers.Add(1)
		resp.Body = &unreadBody{ReadCloser: resp.Body, of: u}
	}
	return resp, err
}

type unreadBody struct {
	io.ReadCloser

	of   *unread
	read bool
}

func (b *unreadBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.read {
		b.read = true
		b.of.answers.Add(-1)
	}
	return n, err
}

// pager is where output goes. It may stand still at each write, which nothing must wait for.
type pager struct {
	text    strings.Builder
	of      *unread
	waiting int64 // the most answers that waited for a write
}

func (p *pager) Write(b []byte) (int, error) {
	p.waiting = max(p.waiting, p.of.answers.Load())
	return p.text.Write(b)
}

func TestNoAnswerWaitsForAPager(t *testing.T) {
	_, r := openServer(t)
	const objects = 300             // together more changes than one page has
	r.cfg.DisableCompression = true // so that answers do not arrive at once
	text := strings.Repeat("x", 4<<10)
	for i := range objects {
		name := fmt.Sprintf("c%03d", i)
		r.apply("a", configMaps+"/"+name, configMap(name, text))
	}
	then := pause().Format(time.RFC3339Nano)
	for n := range 2 {
		for i := range objects {
			r.merge("b", fmt.Sprintf("%s/c%03d", configMaps, i), fmt.Sprintf(`{"data":{"b":"%d"}}`, n))
		}
	}
	of := &unread{}
	r.cfg = rest.CopyConfig(r.cfg)
	r.cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		of.RoundTripper = next
		return of
	})
	for _, args := range [][]string{
		{"diff", "configmaps", "--diff", "--from", then}, {"get", "configmaps", "--at", then, "-o", "yaml"},
	} {
		out := &pager{of: of}
		err := r.runTo(t.Context(), out, io.Discard, args...)
		if out.waiting > 0 || of.lists.Load() == 0 || !strings.Contains(out.text.String(), "c299") {
			t.Errorf("%q: %d answers of %d waited for a write: %v\n%.1000s",
				args, out.waiting, of.lists.Load(), err, out.text.String())
		}
		of.lists.Store(0)
	}
}
