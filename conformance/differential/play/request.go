package play

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gapless-io/gapless/conformance/differential/script"
)

// answerWait bounds one request. Servers wait 3 s for a resource version.
const answerWait = 20 * time.Second

func (p *player) expand(text string) (string, error) {
	return script.Expand(text, func(name string) (string, bool) {
		value, ok := p.variables[name]
		return value, ok
	})
}

// newRequest makes the request of a step, exactly as it is written.
func (p *player) newRequest(ctx context.Context, r *Result) (*http.Request, error) {
	path, err := p.expand(r.Step.Path)
	if err != nil {
		return nil, err
	}
	r.Path = path
	body, err := p.expand(r.Step.Body)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(p.target.URL)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, r.Step.Method, p.target.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	// Opaque is sent as it is.
	req.URL = &url.URL{Scheme: base.Scheme, Host: base.Host, Opaque: path}
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	if p.target.Token != "" {
		req.Header.Set("Authorization", "Bearer "+p.target.Token)
	}
	set := map[string]bool{} // the script has it: further lines are further values
	for _, f := range r.Step.Header {
		value, err := p.expand(f.Value)
		if err != nil {
			return nil, err
		}
		if !set[f.Name] {
			req.Header.Del(f.Name)
		}
		req.Header.Add(f.Name, value)
		set[f.Name] = true
	}
	return req, nil
}

func (p *player) request(ctx context.Context, r *Result) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	req, err := p.newRequest(ctx, r)
	if err != nil {
		cancel()
		return err
	}
	if r.Step.Method != http.MethodGet && r.Step.Method != http.MethodHead {
		p.act()
	}
	transport := p.transport
	if r.Step.Later {
		// Play waits for it, and its context ends with the answer.
		p.later.Go(func() {
			defer cancel()
			r.Answer = roundTrip(transport, req)
		})
		return nil
	}
	defer cancel()
	r.Answer = roundTrip(transport, req)
	p.last = r.Answer.Body
	return nil
}

// roundTrip sends a request and reads its whole answer, unzipped.
func roundTrip(transport *http.Transport, req *http.Request) *Answer {
	sent := time.Now()
	resp, err := transport.RoundTrip(req)
	a := &Answer{Took: time.Since(sent), Failed: err}
	if err != nil {
		return a
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	a.Code, a.Header = resp.StatusCode, resp.Header
	if len(resp.TransferEncoding) > 0 {
		a.Header.Set("Transfer-Encoding", strings.Join(resp.TransferEncoding, ","))
	}
	if a.Body, a.Failed = io.ReadAll(resp.Body); a.Failed != nil || resp.Header.Get("Content-Encoding") != "gzip" {
		return a
	}
	zipped, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err == nil {
		a.Body, err = io.ReadAll(zipped)
	}
	a.Failed = err
	return a
}

// await asks until the code is there, and says so in the answer it keeps.
func (p *player) await(ctx context.Context, r *Result) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Step.Wait, errors.New("it never was"))
	defer cancel()
	for {
		req, err := p.newRequest(ctx, r)
		if err != nil {
			return err
		}
		a := roundTrip(p.transport, req)
		if a.Code == r.Step.Code {
			p.last = a.Body
			return nil
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("await %d: %w; at last %d %.200s", r.Step.Code, err, a.Code, a.Body)
		}
	}
}
